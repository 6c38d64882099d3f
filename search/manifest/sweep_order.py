"""What is tuned after what: entries that share a kernel warm each other.

A search begins with the schedules of the nearest shape that was tuned before (`search.warm_start`). So the entries of one kernel, element type
and target are a tree: the smallest sum of distances that joins all shapes (R. C. Prim, "Shortest connection networks and some
generalizations", 1957), from the shape in the middle. Where that would be a long row, which no number of machines can hurry, it goes from
coarse to fine instead. A distance is in octaves of all extents together. Entries of unlike kernels have
nothing to wait for, and where an entry fails, those after it are tuned all the same."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .manifest_file import Entry

LONGEST = 12
"""Entries after one another in a tree, from which on it goes from coarse to fine instead."""


@dataclass(frozen=True, slots=True)
class SweepOrder:
    """`entries` in an order in which each stands behind the one that it waits for; `after`: the index of that one, None for the first
    of a tree; `depth`: how many stand before it on its way."""

    entries: tuple[Entry, ...]
    after: tuple[int | None, ...]
    depth: tuple[int, ...]

    @property
    def longest(self) -> int:
        """How many entries must be tuned one after the other, however many machines there are."""
        return max(self.depth, default=-1) + 1


def order(entries: Sequence[Entry]) -> SweepOrder:
    """The trees of all entries, those of less depth first, and else in the order in which they were given."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, e in enumerate(entries):
        groups[e.kernel, e.dtype, e.place, tuple(sorted(e.shape))].append(i)
    parent: dict[int, int | None] = {}
    depth: dict[int, int] = {}
    for members in groups.values():
        points = [[math.log2(max(1, entries[i].shape[n])) for n in sorted(entries[i].shape)] for i in members]
        for child, joined in tree(points):
            i = members[child]
            parent[i] = None if joined is None else members[joined]
            depth[i] = 0 if joined is None else depth[members[joined]] + 1
    ranked = sorted(range(len(entries)), key=lambda i: (depth[i], i))
    place = {i: n for n, i in enumerate(ranked)}
    waits = [parent[i] for i in ranked]
    return SweepOrder(
        tuple(entries[i] for i in ranked), tuple(None if p is None else place[p] for p in waits), tuple(depth[i] for i in ranked)
    )


def tree(points: Sequence[Sequence[float]]) -> list[tuple[int, int | None]]:
    """(point, the one that it follows), each behind the one it follows: the shortest tree, or where that has too long a way, the one that goes
    from coarse to fine. O(n²)."""
    found = shortest(points)
    depth: dict[int | None, int] = {None: -1}
    for child, joined in found:
        depth[child] = depth[joined] + 1
    return found if max(depth.values()) < LONGEST else coarse_to_fine(points)


def shortest(points: Sequence[Sequence[float]]) -> list[tuple[int, int | None]]:
    """(point, the one it is joined to) of the smallest tree over points, the one nearest to their mean first."""
    return _grown(points, lambda away, left: int(_of_left(left, away, math.inf).argmin()))


def coarse_to_fine(points: Sequence[Sequence[float]]) -> list[tuple[int, int | None]]:
    """(point, the nearest one before it), each point the farthest from all before it (T. Gonzalez, "Clustering to minimize the maximum
    intercluster distance", 1985): the whole range is covered early, and ways are as long as a logarithm."""
    return _grown(points, lambda away, left: int(_of_left(left, away, -math.inf).argmax()))


def _of_left(left: Any, away: Any, other: float) -> Any:
    """The distances of the points that are left, and something else for those that are not."""
    import numpy as np

    return np.where(left, away, other)


def _grown(points: Sequence[Sequence[float]], choose: Callable[[Any, Any], int]) -> list[tuple[int, int | None]]:
    """A tree that grows by the point that `choose` picks, of the distances to the tree and which points are left."""
    import numpy as np

    if not points:
        return []
    x = np.asarray(points, dtype=float).reshape(len(points), len(points[0]))
    root = int(np.abs(x - x.mean(axis=0)).sum(axis=1).argmin())
    out: list[tuple[int, int | None]] = [(root, None)]
    away = np.abs(x - x[root]).sum(axis=1)
    nearest = np.full(len(x), root)
    left = np.ones(len(x), dtype=bool)
    left[root] = False
    while left.any():
        child = choose(away, left)
        out.append((child, int(nearest[child])))
        left[child] = False
        new = np.abs(x - x[child]).sum(axis=1)
        nearest[left & (new < away)] = child
        away = np.minimum(away, new)
    return out
