"""Gradients against central differences in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from node_values import Array, value
from tilewright.tensor.gradients.reverse import gradients
from tilewright.tensor.graph.nodes import TensorNode
from tilewright.tensor.graph.primitives import reduce
from tilewright.tensor.ops import elementwise as E
from tilewright.tensor.tensor import Tensor

Made = Callable[..., TensorNode]
STEP = 1e-5


def weighted(y: TensorNode, rng: np.random.Generator) -> TensorNode:
    """Σ y · random numbers: a number that depends on every element."""
    u = Tensor(rng.standard_normal(y.shape)).node
    return reduce("add", E.binary("mul", y, u), range(len(y.shape)))


def slopes(out: TensorNode, leaves: Sequence[TensorNode], arrays: Sequence[Array]) -> list[Array]:
    """Central differences of a number by each element of the leaves."""
    found = []
    for i, a in enumerate(arrays):
        g = np.zeros(a.shape)
        for at in np.ndindex(a.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = [b.copy() for b in arrays]
                moved[i][at] += step
                ends.append(float(value(out, {id(n): b for n, b in zip(leaves, moved)})))
            g[at] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(g)
    return found


def check(f: Made, *arrays: Any, twice: bool = True, tolerance: float = 1e-6) -> list[TensorNode]:
    """Compare the gradients of `f` at `arrays` (and, `twice`, the gradients of these) with differences; returns them."""
    rng = np.random.default_rng(3)
    given = [np.array(a, np.float64) for a in arrays]
    leaves = [Tensor(a).node for a in given]
    out = weighted(f(*leaves), rng)
    found = []
    for order in range(2 if twice else 1):
        gs = gradients([out], [Tensor(np.float64(1.0)).node], leaves)
        memory = {id(n): a for n, a in zip(leaves, given)}
        for n, g, want in zip(leaves, gs, slopes(out, leaves, given), strict=True):
            got = value(g, memory)
            assert g.shape == n.shape and g.dtype is n.dtype
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=f"derivative {order + 1}")
        found = found or gs
        total = None
        for g in gs:
            w = weighted(g, rng)
            total = w if total is None else E.binary("add", total, w)
        assert total is not None
        out = total
    return found
