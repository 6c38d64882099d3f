"""The roofline of kernels that tensor cores do: their peak, and no peak that needs other data."""

from __future__ import annotations

import pytest
from tilewright import kernels, targets
from tilewright.devices import Limits, Rates
from tilewright.ir.normal_form import normalise
from tilewright.measure.roofline import roofline, tensor_times, unit

LIMITS = Limits("2026-01-01", {1: Rates(60e12, 30e12, 3e12, 3e12, 3e12, 3e12, 3e12)})


@pytest.mark.parametrize(
    ("name", "dtype", "times"),
    [
        ("matmul", "bfloat16", 16),
        ("matmul", "float16", 16),
        ("matmul", "int8", 32),
        ("matmul_mixed", "bfloat16", 16),
        ("conv2d", "bfloat16", 16),
        ("matmul", "float32", 0),
        ("matmul", "float64", 0),
        ("matvec", "bfloat16", 0),
        ("softmax", "bfloat16", 0),
    ],
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_sums_of_products_in_types_of_tensor_cores(name: str, dtype: str, times: float, target: str) -> None:
    here = targets.named(target)
    kernel = normalise(kernels.make(name, None, dtype))
    found = tensor_times(kernel, here)
    assert list(found.values()) == ([pytest.approx(times)] if times else [])
    assert unit(kernel, here) == ("tensor cores" if times else "FMA units")
    roof = roofline(kernel, LIMITS, 1, target=here)
    if times:
        assert 0.9 * times * 60e12 < roof.peak <= 1.001 * times * 60e12


def test_fewer_digits_count_where_they_are_allowed() -> None:
    here = targets.named("sm_90a")
    attention = normalise(kernels.make("attention", None, "bfloat16"))  # its probabilities are float32
    assert (len(tensor_times(attention, here)), len(tensor_times(attention, here, lossy=True))) == (1, 2)
    matmul = normalise(kernels.make("matmul", None, "float32"))
    assert tensor_times(matmul, here) == {} and unit(matmul, here) == "FMA units"
    assert list(tensor_times(matmul, here, lossy=True).values()) == [pytest.approx(8)] and unit(matmul, here, True) == "tensor cores"
    exact, lossy = (roofline(matmul, LIMITS, 1, target=here, lossy=x) for x in (False, True))
    assert lossy.peak == pytest.approx(8 * exact.peak, rel=0.01)
    assert tensor_times(normalise(kernels.make("matmul", None, "float64")), here, lossy=True) == {}


@pytest.mark.parametrize("target", ["avx2", "neon", "opencl-gpu", "opencl-cpu"])
def test_other_targets_have_none(target: str) -> None:
    here = targets.named(target)
    kernel = normalise(kernels.make("matmul", None, "bfloat16"))
    assert tensor_times(kernel, here) == {} and unit(kernel, here) == ("FMA units" if here.kind == "gpu" else "")
