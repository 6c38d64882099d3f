"""Which layers a stage of a pipeline has, and on how many devices: dynamic programming over layers and devices (Alpa's, arXiv 2201.12023, section
5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .collectives import Mesh


@dataclass(frozen=True)
class Cut:
    """A part of the model, and what it runs on."""

    layers: range
    mesh: Mesh


Way = tuple[float, tuple[Cut, ...]]
"""The sum of the parts' seconds, and the parts."""


def cut(
    layers: int,
    parts: int,
    having: Sequence[tuple[int, Mesh]],
    devices: int,
    seconds: Callable[[int, bool, Mesh], float],
    m: int,
    fits: Callable[[int, bool, Mesh, int], bool] = lambda *_: True,
) -> list[Cut]:
    """The cut with the least sum of m - 1 times the slowest part and all parts once; [] where there is none. `having`: (devices, mesh) that a part
    can take, of `devices` in all; `seconds`: of a microbatch in so many layers, with or without the model's last, on a mesh; `fits`: whether those
    can be on it, with so many parts after."""
    most = devices - (parts - 1) * min((n for n, _ in having), default=0)
    having = [(n, mesh) for n, mesh in having if n <= most]
    times = {
        (count, last, k): seconds(count, last, mesh)
        for count in range(1, layers - parts + 2)
        for last in (False, True)
        for k, (_, mesh) in enumerate(having)
    }

    def least(slowest: float) -> Way | None:
        """The least sum, with no part slower than that."""
        ways: dict[tuple[int, int], Way] = {(0, 0): (0.0, ())}
        for left in reversed(range(parts)):
            here: dict[tuple[int, int], Way] = {}
            for (start, used), (total, cuts) in ways.items():
                for end in range(start + 1, layers - left + 1) if left else [layers]:
                    for k, (n, mesh) in enumerate(having):
                        at, t = (end, used + n), times.get((end - start, end == layers, k), math.inf)
                        better = at[1] <= devices and t <= slowest and (at not in here or total + t < here[at][0])
                        if better and fits(end - start, end == layers, mesh, left):
                            here[at] = total + t, (*cuts, Cut(range(start, end), mesh))
            ways = here
        return ways.get((layers, devices))

    free = least(math.inf)
    if free is None:
        return []
    best: tuple[float, Way] | None = None
    for slowest in sorted(set(times.values())):
        if best is not None and free[0] + (m - 1) * slowest >= best[0]:
            break
        way = least(slowest)
        if way is not None and (best is None or way[0] + (m - 1) * slowest < best[0]):
            best = way[0] + (m - 1) * slowest, way
    assert best is not None
    return list(best[1][1])
