"""float32's sin, cos and tan for devices that have no float64: by integers and pairs of float32, within the documented bounds. (Powers stand
with the others, in test_binary_functions.py.)"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import value_kernels
from opencl_driver import needs_pocl
from tilewright import targets
from tilewright.ir import KernelError, Node
from tilewright.ir.functions import cos, power, sin, tan
from tilewright.renderers import render

GPU = replace(targets.named("opencl-gpu"), features=frozenset())
BOUNDS = {"sin": 2.0, "cos": 2.0, "tan": 4.0}
OURS: dict[str, Callable[[Node], Node]] = {"sin": sin, "cos": cos, "tan": tan}
NUMPY: dict[str, Callable[[Any], Any]] = {"sin": np.sin, "cos": np.cos, "tan": np.tan}
WAYS = [pytest.param("opencl32", marks=[needs_pocl, pytest.mark.slow]), "interpreter32"]


def computed(name: str, x: np.ndarray, way: str) -> np.ndarray:
    y: np.ndarray = value_kernels.run(value_kernels.pointwise(["float32"], len(x), lambda v: [OURS[name](v)]), [x], way)["y0"]
    return y


@cache
def half_pi() -> Fraction:
    """To 400 bits, by Machin's sum."""

    def inverse(n: int) -> Fraction:
        return sum((Fraction((-1) ** k, (2 * k + 1) * n ** (2 * k + 1)) for k in range(1 + int(400 / math.log2(n * n)))), Fraction(0))

    return Fraction(round(2 * (4 * inverse(5) - inverse(239)) * 2**400), 2**400)


def exact(name: str, x: np.float32) -> float:
    """Of what is left of x after whole quarter turns, which is rounded only then."""
    turns = round(Fraction(float(x)) / half_pi())
    left = float(Fraction(float(x)) - turns * half_pi())
    s, c = math.sin(left), math.cos(left)
    s, c = ((s, c), (c, -s), (-s, -c), (-c, s))[turns % 4]
    return {"sin": s, "cos": c, "tan": s / c}[name]


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    return np.abs(got.astype(np.float64) - want) / np.spacing(np.maximum(np.abs(want), 2.0**-126).astype(np.float32))


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("way", WAYS)
def test_every_size_of_angle(way: str, name: str) -> None:
    """All bits at random; next to whole quarter turns, where little is left; the one that is nearest; ends."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 1200, dtype=np.uint64).astype(np.uint32).view(np.float32)
    quarters = (np.concatenate([np.arange(300), rng.integers(1, 2**40, 90)]) * (math.pi / 2)).astype(np.float32)
    x = np.concatenate([bits[np.isfinite(bits)], quarters, np.array([16367173 * 2.0**72, 0.5, -0.5, 3.4e38, 1e-45, 0.0], np.float32)])
    x = np.ascontiguousarray(np.concatenate([x, [np.float32(np.inf), -np.inf, np.nan]]), np.float32)
    x = np.resize(x, len(x) // 4 * 4 + 4)
    y, fine = computed(name, x, way), np.isfinite(x)
    assert np.isnan(y[~fine]).all()
    error = ulps(y[fine], np.array([exact(name, v) for v in x[fine]]))
    assert error.max() <= BOUNDS[name], (x[fine][error.argmax()], error.max())
    zeros = computed(name, np.array([0.0, -0.0, 0.0, -0.0], np.float32), way)
    assert name == "cos" or [math.copysign(1, z) for z in zeros] == [1, -1, 1, -1]


@needs_pocl
@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_every_number_of_a_period(name: str, request: pytest.FixtureRequest) -> None:
    """From 0.5, below which nothing is taken away, to 8 (`--thorough`; else every 61st)."""
    lo, hi = (int(np.float32(v).view(np.uint32)) for v in (0.5, 8.0))
    x = np.arange(lo, hi, 1 if request.config.getoption("--thorough") else 61, dtype=np.uint32).view(np.float32)
    for part in np.array_split(x, max(1, len(x) >> 22)):
        part = np.resize(part, -(-len(part) // 4) * 4)
        error = ulps(computed(name, part, "opencl32"), NUMPY[name](part.astype(np.float64)))
        assert error.max() <= BOUNDS[name], (part[error.argmax()], error.max())


@pytest.mark.parametrize("f", [sin, cos, tan, lambda x: power(x, x)], ids=["sin", "cos", "tan", "power"])
def test_the_text_has_no_float64(f: Callable[[Node], Node]) -> None:
    program = value_kernels.program(value_kernels.pointwise(["float32"], 64, lambda x: [f(x)]), "lanes", "opencl32")
    text = render(program, GPU).text
    assert "double" not in text and "fp64" not in text


def test_floor_division_is_refused_by_its_name() -> None:
    with pytest.raises(KernelError, match="floor_mod of float32 is computed in float64, which this device does not have"):
        value_kernels.program(value_kernels.pointwise(["float32"] * 2, 64, lambda x, y: [x % y]), "lanes", "opencl32")
