"""Operators that read and write at places that are data."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import xp
from ....tensor import Tensor
from ....tensor.running.current_capture import current
from ..element_types import Array
from .table import Call, DataDependentError, along, number, operator, operators

operators(
    {
        "Gather": lambda call, x, places, axis=0: x.take(places, axis=axis),
        "ScatterND": lambda call, x, places, values, reduction="none": put(x, places.unstack(axis=-1), values, reduction),
        "NonZero": lambda call, x: np.array(np.nonzero(np.atleast_1d(known(x))), np.int64),
    }
)


def _beside(places: Any, axis: int) -> tuple[Any, ...]:
    """An index for each axis: the places at one, their own at the others."""
    return tuple(places if d == axis % places.ndim else along(n, places.ndim, d) for d, n in enumerate(places.shape))


@operator("GatherElements")
def gather_elements(call: Call, x: Any, places: Any, axis: int = 0) -> Any:
    """Elements at places of an axis."""
    if all(n == m or d == axis % x.ndim for d, (n, m) in enumerate(zip(x.shape, places.shape))):
        return x.take_along_axis(places, axis=axis)
    return x[_beside(places, axis)]


@operator("GatherND")
def gather_nd(call: Call, x: Any, places: Any, batch_dims: int = 0) -> Any:
    """Slices at places of several axes."""
    lead = tuple(xp.arange(n).reshape((n, *(1,) * (places.ndim - 2 - d))) for d, n in enumerate(x.shape[:batch_dims]))
    return x[(*lead, *places.unstack(axis=-1))]


def put(x: Any, key: tuple[Any, ...], values: Any, reduction: str = "none") -> Any:
    """x with values at places, combined with what is there."""
    if reduction != "none":
        return x.index_put(key, values, reduction)
    out = x.__copy__()
    out[key] = values
    return out


@operator("ScatterElements", "Scatter")
def scatter_elements(call: Call, x: Any, places: Any, values: Any, axis: int = 0, reduction: str = "none") -> Any:
    """Elements written at places of an axis."""
    return put(x, _beside(places, axis), values, reduction)


@operator("TensorScatter")
def tensor_scatter(call: Call, past: Any, update: Any, at: Any = None, mode: str = "linear", axis: int = -2) -> Any:
    """A part of an axis written, from a place of each batch."""
    d = axis % past.ndim
    key = [along(n, update.ndim, i) for i, n in enumerate(update.shape)]
    if at is not None:
        key[d] = key[d] + at.reshape((-1, *(1,) * (update.ndim - 1)))
    if mode == "circular":
        key[d] = key[d] % past.shape[d]
    return put(past, tuple(key), update)


@operator("TopK", known=(1,))
def top_k(call: Call, x: Any, given: Array | None = None, k: int | None = None, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The largest or smallest, and where they are."""
    count = int(number(given)) if given is not None else int(k or 0)
    return x.topk(count, axis=axis, largest=bool(largest))


# results whose size is data: node by node ----------------------------------------------------------------------------
def known(x: Any) -> Array:
    """The elements of a tensor, where nothing is captured. Raises DataDependentError."""
    if not isinstance(x, Tensor):
        return np.asarray(x)
    if current() is not None:
        raise DataDependentError("the size of a result hangs on data")
    return np.asarray(x.numpy())


@operator("Compress")
def compress(call: Call, x: Any, mask: Any, axis: int | None = None) -> Any:
    """Slices where a mask holds."""
    places = np.nonzero(known(mask))[0].astype(np.int64)
    return (x.reshape((-1,)) if axis is None else x).take(Tensor(places), axis=axis or 0)


@operator("Unique")
def unique(call: Call, x: Any, axis: int | None = None, sorted: int = 1) -> Any:
    """The distinct elements or slices, where each is first, which one each is, and how many there are."""
    array = known(x)
    found, first, inverse, counts = np.unique(array, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    if not sorted:
        order = np.argsort(first, kind="stable")
        found, first, counts = np.take(found, order, axis=axis or 0), first[order], counts[order]
        inverse = np.argsort(order, kind="stable")[inverse]
    return found, first.astype(np.int64), inverse.reshape(-1).astype(np.int64), counts.astype(np.int64)


@operator("NonMaxSuppression", known=(2, 3, 4))
def non_max_suppression(
    call: Call,
    boxes: Any,
    scores: Any,
    most: Array | None = None,
    overlap: Array | None = None,
    least: Array | None = None,
    center_point_box: int = 0,
) -> Any:
    """The boxes that no better one covers: (batch, class, box), the best first."""
    b, s = known(boxes).astype(np.float64), known(scores)
    if center_point_box:
        x, y, w, h = np.moveaxis(b, -1, 0)
        low, high = np.stack([y - h / 2, x - w / 2], -1), np.stack([y + h / 2, x + w / 2], -1)
    else:
        low, high = np.minimum(b[..., :2], b[..., 2:]), np.maximum(b[..., :2], b[..., 2:])
    area = np.prod(high - low, -1)
    limit, above = float(number(overlap) or 0.0), number(least)
    found: list[tuple[int, int, int]] = []
    for n in range(s.shape[0]):
        for c in range(s.shape[1]):
            left = np.argsort(-s[n, c], kind="stable")
            left = left if above is None else left[s[n, c, left] > above]
            for _ in range(int(number(most) or 0)):
                if not left.size:
                    break
                best, left = left[0], left[1:]
                found.append((n, c, int(best)))
                sides = np.minimum(high[n, best], high[n, left]) - np.maximum(low[n, best], low[n, left])
                shared = np.maximum(sides[:, 0], 0) * np.maximum(sides[:, 1], 0)
                union = area[n, best] + area[n, left] - shared
                left = left[shared / np.where(union > 0, union, np.inf) <= limit]
    return np.array(found, np.int64).reshape(-1, 3)
