"""Quotients of rows by a number of the row's own: as near as divisions, also where something is not ordinary, and where what is divided
lies in the output."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import interp, targets
from tilewright.ir import Kernel, KernelBuilder, exp, float32, float64, log
from tilewright.ir.dtypes import DType
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.program.text import show

M, N = 14, 128


def rows_over(dtype: DType) -> Kernel:
    """x[m, n] / s[m]."""
    kb = KernelBuilder("rows_over")
    i, j = kb.axis("m", M), kb.axis("n", N)
    x, s = kb.input("x", (M, N), dtype), kb.input("s", (M,), dtype)
    kb.store("y", dtype, (M, N), (i, j), x[i, j] / s[i])
    return kb.build()


@pytest.mark.parametrize("dtype", [float32, float64])
def test_as_near_as_a_division(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    info = np.finfo(dtype.np)
    x = rng.standard_normal((M, N)).astype(dtype.np)
    s = np.array([3, -7, 1e-3, 0.1, info.max, 0, -0.0, np.inf, np.nan, info.tiny / 4, -1e20, 49, 1e8, 2], dtype.np)
    x[:, :12] = [0, -0.0, 1, info.max, np.inf, -np.inf, np.nan, info.tiny, info.tiny / 8, -info.smallest_subnormal, 49, 3]
    kernel, opts = rows_over(dtype), parse("Un16 Pm")
    program = lower(apply(kernel, opts, targets.named("cascadelake")))
    assert show(program).count(" fma ") >= 2  # it is corrected
    with np.errstate(all="ignore"):
        want = x / s[:, None]
    y = np.zeros((M, N), dtype.np)
    interp.run(program, {"x": x, "s": s, "y": y})
    for got in (y, best(kernel, opts=opts, threads=1)(x, s)):
        np.testing.assert_array_max_ulp(got, want, maxulp=1)
        plain = np.isfinite(want) & (got == want)
        assert (plain | ~np.isfinite(want)).mean() > 0.99  # all but ties that are nearly ones
        np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


@pytest.mark.parametrize("name", ["v2", "avx2", "cascadelake"])
def test_what_lies_in_the_output_is_read_before_it_is_written_over(name: str) -> None:
    """exp(x) is kept where log(exp(x)) + t is stored. Where an exponential is 0 or subnormal, all of its step is computed again."""
    kb = KernelBuilder("back")
    i = kb.axis("m", 3)
    a, b, c = (kb.axis(f"n@{site}", 32) for site in ("e", "sum", "out"))
    x = kb.input("x", (3, 32), float32)
    e = kb.value("e", (i, a), exp(x[i, a]))
    t = kb.sum("t", (i,), b, e[i, b])
    kb.store("y", float32, (3, 32), (i, c), log(e[i, c]) + t[i])
    v = np.random.default_rng(0).standard_normal((3, 32)).astype(np.float32)
    v[1, 5], v[2, 7] = -200, -95
    y = np.zeros((3, 32), np.float32)
    interp.run(lower(apply(kb.build(), parse("Un16 Pm Se@m"), targets.named(name))), {"x": v, "y": y})
    with np.errstate(divide="ignore"):
        want = np.log(np.exp(v)) + np.exp(v).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(y, want, rtol=1e-4)
