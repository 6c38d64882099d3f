"""The points of a space's templates, and random moves between them: a template and one of the values of each of its parameters.

A parameter may be of no consequence under some choices, and two points may make the same schedule: what a point makes decides, by the
schedule's hash."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from random import Random

    from ..space import Schedule, Space, State


DRAWS = 400
"""Draws of choices until one is legal, at most."""


@dataclass(frozen=True, slots=True)
class ChoicePoint:
    """`template`: which one, by its place; `at`: the place of each parameter's value."""

    template: int
    at: tuple[int, ...]


class LatticeLike(Protocol):
    """All legal points of a template, by the places of their values, where there are too many to list them as choices."""

    size: int

    def __contains__(self, at: tuple[int, ...]) -> bool: ...

    def __iter__(self) -> Iterator[tuple[int, ...]]: ...

    def draw(self, rng: Random) -> tuple[int, ...]:
        """Draw one of them, each with the same probability."""
        ...


class Family:
    """A template's parameters as numbers. `scaled[p][i]`: value i of parameter p between 0 and 1, by its logarithm
    where values span more than a factor of four; None where the values are no numbers. A template may have `points`,
    all its choices, or a `lattice`, which knows them."""

    def __init__(self, index: int, template: Any) -> None:
        self.index, self.template = index, template
        self.names = tuple(template.params)
        self.values = tuple(tuple(template.params[k]) for k in self.names)
        self.scaled = tuple(scaled(v) for v in self.values)
        listed = getattr(template, "points", None)
        self.listed: list[ChoicePoint] | None = None
        if listed is not None:
            places = [{v: i for i, v in enumerate(vs)} for vs in self.values]
            self.listed = [
                ChoicePoint(index, tuple(where[p[k]] for k, where in zip(self.names, places)))
                for p in listed()
                if len(p) == len(self.names)
            ]
        self.legal = None if self.listed is None else frozenset(self.listed)
        self.lattice: LatticeLike | None = getattr(template, "lattice", None)

    @property
    def size(self) -> int:
        """Points, legal or not unless they are listed."""
        if self.lattice is not None:
            return self.lattice.size
        return len(self.listed) if self.listed is not None else math.prod(len(v) for v in self.values)

    def allows(self, point: ChoicePoint) -> bool | None:
        """Whether a point is legal, as far as that is known of all points; None where it has to be found out."""
        if self.lattice is not None:
            return point.at in self.lattice
        return None if self.legal is None else point in self.legal

    def choices(self, point: ChoicePoint) -> dict[str, Any]:
        """The values, by name."""
        return {k: v[i] for k, v, i in zip(self.names, self.values, point.at)}


class ChoicePoints:
    """All families of a space, and what is known of their points: which are legal, and what they make."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.families = [Family(i, t) for i, t in enumerate(space.templates())]
        self.families = [f for f in self.families if f.size]
        # a family of four points is not worth as many draws as one of thousands, nor a thousandth of them
        self._weights = [math.log(1 + f.size) for f in self.families]
        self._by_index = {f.index: f for f in self.families}
        self._states: dict[ChoicePoint, State | None] = {}
        self._of: dict[str, ChoicePoint] = {}

    def __bool__(self) -> bool:
        return bool(self.families)

    def family(self, point: ChoicePoint) -> Family:
        """The family of a point."""
        return self._by_index[point.template]

    def illegal(self, point: ChoicePoint) -> bool:
        """Whether a point is known to be illegal, without finding out."""
        known = self.family(point).allows(point)
        return not known if known is not None else point in self._states and self._states[point] is None

    def state(self, point: ChoicePoint) -> State | None:
        """The legal schedule that a point makes, else None."""
        if point not in self._states:
            f = self.family(point)
            opts: Schedule | None = None
            if f.allows(point) is not False:
                opts = self.space.instance(f.template, f.choices(point))
            found = None if opts is None else self.space.state(opts)
            self._states[point] = found
            if found is not None:
                self._of.setdefault(found.hash, point)
        return self._states[point]

    def of(self, state: State) -> ChoicePoint | None:
        """The point that made a schedule, where one that was looked at did."""
        return self._of.get(state.hash)

    def alike(self, a: ChoicePoint, b: ChoicePoint) -> float:
        """How near two points are: the sum over their parameters of one less the distance of the values, numbers by
        `Family.scaled`; those of two families are not alike at all."""
        if a.template != b.template:
            return 0.0
        f = self.family(a)
        total = 0.0
        for i, j, n in zip(a.at, b.at, f.scaled):
            total += 1.0 if i == j else 0.0 if n is None else 1 - abs(n[i] - n[j])
        return total

    def draw(self, family: Family, rng: Random) -> ChoicePoint:
        """A point drawn evenly, legal or not unless the family's points are listed."""
        if family.lattice is not None:
            return ChoicePoint(family.index, family.lattice.draw(rng))
        if family.listed:
            return rng.choice(family.listed)
        return ChoicePoint(family.index, tuple(rng.randrange(len(v)) for v in family.values))

    def uniform(self, rng: Random, family: Family | None = None) -> ChoicePoint | None:
        """A legal point: first the family, unless it is given, by the logarithm of its size, then its choices evenly. None where `DRAWS` were not legal."""
        for _ in range(DRAWS):
            point = self.draw(family if family is not None else rng.choices(self.families, self._weights)[0], rng)
            if self.state(point) is not None:
                return point
        return None

    def spread(self, rng: Random, known: Sequence[ChoicePoint], draws: int) -> ChoicePoint | None:
        """A legal point drawn evenly; of several `draws` the one least like any of the `known` ones. What is drawn first
        then shows more of each parameter's values."""
        drawn = [p for p in (self.uniform(rng) for _ in range(draws if known else 1)) if p is not None]
        return min(drawn, key=lambda p: max((self.alike(p, q) for q in known), default=0.0), default=None)

    def neighbours(self, point: ChoicePoint) -> Iterator[ChoicePoint]:
        """Points with one other value, legal or not: near values of each parameter first."""
        f = self.family(point)
        steps = max((len(v) for v in f.values), default=0)
        for step in range(1, steps):
            for p, i in enumerate(point.at):
                for j in (i - step, i + step):
                    if 0 <= j < len(f.values[p]):
                        yield ChoicePoint(f.index, (*point.at[:p], j, *point.at[p + 1 :]))


def scaled(values: Sequence[Any]) -> tuple[float, ...] | None:
    """Values between 0 and 1, as `Family.scaled` says."""
    if not all(isinstance(v, (int, float)) for v in values):
        return None
    low, high = min(values), max(values)
    positive = [v for v in values if v > 0]
    if low >= 0 and positive and high > 4 * min(positive):
        least = math.log(min(positive))
        step = (math.log(high) - least) / max(1, len(values) - 1)
        # nothing at all is one step below the least
        placed = [math.log(v) if v > 0 else least - step for v in values]
    else:
        placed = [float(v) for v in values]
    first, width = min(placed), (max(placed) - min(placed)) or 1.0
    return tuple((x - first) / width for x in placed)


def choices_of(family: Family, params: Mapping[str, Any]) -> ChoicePoint | None:
    """The point of these choices; None where a value is not among the parameter's."""
    try:
        return ChoicePoint(family.index, tuple(v.index(params[k]) for k, v in zip(family.names, family.values)))
    except (KeyError, ValueError):
        return None


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
