"""16-bit floats in C, OpenCL and CUDA: every value widens exactly, and rounding is to nearest even, from float32 and from float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import run_text
from hand_built import elementwise
from tilewright.ir.dtypes import dtype

HALVES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
RUNS = {"c": run_text.c, "opencl": run_text.opencl, "cuda": run_text.cuda}
run = pytest.mark.parametrize("lang", RUNS)
half = pytest.mark.parametrize("name", HALVES)
EVERY = np.arange(1 << 16, dtype=np.uint16)


def convert(lang: str, x: Any, to: str, lanes: int) -> Any:
    """`x` (a whole number of vectors) cast to another type."""
    y = np.zeros(len(x), dtype(to).np)
    program = elementwise([x.dtype.name], to, lanes, len(x), lambda b, v: b.op("cast", v, dtype=dtype(to)))
    RUNS[lang](program, [x, y])
    return y


def edges(name: str) -> tuple[Any, Any]:
    """(float32 values at, just below and just above every tie between neighbours, and special ones; what they round to)."""
    exact = EVERY.view(HALVES[name]).astype("float32")
    ordered = np.unique(exact[np.isfinite(exact)].astype("float64"))
    ties = ((ordered[1:] + ordered[:-1]) / 2).astype("float32")
    x = np.concatenate(
        [
            ties,
            np.nextafter(ties, np.float32(-np.inf)),
            np.nextafter(ties, np.float32(np.inf)),
            [np.inf, -np.inf, np.nan, 65519.9, 65520, 3.395e38],
        ]
    )
    x = np.concatenate([x, np.zeros(-len(x) % 16)]).astype("float32")
    with np.errstate(all="ignore"):
        return x, x.astype(HALVES[name])


def same(got: Any, want: Any) -> None:
    nan = np.isnan(want.astype("float32"))
    assert np.isnan(got.astype("float32"))[nan].all()
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}")[~nan], want.view(f"u{want.itemsize}")[~nan])


@pytest.mark.slow
@run
@half
def test_widening_is_exact(lang: str, name: str) -> None:
    x = EVERY.view(HALVES[name])
    same(convert(lang, x, "float32", 4), x.astype("float32"))


@pytest.mark.slow
@run
@half
def test_narrowing_rounds_to_nearest_even(lang: str, name: str) -> None:
    x, want = edges(name)
    same(convert(lang, x, name, 8), want)


@pytest.mark.slow
@run
@half
def test_float64_is_rounded_once(lang: str, name: str) -> None:
    x, _ = edges(name)
    x = x[np.isfinite(x) & (np.abs(x) < 60000) & (np.abs(x) > 1e-3)][: 1 << 12].astype("float64")
    # a hair beside a tie: float32 would call it a tie
    near = np.concatenate([x * (1 + 2.0**-40), x * (1 - 2.0**-40)])
    every = np.unique(EVERY.view(HALVES[name]).astype("float64"))
    every = every[np.isfinite(every)]
    at = np.searchsorted(every, near)
    want = np.where(near - every[at - 1] < every[at] - near, every[at - 1], every[at]).astype("float32").astype(HALVES[name])
    same(convert(lang, near, name, 4), want)
