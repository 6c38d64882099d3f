"""Powers of two floats: within a unit in the last place of what long double gives, exact where they are numbers, C's special values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import value_kernels
from opencl_driver import needs_pocl
from tilewright.ir.functions import power

WIDE = np.longdouble
ULPS = {"float32": 0.75, "float64": 0.8}
SPECIAL = [
    math.inf,
    -math.inf,
    math.nan,
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    1e300,
    -1e300,
    5e-324,
    2.0**53,
    2.0**53 + 2,
]


def powers(x: np.ndarray, y: np.ndarray, way: str, schedule: str = "lanes") -> np.ndarray:
    kernel = value_kernels.pointwise([x.dtype.name] * 2, len(x), lambda x, y: [power(x, y)])
    return value_kernels.run(kernel, [x, y], way, schedule)["y0"]


def drawn(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Bases of all sizes, near 1, whole ones; exponents whose powers are numbers, small ones and whole ones."""
    rng = np.random.default_rng(11)
    info = np.finfo(name)
    most = math.log(float(info.max))
    sizes = np.exp(rng.uniform(math.log(info.smallest_subnormal), most, n))
    near = np.exp(rng.normal(0, 1e-3, n))
    x = np.concatenate([sizes, near, near, rng.uniform(0.1, 10, n), rng.integers(1, 30, n)]).astype(name)
    reach = most / np.maximum(np.abs(np.log(x.astype(np.float64))), 1e-3)
    y = np.concatenate([rng.uniform(-1.05, 1.05, 3 * n), rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)]) * reach
    y[-n:] = np.rint(y[-n:])
    return x, y.astype(name)


BOTH = [(way, name) for way in ("llvm", "c", "interpreter") for name in ("float32", "float64")]
NARROW = [pytest.param("opencl32", "float32", marks=needs_pocl), ("interpreter32", "float32")]


@pytest.mark.parametrize(("way", "name"), [*BOTH[:4], *NARROW])
def test_a_power_is_within_a_unit_in_the_last_place(way: str, name: str) -> None:
    if np.finfo(WIDE).nmant < 60:
        pytest.skip("long double is float64 here: nothing to compare with")
    x, y = drawn(name, 4000 if way != "interpreter32" else 400)
    got = powers(x, y, way)
    with np.errstate(all="ignore"):
        want = x.astype(WIDE) ** y.astype(WIDE)
        unit = np.spacing(np.maximum(np.abs(want).astype(name), np.finfo(name).smallest_subnormal)).astype(WIDE)
        error = np.where(got == want.astype(name), 0, np.abs(got - want) / unit)
    worst = int(np.argmax(error))
    assert error[worst] <= ULPS[name], f"{error[worst]} ulp at {x[worst]!r} ** {y[worst]!r}"


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_powers_that_are_numbers_are_exact(name: str) -> None:
    bits = np.finfo(name).nmant + 1
    pairs = [(b, n) for b in range(2, 40) for n in range(1, 60) if b**n < 2**bits]
    pairs += [(b / 8, n) for b in range(3, 40) for n in range(1, 20) if b**n < 2**bits]
    pairs += [(b * b, 0.5) for b in range(2, 200)] + [(b**4, 0.75) for b in range(2, 50)]
    x, y = (np.array(v, name) for v in zip(*pairs))
    want = np.array([float(b) ** n for b, n in pairs], name)
    np.testing.assert_array_equal(powers(x, y, "llvm"), want)


@pytest.mark.parametrize("schedule", ["plain", "lanes"])
@pytest.mark.parametrize(("way", "name"), [*BOTH, *NARROW])
@pytest.mark.covering
def test_special_values_are_those_of_c(way: str, schedule: str, name: str) -> None:
    with np.errstate(all="ignore"):
        table = np.array(SPECIAL, name)
    x, y = (np.ascontiguousarray(v.reshape(-1)) for v in np.meshgrid(table, table))
    with np.errstate(all="ignore"):
        want = x**y
    got = powers(x, y, way, schedule)
    number = np.isfinite(want) & (want != 0)
    np.testing.assert_array_equal(got[~number], want[~number])
    np.testing.assert_array_max_ulp(got[number], want[number], 1)  # (NumPy's own are not all rounded right)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize(("way", "name"), BOTH[:2])
def test_a_remainder_is_exact_or_not_a_number(way: str, name: str) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.normal(size=500) * 10.0 ** rng.integers(-12, 12, 500) for _ in range(2))
    x[:8] = np.arange(8) * 2.0**53
    y[:8] = 3
    x, y = x.astype(name), y.astype(name)
    kernel = value_kernels.pointwise([name, name], x.size, lambda a, b: [a % b])
    got = value_kernels.run(kernel, [x, y], way)["y0"]
    want, known = np.remainder(x, y), np.abs(x.astype("d") / y.astype("d")) < 2.0**53
    assert np.isnan(got).sum() > 20 and not np.isnan(got[known]).any()
    np.testing.assert_array_equal(got[~np.isnan(got)], want[~np.isnan(got)])
