"""Which few schedules are for which sizes: from a table of costs, the set of schedules (facility location, greedily and by swaps), and a
decision tree over sizes that deals them out (as CART grows one: Breiman, Friedman, Olshen, Stone, 1984, with costs in the place of classes).

A cost is the logarithm of a schedule's time at a shape over the time of the best one there; infinite where it does not work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

from ...cache.size_tree import Branch, SizeTest

if TYPE_CHECKING:
    import numpy as np

Costs = Sequence[Sequence[float]]
"""By shape, then by schedule."""
WORTH = 0.004
"""What a test must gain, and half of it what a schedule must: of the mean cost of all shapes, since people read it."""
DEEPEST = 6
_LARGE = 50.0
"""The cost of a schedule that does not work."""


def _table(costs: Costs) -> np.ndarray[Any, Any]:
    import numpy as np

    out: np.ndarray[Any, Any] = np.minimum(np.asarray(costs, dtype=float), _LARGE)
    return out


def chosen(costs: Costs, weights: Sequence[float], most: int, worst: bool, gain: float = WORTH / 2) -> list[int]:
    """At most `most` schedules such that the best of them at each shape costs least: in the weighted mean, or where it costs most
    (`worst`). One more must gain `gain`."""
    import numpy as np

    table, share = _table(costs), np.asarray(weights, dtype=float) / sum(weights)
    count = table.shape[1]

    def totals(least: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Of each schedule beside others whose least costs are these."""
        both = np.minimum(least[:, None], table)
        mean = share @ both
        out: np.ndarray[Any, Any] = both.max(axis=0) + 0.01 * mean if worst else mean
        return out

    def rest(found: Sequence[int]) -> np.ndarray[Any, Any]:
        return table[:, found].min(axis=1) if found else np.full(len(table), np.inf)

    found: list[int] = []
    value = math.inf
    while len(found) < min(most, count):
        tried = totals(rest(found))
        tried[found] = np.inf
        best = int(tried.argmin())
        if found and value - tried[best] < gain:
            break
        found.append(best)
        value = float(tried[best])
    for s in list(found):  # what the later ones made needless
        others = [x for x in found if x != s]
        if others and (gained := float(totals(rest(others))[others[0]])) - value < gain:
            found, value = others, gained
    better = True
    while better:
        better = False
        for i in range(len(found)):
            tried = totals(rest([*found[:i], *found[i + 1 :]]))
            tried[found] = np.inf
            if tried.min() < value - 1e-9:
                found[i], value, better = int(tried.argmin()), float(tried.min()), True
    return found


def grown(sizes: Sequence[Mapping[str, int]], costs: Costs, weights: Sequence[float], worst: bool, least: int = 2) -> Branch:
    """A tree that sends each shape to a schedule (its column in `costs`). Each side of a test has at least `least` shapes."""
    import numpy as np

    names = [n for n in sizes[0] if len({s[n] for s in sizes}) > 1]
    terms = {t: np.array([prod(s[n] for n in t) for s in sizes], dtype=float) for k in (1, 2, 3) for t in combinations(names, k)}
    return _Growing(_table(costs), np.asarray(weights, dtype=float) / sum(weights), terms, worst, least).grown(np.arange(len(sizes)), 0)[0]


class _Growing:
    """A tree being grown."""

    def __init__(
        self,
        table: np.ndarray[Any, Any],
        share: np.ndarray[Any, Any],
        terms: Mapping[tuple[str, ...], np.ndarray[Any, Any]],
        worst: bool,
        least: int,
    ) -> None:
        self.table, self.share, self.terms, self.worst, self.least = table, share, terms, worst, least

    def prefixes(self, some: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What each schedule costs the first shape, the first two, and so on."""
        import numpy as np

        rows, share = self.table[some], self.share[some][:, None]
        out = np.cumsum(share * rows, axis=0)
        return out + 0.2 * np.maximum.accumulate(rows, axis=0) * np.cumsum(share, axis=0) if self.worst else out

    def grown(self, some: np.ndarray[Any, Any], depth: int) -> tuple[Branch, float, int]:
        """The branch for some shapes, what it costs them, and its tests."""
        import numpy as np

        whole = self.prefixes(some)[-1]
        schedule, alone = int(whole.argmin()), float(whole.min())
        leaf = schedule, float(self.share[some] @ self.table[some, schedule]), 0
        if depth == DEEPEST or alone < WORTH / 4:
            return leaf
        best: tuple[float, tuple[str, ...], int] | None = None
        for term, values in self.terms.items():
            order = some[np.argsort(values[some], kind="stable")]
            at = values[order]
            both = self.prefixes(order).min(axis=1)[:-1] + self.prefixes(order[::-1]).min(axis=1)[::-1][1:]
            both += 0.1 * WORTH * (len(term) - 1)  # a size alone is easier to read than a product
            both[(at[1:] == at[:-1]) | (np.arange(1, len(at)) < self.least) | (np.arange(1, len(at)) > len(at) - self.least)] = np.inf
            if len(both) and both.min() < (best[0] if best is not None else np.inf):
                i = int(both.argmin())
                best = float(both[i]), term, _limit(int(at[i]), int(at[i + 1]))
        # one test may gain nothing where the next one does: on the way there each side is asked
        if best is None or (alone - best[0] < WORTH / 4 and depth >= DEEPEST - 2):
            return leaf
        _, term, limit = best
        low = self.terms[term][some] <= limit
        (left, a, m), (right, b, n) = self.grown(some[low], depth + 1), self.grown(some[~low], depth + 1)
        root, tests = SizeTest(term, limit, left, right), 1 + m + n
        if isinstance(left, SizeTest) and left.names == term and left.high == right:  # the test inside says it all
            root, tests = left, m
        elif isinstance(right, SizeTest) and right.names == term and right.low == left:
            root, tests = right, n
        return (root, a + b, tests) if leaf[1] - a - b > WORTH / 4 * tests else leaf


def _limit(a: int, b: int) -> int:
    """A number from a to b - 1 that is easy to read: the multiple of the largest power of two, the nearest to the middle."""
    middle = math.isqrt(a * b)
    for shift in range(b.bit_length(), -1, -1):
        limit = ((middle + (1 << shift >> 1)) >> shift) << shift
        if a <= limit < b:
            return limit
    return a
