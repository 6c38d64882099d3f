"""Independent long chains take turns; what must stay in order does."""

from __future__ import annotations

import random
from typing import Any

import pytest
from straight_runs import LANES, check, instructions, random_run
from tilewright import named_kernels
from tilewright.ir.dtypes import float32
from tilewright.ir.node import const
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.lower.passes.scheduling import interleave
from tilewright.opts import apply
from tilewright.program.builder import Builder
from tilewright.program.program import Block, For, If, Mem, Phase, Program, Val
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
