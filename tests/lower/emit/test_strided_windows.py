"""Extremes of windows some elements apart: rows are reduced as they lie, and lanes are picked from them."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import interp, targets
from tilewright.heuristics import quick_starts
from tilewright.ir import KernelBuilder, float32, int32, where
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.program.program import Instr, Program, bodies

Pooling = tuple[int, int, int, int]
"""Taps, elements from a window to the next, from a tap to the next, and of padding, along both dimensions."""


def pooled(size: tuple[int, int], pooling: Pooling, dtype: DType) -> Kernel:
    """The largest elements of windows over two images."""
    taps, stride, dilation, pad = pooling
    out = [(n + 2 * pad - dilation * (taps - 1) - 1) // stride + 1 for n in size]
    kb = KernelBuilder("pooled")
    b, i, j, p, q = (kb.axis(name, n) for name, n in zip("bijpq", (2, *out, taps, taps)))
    x = kb.input("x", (2, *size), dtype)
    at = (i * stride + p * dilation - pad, j * stride + q * dilation - pad)
    inside: Node | None = None
    for a, n in zip(at, size):
        here = (a >= 0) & (a < n)
        inside = here if inside is None else inside & here
    none = float("-inf") if dtype.is_float else dtype.limits[0]
    e = x[b, at[0], at[1]] if not pad else where(inside, x.masked(inside, b, *at), none)
    top = kb.max("top", (b, i, j), (p, q), e)
    kb.store("y", dtype, (2, *out), (b, i, j), top[b, i, j])
    return kb.build()


def expected(x: np.ndarray, pooling: Pooling) -> np.ndarray:
    taps, stride, dilation, pad = pooling
    none = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    wide = np.pad(x, [(0, 0), (pad, pad), (pad, pad)], constant_values=none)
    reach = dilation * (taps - 1) + 1
    windows = np.lib.stride_tricks.sliding_window_view(wide, (reach, reach), axis=(1, 2))
    with np.errstate(invalid="ignore"):
        return windows[:, ::stride, ::stride, ::dilation, ::dilation].max(axis=(3, 4))


def images(size: tuple[int, int], dtype: DType) -> np.ndarray:
    """Numbers, of which some are none and some infinite."""
    rng = np.random.default_rng(7)
    x = (50 * rng.standard_normal((2, *size))).astype(dtype.np)
    if dtype.is_float:
        x[rng.random(x.shape) < 0.02] = np.nan
        x[rng.random(x.shape) < 0.05] = -np.inf
    return x


@pytest.mark.parametrize("name", ["v2", "avx2", "cascadelake"])
@pytest.mark.parametrize("out", [13, 27])
@pytest.mark.parametrize("pooling", [(3, 2, 1, 0), (3, 2, 1, 1), (2, 2, 1, 0), (3, 2, 2, 2), (3, 3, 1, 1), (5, 4, 1, 2), (2, 3, 3, 0)])
@pytest.mark.covering
def test_windows_apart(pooling: Pooling, out: int, name: str) -> None:
    taps, stride, dilation, pad = pooling
    rows, columns = ((o - 1) * stride + dilation * (taps - 1) + 1 - 2 * pad for o in (2, out))
    x, kernel = images((rows, columns), float32), pooled((rows, columns), pooling, float32)
    want = expected(x, pooling)
    for wide in (8, 16):
        opts, y = parse(f"Uj{wide} Ui2 Rp{taps} Rq{taps} Pb"), np.zeros(want.shape, np.float32)
        interp.run(lower(apply(kernel, opts, targets.named(name))), {"x": x, "y": y})
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("pooling", [(3, 2, 1, 1), (3, 2, 2, 2)])
def test_they_are_right_when_compiled(pooling: Pooling) -> None:
    size = (15, 61)
    x, kernel = images(size, int32), pooled(size, pooling, int32)
    found = best(kernel, opts=parse("Uj16 Ui2 Rp3 Rq3 Pb"), threads=1)(x)
    np.testing.assert_array_equal(found, expected(x, pooling))


def count(program: Program, op: str) -> int:
    """Instructions of a kind in the innermost code that is run where all elements are numbers."""
    found, stack = 0, [s for p in program.phases for s in p.body.stmts]
    while stack:
        s = stack.pop()
        if isinstance(s, Instr):
            found += s.op == op
        elif type(s).__name__ != "If":
            stack += [x for b in bodies(s) for x in b.stmts]
    return found


def test_columns_share_their_loads() -> None:
    """Of three rows two vectors and one more element are loaded and picked from: twice for the columns, and once for the last one, a lane further."""
    program = lower(apply(pooled((9, 33), (3, 2, 1, 0), float32), parse("Uj16 Rp3 Rq3"), targets.named("cascadelake")))
    assert count(program, "load") == 3 * 3
    assert count(program, "shuffle") == 3
    assert count(program, "lt") == 3 * 2 + 2


@pytest.mark.parametrize("name", ["avx2", "cascadelake"])
def test_sums_of_windows_gather_nothing_at_borders(name: str) -> None:
    """Whether there is a row, and which lanes there are, are masks of the vectors that elements are picked from."""
    kb = KernelBuilder("sums")
    b, i, j, p, q = (kb.axis(name, n) for name, n in zip("bijpq", (2, 6, 28, 3, 3)))
    x = kb.input("x", (2, 12, 56), float32)
    at = (2 * i + p, 2 * j + q)
    total = kb.sum("total", (b, i, j), (p, q), x.masked((at[0] < 12) & (at[1] < 56), b, *at))
    kb.store("y", float32, (2, 6, 28), (b, i, j), total[b, i, j])
    program = lower(apply(kb.build(), parse("Uj16 Ui2 Rp3 Rq3 Pb"), targets.named(name)))
    assert count(program, "gather") == 0 < count(program, "shuffle")
    v = np.random.default_rng(3).integers(-9, 9, (2, 12, 56)).astype(np.float32)
    y = np.zeros((2, 6, 28), np.float32)
    interp.run(program, {"x": v, "y": y})
    wide = np.pad(v, [(0, 0), (0, 1), (0, 1)])
    np.testing.assert_array_equal(y, np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))[:, ::2, ::2].sum(axis=(3, 4)))


@pytest.mark.parametrize("pooling", [(3, 2, 1, 1), (3, 2, 2, 2)])
def test_windows_that_begin_before_their_image_are_spelled_out_along_rows(pooling: Pooling) -> None:
    """Inside they are read in vectors where they lie, and taps may be dilated."""
    kernel, target = pooled((40, 80), pooling, float32), targets.named("cascadelake")
    first = quick_starts(kernel, target)[0]
    assert {o.on for o in first if o.op == "UNROLL"} == {"p", "q"} and all(o.op != "STAGE" for o in first)
    s = apply(kernel, first, target)
    assert s.lanes(s.nests[0]).width >= 8
