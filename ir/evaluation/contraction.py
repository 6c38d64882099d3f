"""Σ x·y of two broadcast arrays as one (batched) matrix product, in float64 or exactly in integers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_EXACT = 1 << 53
"""float64 holds every whole number below this."""
_CHUNK = 1 << 20
"""Products of 16-bit halves summed before they could pass `_EXACT`."""


@dataclass(frozen=True, slots=True)
class ProductLayout:
    """The extents of the broadcast positions; the first `spatial` of them stay, the rest are summed over."""

    shape: tuple[int, ...]
    spatial: int


def _matrices(x: Array, y: Array, layout: ProductLayout) -> tuple[Array, Array, list[int]]:
    """x as (batch, m, k), y as (batch, k, n), and the spatial positions in the order batch, m, n. k has what both vary along: along
    the rest, one is added up before (Σ x·y over p and q is Σ (Σ x)·y over q, where only x varies along p)."""
    keep, over = range(layout.spatial), range(layout.spatial, len(layout.shape))
    neither = prod(layout.shape[p] for p in over if x.shape[p] == 1 and y.shape[p] == 1)
    x, y = _added_up(x, [p for p in over if y.shape[p] == 1]), _added_up(y, [p for p in over if x.shape[p] == 1])
    if neither != 1:
        x = x * x.dtype.type(neither) if x.dtype.kind == "f" else x.astype(np.int64) * neither
    batch = [p for p in keep if x.shape[p] != 1 and y.shape[p] != 1]
    rows = [p for p in keep if x.shape[p] != 1 and y.shape[p] == 1]
    cols = [p for p in keep if x.shape[p] == 1 and y.shape[p] != 1]
    both = [p for p in over if x.shape[p] != 1]

    def size(places: list[int]) -> int:
        return prod(layout.shape[p] for p in places)

    rest_x = [p for p in range(x.ndim) if p not in batch and p not in rows and p not in both]
    rest_y = [p for p in range(y.ndim) if p not in batch and p not in cols and p not in both]
    left = x.transpose([*rest_x, *batch, *rows, *both]).reshape(size(batch), size(rows), size(both))
    right = y.transpose([*rest_y, *batch, *both, *cols]).reshape(size(batch), size(both), size(cols))
    return left, right, [*batch, *rows, *cols]


def _added_up(x: Array, places: list[int]) -> Array:
    """Sums over positions, which stay, with one element."""
    mine = tuple(p for p in places if x.shape[p] != 1)
    return np.asarray(x.sum(axis=mine, keepdims=True)) if mine else x


def _restore(out: Array, order: list[int], layout: ProductLayout) -> Array:
    out = out.reshape([layout.shape[p] for p in order])
    out = out.transpose([order.index(p) for p in sorted(order)])
    return out.reshape([layout.shape[p] if p in order else 1 for p in range(layout.spatial)])


def contract(x: Array, y: Array, layout: ProductLayout) -> Array:
    """Σ x·y in float64; both arrays have one position per extent (1 where they do not vary). The result has the spatial
    positions only (1 where neither varies)."""
    left, right, order = _matrices(x, y, layout)
    return _restore(np.matmul(left, right), order, layout)


def contract_exact(x: Array, y: Array, layout: ProductLayout, to: np.dtype[Any]) -> Array:
    """The same for integers, wrapping in the integer type `to`: through float64 products where those are exact."""
    left, right, order = _matrices(x, y, layout)
    return _restore(_matmul_exact(left, right, to), order, layout)


def _matmul_exact(a: Array, b: Array, to: np.dtype[Any]) -> Array:
    k = a.shape[2]
    if not a.size or not b.size:
        return np.zeros((a.shape[0], a.shape[1], b.shape[2]), to)
    peak = max(abs(int(a.max())), abs(int(a.min()))) * max(abs(int(b.max())), abs(int(b.min())))
    if peak * k < _EXACT:
        small: Array = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(to)
        return small
    if to.itemsize > 4:
        return np.asarray(np.matmul(a.astype(to), b.astype(to)))
    u, v = a.astype(np.int64).astype(np.uint32), b.astype(np.int64).astype(np.uint32)
    out = np.zeros((a.shape[0], a.shape[1], b.shape[2]), np.uint32)
    for lo in range(0, k, _CHUNK):
        p, q = u[:, :, lo : lo + _CHUNK], v[:, lo : lo + _CHUNK]
        p_low, p_high = (p & np.uint32(0xFFFF)).astype(np.float64), (p >> np.uint32(16)).astype(np.float64)
        q_low, q_high = (q & np.uint32(0xFFFF)).astype(np.float64), (q >> np.uint32(16)).astype(np.float64)
        cross = np.matmul(p_low, q_high) + np.matmul(p_high, q_low)
        out += np.matmul(p_low, q_low).astype(np.uint64).astype(np.uint32)
        out += cross.astype(np.uint64).astype(np.uint32) << np.uint32(16)
    return out.astype(to)
