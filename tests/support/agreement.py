"""A function of tensors and its gradients against the same function of NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tilewright.tensor import Tensor
from tilewright.tensor.gradients.reverse import gradients
from tilewright.tensor.graph.primitives import const
from viewed_heads import Array, by_kernels

STEP = 1e-6

Function = Callable[..., Any]
LOSSES: tuple[Callable[[Any, Any], Any], ...] = (lambda y, c: y.sum(), lambda y, c: (y * c).sum(), lambda y, c: (y * y).sum())
"""A sum's gradient is a constant, and a view's of it a constant with zeros around; the others' are arrays."""


def agrees(name: str, tensors: Function, arrays: Function, given: Sequence[Array], losses: Sequence[int]) -> None:
    """The values of a function, and the gradients of losses of it along a random direction, against differences."""
    want, rng = arrays(*given), np.random.default_rng(1)
    weights = rng.normal(size=np.shape(want))
    ways = [rng.normal(size=a.shape) for a in given]
    leaves = [Tensor(a) for a in given]
    y = tensors(*leaves)
    for loss in losses:
        out = LOSSES[loss](y, Tensor(weights))
        slopes = gradients([out.node], [const(1.0, out.dtype)], [t.node for t in leaves])
        found, *got = by_kernels([y.node, *slopes])
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9, err_msg=name)
        for i, (g, way) in enumerate(zip(got, ways, strict=True)):
            ends = (LOSSES[loss](arrays(*(a + s * way if i == j else a for j, a in enumerate(given))), weights) for s in (STEP, -STEP))
            slope, along = (next(ends) - next(ends)) / (2 * STEP), g * way
            assert abs(along.sum() - slope) <= 1e-5 * max(1, np.abs(along).sum()), f"{name}: loss {loss}, gradient {i}"


def close(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    found = got.numpy() if isinstance(got, Tensor) else np.asarray(got)
    assert found.shape == np.shape(want), f"a shape {found.shape}, not {np.shape(want)}"
    np.testing.assert_allclose(found.astype("d"), np.asarray(want).astype("d"), tolerance, tolerance)
