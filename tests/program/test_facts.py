"""Intervals of indexes hold what the interpreter computes, and know when a result may leave int64."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hand_built import param
from tilewright import interp
from tilewright.ir.dtypes import float32, int8, int32, int64, uint8
from tilewright.ir.node import const, sym
from tilewright.program.builder import Builder
from tilewright.program.facts import INT32, INT64, Intervals, inside
from tilewright.program.program import Param, Program, Val

ITEMS, STEPS = 11, 40


def grow(b: Builder, some: list[Val], rng: random.Random) -> Val:
    """One more index computed from those there are."""
    op = rng.choice(("add", "sub", "mul", "fma", "neg", "abs", "max", "min", "idiv", "imod", "and", "shr", "select", "cast", "lanes"))
    x, y, z = (rng.choice(some) for _ in range(3))
    if op in ("neg", "abs"):
        return b.op(op, x)
    if op in ("idiv", "imod"):
        return b.op(op, x, attr=rng.choice((1, 3, 8, 100)))
    if op == "fma":
        return b.op(op, x, y, z)
    if op == "shr":
        return b.op(op, x, b.const(rng.randrange(5)))
    if op == "select":
        return b.op(op, b.op("lt", x, y), y, z)
    if op == "cast":
        return b.op(op, b.op(op, x, dtype=rng.choice((int8, uint8, int32))), dtype=int64)
    if op == "lanes":
        vector = b.op("add", b.splat(x, 4), b.const((3, -2, 0, 7), int64, 4))
        return b.extract(b.shuffle(vector, b.splat(y, 4), (5, 2, 1, 0)), rng.randrange(4))
    return b.op(op, x, y)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_computed_lies_inside(seed: int) -> None:
    rng = random.Random(seed)
    n = sym("n", 1, ITEMS)
    b = Builder()
    with b.phase(n, (n,)) as phase:
        some = [phase.item, phase.vars[0], b.const(-5), b.const(12)]
        kept: list[Val] = []
        with b.loop("k", b.const(2), phase.vars[0]) as loop:
            some.append(loop.var)
            for i in range(STEPS):
                v = grow(b, some, rng)
                kept.append(v)
                # what wrapped here would be Python's large numbers in the interpreter: only small ones go on
                some.append(b.op("imod", v, attr=1000) if i % 3 else b.op("min", b.op("max", v, b.const(-40)), b.const(90)))
                row = b.op("add", b.op("mul", phase.item, b.const(ITEMS)), loop.var)
                b.store(param(0, int64, i * ITEMS * ITEMS), row, v)
    y = np.full(STEPS * ITEMS * ITEMS, np.iinfo(np.int64).min, np.int64)
    interp.run(Program("ranges", (Param("y", int64, (len(y),), "out"),), (n,), [phase]), {"y": y}, [ITEMS])
    found = Intervals(phase, (n,))
    known = 0
    for v, row in zip(kept, y.reshape(STEPS, -1), strict=True):
        got = row[row != np.iinfo(np.int64).min]
        assert len(got)
        interval = found.of(v)
        if interval is not None:
            known += 1
            assert inside((int(got.min()), int(got.max())), interval)
    assert known > STEPS // 2


def test_what_may_wrap_has_no_interval() -> None:
    n = sym("n", 1, 1 << 40)
    b = Builder()
    with b.phase(n, (n,)) as phase:
        square = b.op("mul", phase.item, phase.item)
        loaded = b.load(param(0, int64), b.const(0))
        rest = b.op("imod", b.op("add", loaded, square), attr=10)
        narrow = b.op("min", loaded, b.const(7))
        with b.loop("k", b.const(0), b.const(5), 1, [b.const(0)]) as loop:
            loop.yields = [b.op("add", loop.carried[0], b.const(1))]
    found = Intervals(phase, (n,))
    assert found.of(square) is found.of(loaded) is found.of(loop.carried[0]) is None
    assert found.of(rest) == (0, 9) and found.of(narrow) == (INT64[0], 7)
    assert not inside(found.of(phase.item), INT32) and found.of(loop.var) == (0, 5)


def test_other_types_have_none() -> None:
    b = Builder()
    with b.phase(const(3), ()) as phase:
        x = b.op("cast", phase.item, dtype=int32)
        back = b.op("cast", b.op("cast", phase.item, dtype=float32), dtype=int64)
    found = Intervals(phase, ())
    assert found.of(x) is found.of(back) is None and found.of(phase.item) == (0, 2)
