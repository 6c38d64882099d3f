"""Functions of expressions against NumPy: values, and what they make of zeros, infinities and NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import value_kernels
from checks import twin_of
from tilewright.ir import KernelError, const, int32
from tilewright.ir import functions as f
from tilewright.ir.evaluation import evaluate

inf, nan = np.inf, np.nan
ONE: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "ceil": (f.ceil, np.ceil, 0),
    "trunc": (f.trunc, np.trunc, 0),
    "round": (f.round_even, np.rint, 0),
    "expm1": (f.expm1, np.expm1, 2.5),
    "log1p": (f.log1p, np.log1p, 2),
    "sin": (f.sin, np.sin, 2),
    "cos": (f.cos, np.cos, 2),
    "tan": (f.tan, np.tan, 4),
    "atan": (f.atan, np.arctan, 2.5),
    "asin": (f.asin, np.arcsin, 4),
    "acos": (f.acos, np.arccos, 4),
    "sinh": (f.sinh, np.sinh, 4),
    "cosh": (f.cosh, np.cosh, 4),
    "asinh": (f.asinh, np.arcsinh, 4),
    "acosh": (f.acosh, np.arccosh, 4),
    "atanh": (f.atanh, np.arctanh, 4),
    "isnan": (f.isnan, np.isnan, 0),
    "isinf": (f.isinf, np.isinf, 0),
    "isfinite": (f.isfinite, np.isfinite, 0),
    "sign": (f.sign, np.sign, 0),
    "exp2": (f.exp2, np.exp2, 60),
    "log2": (f.log2, np.log2, 2),
    "log10": (f.log10, np.log10, 2),
    "clip": (lambda x: f.clip(x, -1.5, 2), lambda x: np.clip(x, -1.5, 2), 0),
    "signbit": (f.sign_bit, lambda x: np.signbit(x) & ~np.isnan(x), 0),
}
"""The function, NumPy's, and how many units in the last place they may differ by."""
WRITTEN_OUT = ("trunc", "round", "expm1", "log1p", "sin", "cos", "atan", "isnan")
"""Those that are no compositions of others: all that a language can get wrong."""
EDGES = [0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-20, -1e-20, 88.5, -88.5, 89.5, 1e10, -1e10, 0.999, -0.999]


def samples(name: str) -> Any:
    rng = np.random.default_rng(11)
    more = [rng.uniform(-1, 1, 100), rng.uniform(-12, 12, 100), np.exp(rng.uniform(-20, 20, 59))]
    return np.concatenate([EDGES, *more]).astype(name)


def close(got: Any, want: Any, ulps: float, what: str) -> None:
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=what)
        zero = got == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), err_msg=f"the sign of 0 of {what}")
        info = np.finfo(got.dtype)
        np.testing.assert_allclose(
            got, want.astype(got.dtype), rtol=ulps * info.eps, atol=ulps * float(info.smallest_subnormal), err_msg=what
        )
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


@pytest.mark.many
@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("way", value_kernels.RUNS)
@pytest.mark.covering
def test_functions_of_one_number(way: str, name: str) -> None:
    x = samples(name)
    some = {what: row for what, row in ONE.items() if way in ("llvm", "interpreter") or what in WRITTEN_OUT}
    kernel = value_kernels.pointwise([name], len(x), lambda x: [g(x) for g, _, _ in some.values()])
    got = value_kernels.run(kernel, [x], way)
    with np.errstate(all="ignore"):
        for at, (what, (_, numpy, ulps)) in enumerate(some.items()):
            close(got[f"y{at}"], np.asarray(numpy(x.astype(np.float64))), ulps, what)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_narrow_types_go_through_float32(name: str) -> None:
    x = (np.arange(48) / 16 - 1.5).astype(np.float32)
    kernel = value_kernels.pointwise([name], 48, lambda x: [f.sin(x), f.round_even(x), f.expm1(x)])
    narrow = x.astype(kernel.inputs[0].dtype.np)
    got = value_kernels.run(kernel, [narrow], "interpreter")
    for at, numpy in enumerate([np.sin, np.rint, np.expm1]):
        assert got[f"y{at}"].dtype == np.float32
        np.testing.assert_allclose(got[f"y{at}"], numpy(x), rtol=1e-6)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_the_twin_knows_them(name: str) -> None:
    kernel = value_kernels.pointwise([name], 20, lambda x: [g(x) for g, _, _ in ONE.values()])
    twin_of(value_kernels.program(kernel, "plain", expand=False), kernel, {})


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_functions_of_two_numbers(name: str) -> None:
    rng = np.random.default_rng(2)
    edges = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, inf, -inf, nan])
    x, y = (np.concatenate([a.ravel(), more]).astype(name) for a, more in zip(np.meshgrid(edges, edges), rng.normal(0, 4, (2, 48))))
    kernel = value_kernels.pointwise([name, name], len(x), lambda x, y: [f.atan2(x, y), f.power(x, y), f.copysign(x, y)])
    got = value_kernels.run(kernel, [x, y], "llvm", "plain")
    with np.errstate(all="ignore"):
        close(got["y0"], np.arctan2(x, y), 4, "atan2")
        close(got["y1"], np.power(x, y), 1, "power")
        known = ~np.isnan(y) & ~np.isnan(x)
        np.testing.assert_array_equal(got["y2"][known], np.copysign(x, y)[known])


def test_the_reference_is_numpys() -> None:
    x = samples("float64")
    kernel = value_kernels.pointwise(["float64"], len(x), lambda x: [f.sin(x), f.log1p(x), f.trunc(x)])
    with np.errstate(all="ignore"):
        for got, want in zip(evaluate(kernel, {"x0": x}).values(), (np.sin(x), np.log1p(x), np.trunc(x)), strict=True):
            np.testing.assert_array_equal(got, want)


def test_integers_are_refused_with_what_to_do() -> None:
    for g in (f.sin, f.round_even, f.tan, f.asin, f.ceil):
        with pytest.raises(KernelError, match="of int32: cast it to a float type"):
            g(const(3, int32))
    assert f.isnan(const(3, int32)) is const(False)
