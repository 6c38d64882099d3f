"""Random moves between points: one parameter or two, to a near value more often than to any."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .points import ChoicePoint

if TYPE_CHECKING:
    from random import Random

    from .points import ChoicePoints, Family

TRIES = 60
"""Draws of a move until one is legal, at most."""


def step(
    points: ChoicePoints, point: ChoicePoint, rng: Random, wanted: Callable[[ChoicePoint], bool] = lambda p: True
) -> ChoicePoint | None:
    """A legal and `wanted` point near another one: mostly one parameter changes, sometimes two, rarely three, numbers
    to a neighbouring value half of the time. None where `TRIES` draws found none."""
    f = points.family(point)
    free = [p for p, v in enumerate(f.values) if len(v) > 1]
    if not free:
        return None
    for _ in range(TRIES):
        at = list(point.at)
        for p in rng.sample(free, min(len(free), rng.choice((1, 1, 1, 2, 2, 3)))):
            near = [i for i in (at[p] - 1, at[p] + 1) if 0 <= i < len(f.values[p])]
            if f.scaled[p] is not None and rng.random() < 0.5:
                at[p] = rng.choice(near)
            else:
                at[p] = rng.choice([i for i in range(len(f.values[p])) if i != at[p]])
        found = ChoicePoint(f.index, tuple(at))
        if wanted(found) and not points.illegal(found) and points.state(found) is not None:
            return found
    return None


def jump(family: Family, point: ChoicePoint, rng: Random) -> ChoicePoint:
    """A point with two or three other values, legal or not."""
    at = list(point.at)
    for p in rng.sample(range(len(at)), min(len(at), rng.choice((2, 2, 3)))):
        at[p] = rng.randrange(len(family.values[p]))
    return ChoicePoint(family.index, tuple(at))


def cross(points: ChoicePoints, a: ChoicePoint, b: ChoicePoint, rng: Random) -> ChoicePoint:
    """Each value from one of two points of a family (or the first point, where the families differ), perhaps illegal."""
    if a.template != b.template:
        return a
    return ChoicePoint(a.template, tuple(rng.choice(pair) for pair in zip(a.at, b.at)))
