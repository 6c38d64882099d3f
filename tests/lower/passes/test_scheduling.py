"""Independent long chains take turns; what must stay in order does."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from straight_runs import LANES, check, instructions, random_run
from tilewright import named_kernels
from tilewright.ir import KernelBuilder, where
from tilewright.ir.dtypes import float32
from tilewright.ir.node import const
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.lower.passes import scheduling as passes
from tilewright.lower.passes.scheduling import interleave, peak, shorten
from tilewright.opts import apply, parse
from tilewright.program.builder import Builder
from tilewright.program.program import Block, For, If, Instr, Mem, Phase, Program, Val
from tilewright.targets import named


def chains(ops: list[str], copies: int, long: int = 12, store: bool = True) -> Phase:
    """Copies of load, a chain of operations, store: one after another."""
    b = Builder()
    with b.phase(const(1), ()) as phase:
        for c in range(copies):
            v = b.load(Mem("param", 0, float32, c * LANES), phase.item, LANES)
            for i in range(long):
                v = b.op(ops[i % len(ops)], v, b.const(1.5 + i, float32, LANES))
            b.store(Mem("param", 1, float32, c * LANES), phase.item, v)
    return phase


def starts(phase: Phase, op: str) -> list[int]:
    """Which copy each operation `op` belongs to, in order: copies are told apart by the load they began with."""
    root: dict[Val, int] = {}
    out: list[int] = []
    for s in instructions(phase.body):
        if s.out is None:
            continue
        root[s.out] = s.attr.offset // LANES if s.op == "load" else max((root[a] for a in s.args if a in root), default=-1)
        if s.op == op:
            out.append(root[s.out])
    return out


def test_neighbouring_chains_take_turns() -> None:
    phase = chains(["mul"], 4)
    assert starts(phase, "mul") == sorted(starts(phase, "mul"))
    interleave(phase, 32)
    order = starts(phase, "mul")
    assert sorted(order) == sorted([*range(4)] * 12)
    assert all(set(order[i : i + 8]) >= {0, 1} for i in range(0, 16, 4))


def test_fewer_registers_open_fewer_chains() -> None:
    """As many as fit in registers at once, and two at least."""
    few, many = chains(["mul"], 16), chains(["mul"], 16)
    interleave(few, 2)
    interleave(many, 32)
    assert starts(few, "mul")[:8] == [0, 1] * 4 and starts(many, "mul")[:8] == [*range(8)]


def test_short_chains_and_single_chains_keep_their_order() -> None:
    for phase in (chains(["mul"], 8, long=4), chains(["mul"], 1, long=40)):
        before = instructions(phase.body)
        interleave(phase, 32)
        assert instructions(phase.body) == before


def test_divisions_are_spread() -> None:
    """The divider takes one at a time: while there is other work, one does not follow another."""
    b = Builder()
    with b.phase(const(1), ()) as phase:
        for c, (op, long) in enumerate([("div", 4), ("div", 4), ("mul", 60), ("mul", 60)]):
            v = b.load(Mem("param", 0, float32, c * LANES), phase.item, LANES)
            for i in range(long):
                v = b.op(op, v, b.const(1.5 + i, float32, LANES))
            b.store(Mem("param", 1, float32, c * LANES), phase.item, v)
    interleave(phase, 32)
    ops = "".join("D" if s.op == "div" else "." for s in instructions(phase.body))
    assert ops.count("D") == 8 and "DD" not in ops


@pytest.mark.parametrize("seed", range(40))
def test_random_runs_keep_what_must_stay(seed: int) -> None:
    r = random.Random(seed)
    phase = random_run(r)
    before = instructions(phase.body)
    interleave(phase, r.choice([4, 16, 32]))
    check(before, instructions(phase.body))


def blocks(block: Block) -> list[Block]:
    return [block, *(x for s in block.stmts if isinstance(s, (For, If)) for x in blocks(s.body))]


def softmax(opts: list[Any], target: str) -> Program:
    return lower(apply(normalise(named_kernels.make("softmax", {"m": 4, "n": 256}, "float32")), opts, named(target)))


def test_exps_of_a_loop_are_in_turns() -> None:
    """In the code of a row kernel, the second exp begins before the first ends."""
    program = softmax([["UPCAST", "n", 64]], "cascadelake")
    found = [b for p in program.phases for b in blocks(p.body) if sum(s.op == "scale2" for s in instructions(b)) == 4]
    assert found
    for block in found:
        ops = [s.op for s in instructions(block)]
        assert ops[: ops.index("scale2")].count("lt") > 2  # an exp alone compares twice


def test_groups_of_threads_are_left_to_their_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a GPU's code was reordered")

    monkeypatch.setattr("tilewright.lower.passes.scheduling.interleave", never)
    softmax([["UPCAST", "n", 4]], "sm_90a")
    with pytest.raises(AssertionError, match="reordered"):
        softmax([["UPCAST", "n", 64]], "cascadelake")


# What a store needs is brought together where registers are short; what must stay in order does.


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
def test_random_runs_keep_what_must_stay_in_shorten(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
