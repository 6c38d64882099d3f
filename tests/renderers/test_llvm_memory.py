"""Loads and stores: masks touch no memory, gathers, bools as bytes, scratch and workspace, hints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hand_built import DISTINCT, compile_for, object_for, param, run, undefined
from tilewright import targets
from tilewright.ir.dtypes import bool_, dtype, float32, int32, int64
from tilewright.ir.errors import BuildError
from tilewright.ir.node import const, sym
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program
from tilewright.renderers import render
from tilewright.targets import Target

HOST = targets.host()
LESSER = [HOST] + [t for t in (targets.named("avx2"), targets.named("x86-64-v2")) if HOST.arch == t.arch and t.features < HOST.features]
target = pytest.mark.parametrize("target", LESSER, ids=lambda t: t.name)
NAMES = ("float32", "float64", "int32", "int64", "int8", "bool", "float16", "bfloat16")
FAR = 1 << 45  # elements away: touching that address is a crash


def ones(name: str, n: int) -> np.ndarray:
    return np.arange(1, n + 1).astype(dtype(name).np)


@pytest.mark.many
@target
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lanes", [8, 16])
def test_masked_vectors_touch_only_their_lanes(name: str, lanes: int, target: Target) -> None:
    d, counts = dtype(name), (0, 1, lanes // 2 - 1, lanes - 1, lanes)
    b = Builder()
    with b.phase(const(1), ()) as phase:
        for count in counts:
            # lanes from `count` on are off; the row starts so far back that even the first lane of an empty mask is not mapped
            at = b.const(-FAR if count == 0 else 32 * count)
            mask = b.op("lt", b.const(tuple(range(lanes)), int64, lanes), b.const(count, int64, lanes))
            x = b.load(param(0, d), at, lanes, mask)
            b.store(param(1, d), b.const(32 * count), x)
            b.store(param(2, d), at, x, mask)
    program = Program("masked", tuple(Param(p, d, (600,), "in") for p in "xyz"), (), [phase])
    x, y, z = ones(name, 600), ones(name, 600), ones(name, 600)
    kept = z.copy()
    run(program, [x, y, z], target=target)
    for count in counts:
        row = slice(32 * count, 32 * count + lanes)
        want = np.where(np.arange(lanes) < count, x[row], np.zeros_like(x[row]))
        assert y[row].tobytes() == want.tobytes()
        if count:
            np.testing.assert_array_equal(z[32 * count + count : 32 * count + 32], kept[32 * count + count : 32 * count + 32])
            np.testing.assert_array_equal(z[32 * count : 32 * count + count], x[32 * count : 32 * count + count])


@target
@pytest.mark.parametrize("name", NAMES)
def test_masked_scalars(name: str, target: Target) -> None:
    d = dtype(name)
    b = Builder()
    with b.phase(const(4), ()) as phase:
        on = b.op("lt", phase.item, b.const(2))
        at = b.op("select", on, phase.item, b.const(FAR))
        x = b.load(param(0, d), at, 1, on)
        b.store(param(1, d), phase.item, x)
        b.store(param(2, d), at, x, on)
    program = Program("scalars", tuple(Param(p, d, (4,), "in") for p in "xyz"), (), [phase])
    x, y, z = ones(name, 4), ones(name, 4), ones(name, 4)[::-1].copy()
    kept = z.copy()
    run(program, [x, y, z], target=target)
    assert y.tobytes() == np.concatenate([x[:2], np.zeros(2, x.dtype)]).tobytes()
    assert z.tobytes() == np.concatenate([x[:2], kept[2:]]).tobytes()


@pytest.mark.many
@target
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masked", [False, True])
def test_gather_and_scatter(name: str, masked: bool, target: Target) -> None:
    d, lanes = dtype(name), 8
    order = np.random.default_rng(3).permutation(64).astype("int64")
    keep = np.arange(64) % 3 != 0
    b = Builder()
    with b.phase(const(8), ()) as phase:
        at = b.op("mul", phase.item, b.const(lanes))
        mask = b.load(param(4, bool_), at, lanes) if masked else None
        where = b.load(param(3, int64), at, lanes)
        if mask is not None:
            where = b.op("select", mask, where, b.const(FAR, int64, lanes))
        b.store(param(1, d), at, b.gather(param(0, d), where, mask))
        b.store(param(2, d), where, b.load(param(0, d), at, lanes), mask)
    params = (*(Param(p, d, (64,), "in") for p in "xyz"), Param("i", int64, (64,), "in"), Param("m", bool_, (64,), "in"))
    x, y, z = ones(name, 64), ones(name, 64), np.zeros(64, dtype(name).np)
    run(Program("gather", params, (), [phase]), [x, y, z, order, keep], target=target)
    mask_ = keep if masked else np.ones(64, bool)
    assert y.tobytes() == np.where(mask_, x[order], np.zeros_like(x)).tobytes()
    want = np.zeros_like(z)
    want[order[mask_]] = x[mask_]
    assert z.tobytes() == want.tobytes()


def test_bools_are_bytes_and_any_byte_but_zero_is_true() -> None:
    b = Builder()
    with b.phase(const(1), ()) as phase:
        x = b.load(param(0, bool_), b.const(0), 8)
        b.store(param(1, bool_), b.const(0), b.op("not", x))
        b.store(param(1, bool_), b.const(8), b.op("not", b.load(param(0, bool_), b.const(1))))
    x, y = np.array([0, 1, 2, 255, 0, 0, 128, 1], np.uint8), np.full(9, 7, np.uint8)
    run(Program("bools", (Param("x", bool_, (8,), "in"), Param("y", bool_, (9,), "out")), (), [phase]), [x, y])
    np.testing.assert_array_equal(y, [1, 0, 0, 0, 1, 1, 0, 0, 0])


def test_offsets_scratch_and_workspace() -> None:
    work = Mem("work", 64, float32, align=4)
    b = Builder()
    with b.phase(const(4), ()) as first:
        x = b.load(replace(param(0, float32), offset=3), first.item)
        b.store(Mem("scratch", 128, float32, 5, 4), b.const(2), b.op("mul", x, x))
        b.store(work, first.item, b.load(Mem("scratch", 156, float32, 0, 4), b.const(0)))
    with b.phase(const(1), ()) as second:
        total = b.const(0.0, float32)
        with b.loop("i", b.const(0), b.const(4), 1, [total]) as loop:
            loop.yields = [b.op("add", loop.carried[0], b.load(work, loop.var))]
        b.store(param(1, float32), b.const(0), loop.results[0])
    program = Program(
        "spaces", (Param("x", float32, (7,), "in"), Param("y", float32, (1,), "out")), (), [first, second], scratch=256, work=128
    )
    x, y = np.arange(7, dtype="float32"), np.zeros(1, "float32")
    run(program, [x, y])
    assert y[0] == 9 + 16 + 25 + 36


def test_negative_and_symbolic_indices() -> None:
    n = sym("n", 1, 100)
    b = Builder()
    with b.phase(n, (n,)) as phase:
        (size,) = phase.vars
        back = b.op("sub", b.op("sub", size, b.const(1)), phase.item)
        b.store(param(1, int32), back, b.load(replace(param(0, int32), offset=-2), b.op("add", phase.item, b.const(2))))
    program = Program("reverse", (Param("x", int32, (n,), "in"), Param("y", int32, (n,), "out")), (n,), [phase])
    x, y = np.arange(37, dtype="int32"), np.zeros(37, "int32")
    run(program, [x, y], vars=[37], items=37)
    np.testing.assert_array_equal(y, x[::-1])


def copy(nt: bool) -> Program:
    b = Builder()
    with b.phase(const(4), ()) as phase:
        at = b.op("mul", phase.item, b.const(16))
        b.store(param(1, float32, nt=nt, align=64), at, b.load(param(0, float32), at, 16))
    return Program("copy", (Param("x", float32, (64,), "in"), Param("y", float32, (64,), "out")), (), [phase])


@pytest.mark.parametrize("name", ["cascadelake", "avx2", "x86-64-v2"])
def test_non_temporal_stores(name: str) -> None:
    t = targets.named(name)
    assert "movnt" in compile_for(t, render(copy(True), t))[0]
    assert "movnt" not in compile_for(t, render(copy(False), t))[0]


def test_storing_another_type_is_refused() -> None:
    b = Builder()
    with b.phase(const(1), ()) as phase:
        b.store(param(0, int32), b.const(0), b.const(1.0, float32))
    with pytest.raises(BuildError, match="cast it first"):
        render(Program("p", (Param("y", int32, (1,), "out"),), (), [phase]), HOST)


@pytest.mark.slow
@pytest.mark.parametrize("t", DISTINCT, ids=lambda t: t.name)
def test_masks_need_no_runtime_function(t: Target) -> None:
    for name in NAMES:
        d = dtype(name)
        b = Builder()
        with b.phase(const(1), ()) as phase:
            index = b.load(param(1, int64), b.const(0), 16)
            mask = b.op("lt", index, b.const(9, int64, 16))
            b.store(param(0, d), b.const(0), b.load(param(0, d), b.const(16), 16, mask), mask)
            b.store(param(0, d), index, b.gather(param(0, d), index, mask), mask)
        program = Program("masks", (Param("x", d, (64,), "out"), Param("i", int64, (16,), "in")), (), [phase])
        assert undefined(object_for(t, render(program, t))) == []
