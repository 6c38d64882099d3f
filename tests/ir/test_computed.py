"""What is certain to the bit: a difference of equal products is 0, and its root too, in every schedule."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.ir import KernelBuilder, Node, float32, float64, sqrt
from tilewright.ir.dtypes import DType
from tilewright.ir.evaluation import evaluate_kinds
from tilewright.ir.kernel import Kernel


def kernel(kind: DType, summed: bool) -> Kernel:
    kb = KernelBuilder("k")
    i, j = kb.axis("i", 16), kb.axis("j", 8)
    x, y = (kb.input(n, (16, 8), kind) for n in "xy")

    def difference(a: Node, b: Node) -> Node:
        return a * a - b * b

    if summed:
        total = [kb.sum(n, (i,), j, v[i, j] * v[i, j])[i] for n, v in (("p", x), ("q", y))]
        kb.store("out", kind, (16,), (i,), sqrt(total[0] - total[1]))
    else:
        kb.store("out", kind, (16, 8), (i, j), sqrt(difference(x[i, j], y[i, j])))
    return kb.build()


@pytest.mark.parametrize("kind", [float32, float64])
def test_the_root_of_a_difference_of_equal_products_is_zero(kind: DType) -> None:
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(kind.np)
    value, scale, loose, unsure = evaluate_kinds(kernel(kind, False), {"x": x, "y": -x})["out"]
    assert loose is None or not loose.any()
    assert not value.any() and np.max(scale) * kind.eps < 1e-40 and (unsure is None or not unsure.any())


def test_of_sums_nothing_is_certain() -> None:
    """Their order is free."""
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    _, _, loose, _ = evaluate_kinds(kernel(float32, True), {"x": x, "y": -x})["out"]
    assert loose is not None and loose.all()


def test_values_are_those_of_the_type() -> None:
    """1 + 2⁻³⁰ − 1 is 0 in float32."""
    kb = KernelBuilder("k")
    i = kb.axis("i", 2)
    x = kb.input("x", (2,), float32)[i]
    kb.store("out", float32, (2,), (i,), (x + 1.0) - 1.0)
    value, scale, _, _ = evaluate_kinds(kb.build(), {"x": np.array([2.0**-30, 0.5], np.float32)})["out"]
    np.testing.assert_array_equal(value, [0.0, 0.5])
    assert not np.any(scale)
