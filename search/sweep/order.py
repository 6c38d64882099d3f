"""What is tuned after what: entries that share a kernel warm each other.

A search begins with the schedules of the nearest shape that was tuned before (`search.warm`). So the entries of one kernel, element type
and target are a tree: the smallest sum of distances that joins all shapes (R. C. Prim, "Shortest connection networks and some
generalizations", 1957), from the shape in the middle. A distance is in octaves of all extents together. Entries of unlike kernels have
nothing to wait for, and where an entry fails, those after it are tuned all the same."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..manifest.entries import Entry


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
    """(point, the one it is joined to) of the smallest tree over points, the one nearest to their mean first. O(n²)."""
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
        child = int(np.where(left, away, np.inf).argmin())
        out.append((child, int(nearest[child])))
        left[child] = False
        new = np.abs(x - x[child]).sum(axis=1)
        nearest[new < away] = child
        away = np.minimum(away, new)
    return out
