"""Quotients of rows by a number of the row's own: as near as divisions, also where something is not ordinary, and where what is divided
lies in the output."""

from __future__ import annotations

import math

import numpy as np
import pytest
from checks import check_compiled, check_floats
from tilewright import interp, targets
from tilewright.ir import Kernel, KernelBuilder, exp, float32, float64, log, sqrt
from tilewright.ir.dtypes import DType
from tilewright.ir.node import Node
from tilewright.lower import lower
from tilewright.lower.arithmetic.reciprocal_root import NORMAL, at_least, powers
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.program.listing import show
from tilewright.program.program import Instr, statements
from tilewright.targets import named

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


# a / sqrt(x) without a root: how far it is from the truth, where it applies, and what it gives for infinity and NaN.


LANES = [["UPCAST", "n", 16]]


def quotient(n: int, least: float = NORMAL, dtype: DType = float32) -> Kernel:
    """1 / sqrt(exp-free, positive): of max(x, least)."""
    kb = KernelBuilder("quotient")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), dtype)
    from tilewright.ir import maximum

    kb.store("y", dtype, (n,), (i,), 1.0 / sqrt(maximum(x[i], least)))
    return kb.build()


def roots(kernel: Kernel, opts: list[list[object]], target: str) -> int:
    program = lower(apply(kernel, opts, named(target)))
    return sum(isinstance(s, Instr) and s.op == "sqrt" for s in statements(program.phases[0].body))


@pytest.mark.parametrize("target", ["cascadelake", "avx2", "x86-64-v2"])
def test_within_two_ulp(target: str) -> None:
    rng = np.random.default_rng(0)
    mantissa, power = rng.uniform(1.0, 4.0, 4096), rng.integers(-62, 63, 4096)
    x = np.concatenate([mantissa * 4.0**power, np.linspace(1.0, 4.0, 4096)]).astype(np.float32)
    y = np.zeros_like(x)
    interp.run(lower(apply(quotient(len(x)), parse(LANES), named(target))), {"x": x, "y": y})
    true = 1.0 / np.sqrt(x.astype(np.float64))
    assert (np.abs(y - true) <= 2.0 * np.spacing(true.astype(np.float32))).all()


def test_ends() -> None:
    x = np.array([np.inf, np.nan, NORMAL, np.finfo(np.float32).max] * 4, np.float32)
    y = np.zeros_like(x)
    interp.run(lower(apply(quotient(16), LANES, named("cascadelake"))), {"x": x, "y": y})
    assert y[0] == 0.0 and math.isnan(y[1])
    assert np.allclose(y[2:4], 1.0 / np.sqrt(x[2:4].astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize(
    ("kernel", "opts", "target", "count"),
    [
        (quotient(16), LANES, "cascadelake", 0),
        (quotient(16), [], "cascadelake", 1),  # one element at a time
        (quotient(16), LANES, "avx2", 0),
        (quotient(16), LANES, "neon", 4),  # no instruction guesses
        (quotient(16, 0.0), LANES, "cascadelake", 1),  # zero is not normal
        (quotient(16, dtype=float64), [["UPCAST", "n", 8]], "cascadelake", 1),
    ],
)
def test_where_it_applies(kernel: Kernel, opts: list[list[object]], target: str, count: int) -> None:
    assert roots(kernel, opts, target) == count


def test_bounds_of_expressions() -> None:
    kb = KernelBuilder("bounds")
    x, i = kb.input("x", (4,), float32), kb.axis("n", 4)

    def bound(e: Node) -> float:
        return at_least(e)

    v = x[i]
    assert bound(v * v + 0.5) == 0.5
    assert bound(exp(v) + sqrt(v) + 2.0) == 2.0
    assert bound(v + 1.0) == bound(v * x[0]) == -math.inf
    assert bound(exp(v) / 127.0) == bound(v * v / (exp(v) + 1.0)) == 0.0
    assert bound(1.0 / sqrt(v)) == bound(v / 2.0) == bound(1.0 / -exp(v)) == -math.inf, "1 / -0.0 is below all"


def test_powers() -> None:
    """a / (x sqrt(x)) is the cube of what a / sqrt(x) takes."""
    kb = KernelBuilder("powers")
    i = kb.axis("n", 64)
    x = kb.input("x", (64,), float32)
    square = x[i] * x[i] + 0.25
    kb.store("y", float32, (64,), (i,), x[i] / (square * sqrt(square)))
    kernel = kb.build()
    assert roots(kernel, LANES, "cascadelake") == 0
    check_floats(kernel, parse(LANES), named("cascadelake"))
    square = x[i] * x[i] + 0.25
    for divisor in (square * x[i] * sqrt(square), sqrt(square) * sqrt(square)):
        assert powers(1.0 / divisor) is None


def test_compiled() -> None:
    check_compiled(quotient(100), parse(LANES))
