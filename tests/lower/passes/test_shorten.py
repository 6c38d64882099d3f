"""What a store needs is brought together where registers are short; what must stay in order does."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from straight_runs import LANES, check, instructions, random_run
from tilewright.ir import KernelBuilder, float32, where
from tilewright.ir.node import const
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.lower.passes import scheduling as passes
from tilewright.lower.passes.scheduling import peak, shorten
from tilewright.opts import apply, parse
from tilewright.program.builder import Builder
from tilewright.program.program import Instr, Mem, Phase
from tilewright.targets import named


def two_stores(copies: int, tall: int = 1, out: int = 3, nt: bool = False) -> Phase:
    """All copies of the sum of two rows, `tall` operations deep, then all of their differences' squares. `out`: where these go."""
    b = Builder()
    with b.phase(const(1), ()) as phase:
        each = [[b.load(Mem("param", p, float32, c * LANES), phase.item, LANES) for p in (0, 1)] for c in range(copies)]
        for store, op in ((2, "add"), (out, "sub")):
            made = []
            for x, y in each:
                v = w = b.op(op, x, y)
                for _ in range(tall):
                    v, w = b.op("mul", v, w), b.op("add", v, y)
                made.append(b.op("mul", v, w))
            for c, v in enumerate(made):
                b.store(Mem("param", store, float32, (c + copies * (op == "sub")) * LANES, nt=nt), phase.item, v)
    return phase


def held(run: list[Instr]) -> int:
    return peak(run, Counter(a for s in run for a in s.args), frozenset())


def stores(run: list[Instr]) -> list[int]:
    return [s.mem.offset // LANES for s in run if s.op == "store"]


def test_stores_of_one_point_come_together() -> None:
    phase = two_stores(16)
    before = instructions(phase.body)
    assert shorten(phase, 16)
    after = instructions(phase.body)
    check(before, after)
    assert held(before) > 32 and held(after) <= 16
    assert abs(stores(after).index(0) - stores(after).index(16)) < 16, "the second store of a point follows its first"


def test_what_fits_and_what_has_its_own_order_stays_as_it_is() -> None:
    """One output, or stores past the caches: lines are written whole in the order there is."""
    for phase, registers in ((two_stores(16), 64), (two_stores(4), 16), (two_stores(16, out=2), 16), (two_stores(16, nt=True), 16)):
        before = instructions(phase.body)
        assert not shorten(phase, registers) and instructions(phase.body) == before


def test_chains_that_wait_for_themselves_are_not_parted() -> None:
    """A batch of one long chain would leave nothing to do while it waits."""
    b = Builder()
    with b.phase(const(1), ()) as phase:
        sums = []
        for c in range(40):
            v = b.load(Mem("param", 0, float32, c * LANES), phase.item, LANES)
            sums.append(v)
        for i in range(12):
            sums = [b.op("mul", v, b.const(1.5 + i, float32, LANES)) for v in sums]
        for c, v in enumerate(sums):
            b.store(Mem("param", 1 + c % 2, float32, c * LANES), phase.item, v)
    assert held(instructions(phase.body)) >= 40
    assert not shorten(phase, 2)
    assert shorten(phase, 32), "ten at once are enough"


def test_parameters_that_share_memory_keep_their_order() -> None:
    """Where the output may be the first input, no later load of it passes a store."""
    apart, together = two_stores(16), two_stores(16)
    assert shorten(apart, 16)
    before = instructions(together.body)
    shorten(together, 16, frozenset({0, 2}))
    place = {id(s): i for i, s in enumerate(instructions(together.body))}
    first = min(place[id(s)] for s in before if s.op == "store")
    assert all(place[id(s)] < first for s in before if s.op == "load" and s.mem.base == 0)
    assert any(
        s.op == "load" and s.mem.base == 0 and i > min(j for j, t in enumerate(instructions(apart.body)) if t.op == "store")
        for i, s in enumerate(instructions(apart.body))
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_runs_keep_what_must_stay(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "AT_ONCE", 0.0)
    r = random.Random(seed)
    phase = random_run(r)
    before = instructions(phase.body)
    most = max(1, held(before) - 1)
    shorten(phase, most)
    check(before, instructions(phase.body))


def test_results_that_leave_a_run_are_held_to_its_end() -> None:
    b = Builder()
    with b.phase(const(1), ()) as phase:
        kept = []
        for c in range(4):
            v = b.load(Mem("param", 0, float32, c * LANES), phase.item, LANES)
            kept.append(b.op("add", v, v))
    run = instructions(phase.body)
    uses = Counter(a for s in run for a in s.args)
    assert peak(run, uses, frozenset(kept)) > peak(run, uses, frozenset())


def test_a_register_tile_of_two_stores() -> None:
    """As a user writes it: both stores choose by the same conditions."""
    kb = KernelBuilder("flow")
    u, v = kb.input("u", (20, 66), float32), kb.input("v", (20, 66), float32)
    i, j = kb.axis("h", 18), kb.axis("w", 64)
    for name, f in (("un", u), ("vn", v)):
        dx = where(u[i + 1, j + 1] > 0.0, f[i + 1, j + 1] - f[i + 1, j], f[i + 1, j + 2] - f[i + 1, j + 1])
        dy = where(v[i + 1, j + 1] > 0.0, f[i + 1, j + 1] - f[i, j + 1], f[i + 2, j + 1] - f[i + 1, j + 1])
        kb.store(name, float32, (18, 64), (i, j), f[i + 1, j + 1] - 0.1 * (u[i + 1, j + 1] * dx + v[i + 1, j + 1] * dy))
    seen: dict[str, list[int]] = {}

    def watch(stage: str, program: object) -> None:
        from tilewright.program.program import Program, statements

        assert isinstance(program, Program)
        seen[stage] = [s.mem.base for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "store"]

    lower(apply(normalise(kb.build()), parse([["UPCAST", "w", 32], ["UPCAST", "h", 2]]), named("avx2")), observe=watch)
    parts = {stage: sum(a != b for a, b in pairwise(bases)) for stage, bases in seen.items()}
    assert parts["shorten"] > parts["interleave"]
