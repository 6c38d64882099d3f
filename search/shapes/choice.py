"""Which few schedules are for which sizes: from a table of costs, the set of schedules (facility location, greedily and by swaps), and a
decision tree over sizes that deals them out (as CART grows one: Breiman, Friedman, Olshen, Stone, 1984, with costs in the place of classes).

A cost is the logarithm of a schedule's time at a shape over the time of the best one there; infinite where it does not work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import prod

from ...cache.size_tree import Branch, SizeTest

Costs = Sequence[Sequence[float]]
"""By shape, then by schedule."""
WORTH = 0.004
"""What a test must gain: of the mean cost of all shapes, since people read it."""
DEEPEST = 6
_LARGE = 50.0
"""The cost of a schedule that does not work."""


def chosen(costs: Costs, weights: Sequence[float], most: int, worst: bool) -> list[int]:
    """At most `most` schedules such that the best of them at each shape costs least: in the weighted mean, or where it costs most
    (`worst`). One more must gain `WORTH`."""
    every = range(len(costs[0]))

    def total(some: Sequence[int]) -> float:
        least = [min(min(row[s] for s in some), _LARGE) for row in costs]
        mean = sum(w * c for w, c in zip(weights, least, strict=True)) / sum(weights)
        return max(least) + 0.01 * mean if worst else mean

    found: list[int] = []
    value = math.inf
    while len(found) < min(most, len(every)):
        best = min((s for s in every if s not in found), key=lambda s: total([*found, s]))
        gained = total([*found, best])
        if found and value - gained < WORTH / 2:
            break
        found.append(best)
        value = gained
    for s in list(found):  # what the later ones made needless
        if len(found) > 1 and total([x for x in found if x != s]) - value < WORTH / 2:
            found.remove(s)
            value = total(found)
    better = True
    while better:
        better = False
        for i in range(len(found)):
            for s in every:
                tried = [*found[:i], s, *found[i + 1 :]]
                if s not in found and total(tried) < value - 1e-9:
                    found, value, better = tried, total(tried), True
    return found


def grown(sizes: Sequence[Mapping[str, int]], costs: Costs, weights: Sequence[float], worst: bool, least: int = 2) -> Branch:
    """A tree that sends each shape to a schedule (its column in `costs`). Each side of a test has at least `least` shapes."""
    names = [n for n in sizes[0] if len({s[n] for s in sizes}) > 1]
    terms = [t for count in (1, 2, 3) for t in combinations(names, count)]
    return _grown(range(len(sizes)), sizes, costs, [w / sum(weights) for w in weights], terms, worst, least, 0)


def _leaf(some: Sequence[int], costs: Costs, weights: Sequence[float], worst: bool) -> tuple[float, int]:
    """(cost, schedule) of the best schedule for some shapes."""

    def cost(s: int) -> float:
        here = [min(costs[i][s], _LARGE) for i in some]
        mean = sum(weights[i] * c for i, c in zip(some, here, strict=True))
        return mean + (0.2 * max(here) * sum(weights[i] for i in some) if worst else 0.0)

    return min((cost(s), s) for s in range(len(costs[0])))


def _grown(
    some: Sequence[int],
    sizes: Sequence[Mapping[str, int]],
    costs: Costs,
    weights: Sequence[float],
    terms: Sequence[tuple[str, ...]],
    worst: bool,
    least: int,
    depth: int,
) -> Branch:
    alone, schedule = _leaf(some, costs, weights, worst)
    if depth == DEEPEST or alone < WORTH / 4:
        return schedule
    best: tuple[float, tuple[str, ...], int] | None = None
    for term in terms:
        values = sorted({prod(sizes[i][n] for n in term) for i in some})
        for limit in _limits(values):
            low = [i for i in some if prod(sizes[i][n] for n in term) <= limit]
            high = [i for i in some if prod(sizes[i][n] for n in term) > limit]
            if min(len(low), len(high)) < least:
                continue
            cost = _leaf(low, costs, weights, worst)[0] + _leaf(high, costs, weights, worst)[0]
            cost += 0.1 * WORTH * (len(term) - 1)  # a size alone is easier to read than a product
            if best is None or cost < best[0]:
                best = cost, term, limit
    # one test may gain nothing where the next one does: on the way there each side is asked
    if best is None or (alone - best[0] < WORTH / 4 and depth >= DEEPEST - 2):
        return schedule
    _, term, limit = best
    low = [i for i in some if prod(sizes[i][n] for n in term) <= limit]
    high = [i for i in some if prod(sizes[i][n] for n in term) > limit]
    left, right = (_grown(side, sizes, costs, weights, terms, worst, least, depth + 1) for side in (low, high))
    gained = alone - _cost(left, low, sizes, costs, weights) - _cost(right, high, sizes, costs, weights)
    tests = 1 + _tests(left) + _tests(right)
    return SizeTest(term, limit, left, right) if gained > WORTH / 4 * tests else schedule


def _tests(branch: Branch) -> int:
    return 1 + _tests(branch.low) + _tests(branch.high) if isinstance(branch, SizeTest) else 0


def _cost(branch: Branch, some: Sequence[int], sizes: Sequence[Mapping[str, int]], costs: Costs, weights: Sequence[float]) -> float:
    out = 0.0
    for i in some:
        at = branch
        while isinstance(at, SizeTest):
            at = at.low if prod(sizes[i][n] for n in at.names) <= at.limit else at.high
        out += weights[i] * min(costs[i][at], _LARGE)
    return out


def _limits(values: Sequence[int]) -> Iterator[int]:
    """A number between each two neighbours that is easy to read: the multiple of the largest power of two, the nearest to the middle."""
    for a, b in pairwise(values):
        middle = math.isqrt(a * b)
        for shift in range(b.bit_length(), -1, -1):
            limit = ((middle + (1 << shift >> 1)) >> shift) << shift
            if a <= limit < b:
                yield limit
                break
