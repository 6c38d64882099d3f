"""The ranks of one stage as a mesh, and pieces of arrays on it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..shardings import Collective, Layout
from .ranks import Ranks

Array = Any


class MeshRanks:
    """Ranks from `first` on, as a mesh of this shape, and pieces of arrays on it: what a layout gives each rank, and how one layout becomes
    another. Of two axes that split one dimension, the first is the outer one. All ranks of the world make one at once, with `axes` axes each at
    most."""

    def __init__(self, world: Ranks, first: int, shape: Sequence[int], axes: int) -> None:
        self.shape, self.first = tuple(shape), first
        self.at = tuple(int(k) for k in np.unravel_index(world.rank - first, self.shape))
        self.axes: list[Ranks | None] = []
        for m in range(axes):
            n = self.shape[m] if m < len(self.shape) else 1
            mine = self.at[m] * prod(self.shape[m + 1 :]) if n > 1 else 0
            group = world.split(world.rank - mine, world.rank)
            if m < len(self.shape):
                self.axes.append(group if n > 1 else None)
            if n == 1:
                group.free()

    def free(self) -> None:
        for axis in self.axes:
            if axis is not None:
                axis.free()

    def piece(self, whole: Array, layout: Layout, since: Layout | None = None) -> Array:
        """This rank's part of an array that `since` had not split."""
        for m, d in enumerate(layout):
            if d >= 0 and (since is None or since[m] != d):
                n = whole.shape[d] // self.shape[m]
                whole = whole[(slice(None),) * d + (slice(self.at[m] * n, (self.at[m] + 1) * n),)]
        return np.asarray(whole, order="C")

    def moved(self, local: Array, source: Layout, target: Layout) -> Array:
        """The same array in another layout: dimensions that other axes split are gathered, and cut anew."""
        if source == target:
            return local
        changed = {d for d in (*source, *target) if d >= 0 and _splitting(source, d) != _splitting(target, d)}
        now = list(source)
        for m in reversed(range(len(source))):
            if source[m] in changed:
                local, now[m] = self._gathered(local, m, source[m]), -1
        return self.piece(local, target, tuple(now))

    def _gathered(self, local: Array, m: int, dim: int) -> Array:
        axis = self.axes[m]
        if axis is None:
            return local
        pieces = axis.all_gather(np.asarray(local, order="C")).reshape(axis.size, *local.shape)
        return np.concatenate(list(pieces), axis=dim)

    def added(self, local: Array, plain: Layout, collectives: Sequence[Collective], target: Layout) -> Array:
        """The sum of parts, over the axes of the collectives, in the target's layout."""
        now = list(plain)
        for c in collectives:
            axis, dim = self.axes[c.axis], target[c.axis]
            if axis is None:
                continue
            if dim >= 0 and _splitting(target, dim) == [c.axis]:
                front = np.ascontiguousarray(np.moveaxis(local, dim, 0))
                part = axis.reduce_scatter(front.ravel()).reshape(front.shape[0] // axis.size, *front.shape[1:])
                local, now[c.axis] = np.moveaxis(part, 0, dim), dim
            else:
                local = axis.all_reduce(np.asarray(local, order="C"))
        return self.moved(local, tuple(now), target)


def _splitting(layout: Layout, dim: int) -> list[int]:
    """Axes of the mesh that split a dimension."""
    return [m for m, d in enumerate(layout) if d == dim]
