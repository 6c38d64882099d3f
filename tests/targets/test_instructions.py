"""Instruction rows: their meaning, checked by hand-picked numbers, and who has them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tilewright import targets
from tilewright.targets import instructions

ROW = {r.name: r for r in instructions.ROWS}


def test_bf16_products_are_exact_and_each_sum_is_rounded() -> None:
    step = ROW["vdpbf16ps"].step
    assert step(1.0, (2.0, 3.0), (5.0, 7.0)) == 32.0
    # the odd pair goes first: 2**24 + 1 is lost before the even pair takes 2**24 away
    assert step(1.0, (1.0, 2.0**12), (-(2.0**24), 2.0**12)) == 0.0
    assert step(1.0, (2.0**12, 1.0), (2.0**12, -(2.0**24))) == 1.0


def test_bf16_rounds_once_to_nearest_even() -> None:
    step = ROW["vdpbf16ps"].step
    # 1 + 2**-24 is a tie: down to even; a hair more, too small for float64 beside it, goes up
    assert step(1.0, (0.0, 2.0**-12), (0.0, 2.0**-12)) == 1.0
    tie = 1.0 + 2.0**-23
    assert step(tie, (0.0, 2.0**-12), (0.0, 2.0**-12)) == 1.0 + 2.0**-22
    assert step(2.0**-24, (0.0, 1.0), (0.0, 1.0)) == 1.0
    assert step(2.0**-24 * (1 + 2.0**-23), (0.0, 1.0), (0.0, 1.0)) == 1.0 + 2.0**-23


def test_bf16_flushes_subnormals_and_keeps_specials() -> None:
    step = ROW["vdpbf16ps"].step
    assert step(2.0**-130, (0.0, 0.0), (0.0, 0.0)) == 0.0
    assert step(0.0, (0.0, 2.0**-100), (0.0, 2.0**-30)) == 0.0
    assert step(0.0, (0.0, 2.0**-100), (0.0, 2.0**-26)) == 2.0**-126
    assert math.isnan(step(0.0, (math.inf, 0.0), (0.0, 0.0)))
    assert step(3e38, (0.0, 2.0**64), (0.0, 2.0**64)) == math.inf
    assert math.copysign(1, step(-0.0, (-0.0, 1.0), (1.0, -0.0))) == -1


def test_vnni_wraps() -> None:
    step = ROW["vpdpbusd"].step
    assert step(10, (255, 1, 2, 3), (-128, 5, 6, 7)) == 10 - 255 * 128 + 5 + 12 + 21
    assert step(2**31 - 1, (1, 0, 0, 0), (1, 0, 0, 0)) == -(2**31)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("znver5", {"vdpbf16ps", "vpdpbusd"}),
        ("cascadelake", {"vpdpbusd"}),
        ("skylake-avx512", {"vpmaddwd"}),
        ("alderlake", {"vpdpbusd256"}),
        ("avx2", {"vpmaddwd256"}),
        ("neon", set()),
    ],
)
def test_targets_have_the_rows_of_their_features(name: str, rows: set[str]) -> None:
    assert {r.name for r in instructions.available(targets.named(name))} == rows


def test_rows_fit_a_register() -> None:
    for row in instructions.ROWS:
        assert row.n * row.c.size == (32 if "256" in row.name else 64) and row.k * row.b.size == row.k * row.a.size == row.c.size
        assert row.m == 1 and row.layout == (f"k/{row.k}", "n", f"k%{row.k}")


def _exact(a: float, b: float, c: float) -> float:
    """a·b + c rounded once to float32 by exact arithmetic, subnormals as zeros."""
    a, b, c = (math.copysign(0.0, v) if abs(v) < 2.0**-126 else v for v in (a, b, c))
    x = Fraction(a) * Fraction(b) + Fraction(c)
    if not x:
        return a * b + c
    # exponent of the leading bit, then 24 bits rounded to even
    e = math.floor(math.log2(abs(x)))
    e += (abs(x) >= Fraction(2) ** (e + 1)) - (abs(x) < Fraction(2) ** e)
    unit = Fraction(2) ** (e - 23)
    near = float(round(x / unit) * unit) if abs(x) < Fraction(2) ** 129 else math.copysign(math.inf, x)
    if abs(near) > 3.4028234663852886e38:
        return math.copysign(math.inf, near)
    return math.copysign(0.0, near) if abs(near) < 2.0**-126 else near


def test_bf16_steps_agree_with_exact_arithmetic_and_come_in_arrays() -> None:
    import ml_dtypes

    rng = np.random.default_rng(5)
    n = 4000
    scale = 2.0 ** rng.integers(-40, 40, (5, n))
    scale[:, : n // 4] = 2.0 ** rng.integers(-75, -50, (5, n // 4))
    a0, a1, b0, b1 = (rng.standard_normal((4, n)) * scale[:4]).astype(ml_dtypes.bfloat16).astype(np.float64)
    # sums that cancel, and accumulators of the products' size
    c = np.where(rng.random(n) < 0.5, -a1 * b1, scale[4]).astype(np.float32).astype(np.float64)
    got = ROW["vdpbf16ps"].step(c, (a0, a1), (b0, b1))
    assert got.shape == (n,) and got.dtype == np.float32
    want = [_exact(p, q, _exact(r, s, t)) for p, q, r, s, t in zip(*(x.tolist() for x in (a0, b0, a1, b1, c)), strict=True)]
    assert got.tolist() == want and (got == 0).sum() > 10


def test_vnni_steps_come_in_arrays() -> None:
    rng = np.random.default_rng(6)
    c = rng.integers(-(2**31), 2**31, 500)
    a, b = rng.integers(0, 256, (4, 500)), rng.integers(-128, 128, (4, 500))
    got = ROW["vpdpbusd"].step(c, a, b)
    assert got.dtype == np.int32 and got.tolist() == ((c + (a * b).sum(0) + 2**31) % 2**32 - 2**31).tolist()
