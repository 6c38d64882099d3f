"""Inputs on which no rounding can happen, and those on which roundings add up."""

from __future__ import annotations

from dataclasses import replace

from tilewright import kernels
from tilewright.ir import KernelBuilder
from tilewright.ir.dtypes import float32, int32
from tilewright.measure.checking.exact_sums import drift, is_exact
from tilewright.measure.checking.verify import expectations
from tilewright.measure.inputs import generate


def test_sums_of_a_few_values_may_drift() -> None:
    """Each of 4096 additions of the same few squares to the same large sum is rounded the same way: √K roundings do not bound that."""
    kb = KernelBuilder("spread")
    i, k, l, m = kb.axis("i", 8), kb.axis("n@mean", 4096), kb.axis("n@sum", 4096), kb.axis("m", 8)
    x = kb.input("x", (4096, 8), float32)
    mean = kb.sum("mean", (m,), k, x[k, m] * (1.0 / 4096))
    total = kb.sum("total", (i,), l, (x[l, i] - mean[i]) * (x[l, i] - mean[i]))
    kb.store("y", float32, (8,), (i,), total[i] * (1.0 / 4095))
    kernel = kb.build()
    assert drift(kernel, {}) == 64.0
    values = generate(kernel, {}, 0, whole=True)
    narrow, wide = (expectations(kernel, values, {}, whole)["y"].weight for whole in (False, True))
    assert (wide < narrow / 20).all() and (wide > narrow / 64.1).all()
    assert drift(kernels.make("matmul", {"m": 4, "n": 4, "k": 9}), {}) == 3.0


def test_scattered_sums_may_drift_too() -> None:
    kb = KernelBuilder("bins")
    i = kb.axis("n", 256)
    x, at = kb.input("x", (256,), float32), kb.input("at", (256,), int32, range=(0, 1))
    kb.store("y", float32, (2,), (i,), 0.1 * x[i], indices=(at[i],), combine="add")
    assert drift(kb.build(), {}) == 16.0


def test_a_quotient_of_whole_numbers_is_rounded() -> None:
    """What is added to a mean is off by a rounding in any order: a check for equality would refuse every schedule."""
    kb = KernelBuilder("mean_beside")
    i, k = kb.axis("m", 8), kb.axis("k", 5)
    x, many = kb.input("x", (8, 5), float32), kb.input("many", (8,), float32, range=(1.0, 9.0))
    total = kb.sum("total", (i,), k, x[i, k])
    kb.store("y", float32, (8,), (i,), x[i, 0] + total[i] / many[i])
    kb.store("z", float32, (8,), (i,), x[i // 2, 0] + total[i])
    kernel = kb.build()
    assert not is_exact(kernel, {})
    assert is_exact(replace(kernel, stores=kernel.stores[1:]), {})
