"""Instruction rows: their meaning, checked by hand-picked numbers, and who has them."""

from __future__ import annotations

import math

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


@pytest.mark.parametrize(("name", "rows"), [("znver5", {"vdpbf16ps", "vpdpbusd"}), ("cascadelake", {"vpdpbusd"}), ("skylake-avx512", set()), ("neon", set())])
def test_targets_have_the_rows_of_their_features(name: str, rows: set[str]) -> None:
    assert {r.name for r in instructions.available(targets.named(name))} == rows


def test_rows_fit_a_register() -> None:
    for row in instructions.ROWS:
        assert row.n * row.c.size == 64 and row.k * row.b.size == row.c.size
