"""Where one schedule shall give way to another: a range of sizes, divided by dynamic programming over the sizes that were timed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..space import Schedule

WORTH = 0.01
"""What one more bucket must gain: a share of the mean time, since every bucket is more code to build and to load."""

Times = Mapping[tuple["Schedule", int], float]
"""Seconds of a schedule at a size; what is not there did not work."""


@dataclass(frozen=True, slots=True)
class Division:
    """Schedules by the first and the last of the timed sizes that each is for, in order. `loss`: the geometric mean, over those sizes, of the
    time over that of the best schedule there, less 1."""

    parts: tuple[tuple[int, int, Schedule], ...]
    loss: float


def divide(times: Times, values: Sequence[int], schedules: Sequence[Schedule], most: int) -> Division | None:
    """The division of `values` into at most `most` runs that has the least mean logarithm of the time, a bucket more counting as
    `WORTH`. None where some size has no schedule that works."""
    best_at = {v: min((times[s, v] for s in schedules if (s, v) in times), default=math.inf) for v in values}
    if not values or math.inf in best_at.values():
        return None

    def run(i: int, j: int) -> tuple[float, Schedule | None]:
        """(summed log of time over the best, the schedule) of the best schedule for values[i:j]."""
        costs = [
            (sum(math.log(times[s, v] / best_at[v]) for v in values[i:j]), s)
            for s in schedules
            if all((s, v) in times for v in values[i:j])
        ]
        return min(costs, key=lambda c: c[0], default=(math.inf, None))

    n = len(values)
    runs = {(i, j): run(i, j) for i in range(n) for j in range(i + 1, n + 1)}
    # (cost, cuts) of the first j values in k runs
    table: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, 0): (0.0, ())}
    for k in range(1, min(most, n) + 1):
        for j in range(k, n + 1):
            ways = [(table[k - 1, i][0] + runs[i, j][0], (*table[k - 1, i][1], j)) for i in range(k - 1, j) if (k - 1, i) in table]
            if ways:
                table[k, j] = min(ways)
    ends = [(table[k, n][0] / n + WORTH * (k - 1), table[k, n][1]) for k in range(1, most + 1) if (k, n) in table]
    cost, cuts = min(ends, default=(math.inf, ()))
    if cost == math.inf:
        return None
    parts: list[tuple[int, int, Schedule]] = []
    first = 0
    for end in cuts:
        chosen = runs[first, end][1]
        assert chosen is not None
        parts.append((values[first], values[end - 1], chosen))
        first = end
    return Division(tuple(parts), math.expm1(cost - WORTH * (len(parts) - 1)))


def aggregate(
    times: Times, shapes: Sequence[int], weights: Sequence[float], schedules: Sequence[Schedule], how: str
) -> tuple[Schedule, float] | None:
    """The schedule that is best for all of `shapes` (numbers that `times` knows them by), and its loss: the weighted geometric mean
    ("geomean"), or the largest ("worst"), of its time over that of the best schedule of each shape, less 1. None where no schedule works for all."""
    best_at = {v: min((times[s, v] for s in schedules if (s, v) in times), default=math.inf) for v in shapes}
    found: list[tuple[float, Schedule]] = []
    for s in schedules:
        if not all((s, v) in times for v in shapes):
            continue
        logs = [math.log(times[s, v] / best_at[v]) for v in shapes]
        found.append((max(logs) if how == "worst" else sum(w * x for w, x in zip(weights, logs, strict=True)) / sum(weights), s))
    if not found:
        return None
    cost, chosen = min(found, key=lambda f: f[0])
    return chosen, math.expm1(cost)
