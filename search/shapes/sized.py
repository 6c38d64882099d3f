"""Few schedules for many shapes of a kernel: which ones, and a tree of sizes that says where each is used.

Shapes are drawn from the ranges, or listed. Their start schedules, and what short searches at a few of them find, are candidates. The model
estimates each at every shape. Those that it expects to be good are timed, shape by shape, and what they took corrects the model near there.
`choice` picks the schedules and grows the tree. Shapes that had no part in this say what the tree costs."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from statistics import median
from typing import TYPE_CHECKING, Any

from ...cache.size_tree import Branch, Ranges, SizeTest, SizeTree, tree_of
from ...ir.errors import OutOfTimeError
from ...plan.resolve import MOST_INSTRUCTIONS
from ...plan.size_trees import as_here
from ..api import tune
from ..budget import Budget
from ..kernel_task import KernelTask
from ..task import TuneRequest
from .timed import Allowance, remembered, times_of

if TYPE_CHECKING:
    import numpy as np

    from ...cache import Cache
    from ...devices import Device
    from ...ir.dtypes import DTypeLike
    from ..progress import Progress
    from ..space import Schedule, Space


# choice ---------------------------------------------------------------------------------------------------------------
#
# Which few schedules are for which sizes: from a table of costs, the set of schedules (facility location, greedily
# and by swaps), and a decision tree over sizes that deals them out (as CART grows one: Breiman, Friedman, Olshen,
# Stone, 1984, with costs in the place of classes).
#
# A cost is the logarithm of a schedule's time at a shape over the time of the best one there; infinite where it does
# not work.


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
        """The total of each schedule together with others whose least costs are these."""
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


# sized ----------------------------------------------------------------------------------------------------------------

_LONGEST = 1 / 400
"""Of the budget: the longest call that is expected of a shape that is drawn."""
_GATHERED, _ESTIMATED, SEARCHED, _TIMED = 0.12, 0.3, 0.1, 0.72
"""Of the budget: when start schedules are no longer asked for and when the model no longer is, what searches at single shapes have, and when
candidates are no longer timed."""
SEARCHES_END = _ESTIMATED + SEARCHED + 0.03
_OWN = 2
"""Start schedules of each shape that are candidates."""
_POOL = 3
"""Candidates for each schedule that is wanted that are estimated at all shapes."""
_FEW = 24
"""Shapes at which all candidates are estimated, to choose those."""
_BEST, _CHOSEN = 2, 2
"""Candidates that are timed at a shape in one go: those that are expected to be best, and of the ones that are chosen so far."""
_AGAIN = 8
"""Shapes after which the schedules are chosen anew."""
_DOUBT = 1.0
"""How much the model counts beside what was timed (a shape of the very sizes would count 5)."""
_UNTRIED = 0.3
"""What is added to the cost of a schedule that was timed nowhere, when schedules are chosen: what only the model praises is no answer."""
_HARD = 2.0
"""Where sizes are ranges, this times a cost's square is added to it, so that no shape pays for all others."""
_ANCHORS = 8
"""Shapes that are searched at, at most."""


class Shape:
    """One shape: its task, and what is known of schedules there."""

    def __init__(self, task: KernelTask, sizes: Mapping[str, int], weight: float = 1.0) -> None:
        self.task, self.sizes, self.weight = task, dict(sizes), weight
        self.space: Space = task.space()
        self.times: dict[Schedule, float] = {}
        """Seconds, by the schedule as it is here; infinite for what does not work."""
        self.usual = 0.0
        """The logarithm of what schedules take here over what the model has: the median."""
        self.wrong: dict[Schedule, float] = {}
        """The same of each candidate that was timed, less `usual`."""
        self._here: dict[Schedule, Schedule] = {}

    @property
    def work(self) -> int:
        """Floating-point operations."""
        return self.task.job("", TuneRequest(Budget(None))).flops

    def __str__(self) -> str:
        return ",".join(f"{k}={v}" for k, v in self.sizes.items())

    def here(self, opts: Schedule) -> Schedule:
        """A schedule as this shape has it."""
        found = self._here.get(opts)
        if found is None:
            found = self._here[opts] = as_here(self.task.kernel, opts, self.task.device.target, self._modelled, self.space.starts()[0])
        return found

    def estimate(self, opts: Schedule) -> float:
        """The model's time of a schedule; infinite where it is not legal, or too much code."""
        return self._modelled(self.here(opts))

    def _modelled(self, here: Schedule) -> float:
        state = self.space.state(here)
        return math.inf if state is None or self.space.code_size(here) > MOST_INSTRUCTIONS else state.estimate

    def time(self, opts: Schedule) -> float | None:
        """The time of a schedule; None where it was not timed."""
        return self.times.get(self.here(opts))

    def learn(self, schedules: Iterable[Schedule]) -> None:
        """Compare the times with the model's."""
        pairs = [(s, t, self.estimate(s)) for s in schedules if (t := self.time(s)) is not None]
        logs = {s: math.log(t / e) for s, t, e in pairs if max(t, e) < math.inf}
        self.usual = median(logs.values()) if logs else self.usual
        self.wrong = {s: x - self.usual for s, x in logs.items()}

    @property
    def best(self) -> float:
        """The least time that is known."""
        return min(self.times.values(), default=math.inf)


class SizeSearch:
    """One call of `tune_sizes`."""

    def __init__(
        self,
        kernel: str,
        fixed: Mapping[str, int],
        dtype: DTypeLike | None,
        device: str | Device,
        threads: int | None,
        random_seed: int,
        allow: Iterable[str],
        how: str,
        hard: bool,
        show: Progress,
        allowance: Allowance,
    ) -> None:
        self.kernel, self.fixed, self.dtype, self.device, self.threads = kernel, dict(fixed), dtype, device, threads
        self.allow, self.how, self.random_seed, self.show, self.allowance = tuple(allow), how, random_seed, show, allowance
        self.hard = hard
        """Whether large costs count more than they are."""
        self.shapes: list[Shape] = []
        self.counts: Counter[str] = Counter()
        self.pool: dict[Schedule, None] = {}

    def shape(self, sizes: Mapping[str, int], weight: float = 1.0) -> Shape:
        """A shape of the kernel."""
        task = KernelTask(self.kernel, {**self.fixed, **sizes}, self.dtype, self.device, self.threads, None, self.allow)
        return Shape(task, sizes, weight)

    def light(self, shape: Shape) -> bool:
        """Whether calls of a shape are short enough for this budget to be timed."""
        roof = shape.task.roofline()
        return max(shape.work / 2e10, roof.seconds if roof else 0.0) <= _LONGEST * self.allowance.seconds

    def timed(self, shape: Shape, schedules: Iterable[Schedule]) -> None:
        """Time those of some schedules that were not timed at a shape."""
        wanted = [s for s in dict.fromkeys(map(shape.here, schedules)) if s not in shape.times]
        if not wanted:
            return
        self.show.phase(f"comparing at {shape}")
        taken, measured = times_of(shape.task, wanted, self.random_seed, self.show)
        self.counts.update(m.outcome.value for m in measured)
        shape.times.update({s: taken.get(s, math.inf) for s in wanted})
        shape.learn(self.pool)

    def searched(self, shape: Shape, seconds: float, cache: Cache) -> None:
        """The best schedules of a search at one shape, as candidates."""
        self.show.phase(f"{shape} alone")
        try:
            result = tune(
                self.kernel, {**self.fixed, **shape.sizes}, self.dtype, shape.task.device, seconds, threads=shape.task.threads,
                random_seed=self.random_seed, cache=cache, progress=self.show, allow=self.allow,
            )  # fmt: skip
        except OutOfTimeError:  # the others go on
            return
        self.counts.update(result.counts)
        if result.found:
            self.pool |= dict.fromkeys([result.opts, *remembered(shape.task, cache, 2)])

    def anchors(self, count: int) -> list[Shape]:
        """Shapes to search at: those that weigh most, and of equal ones some from light to heavy, without the lightest."""
        ranked = sorted(self.shapes, key=lambda s: (s.weight, s.work))
        count = max(0, min(count, _ANCHORS, len(ranked)))
        light = len(ranked) // 4
        return [ranked[light + (len(ranked) - 1 - light) * (i + 1) // count] for i in range(count)]

    def gathered(self, most: int) -> None:
        """The candidates: start schedules of the shapes, and of them as many as are worth estimating everywhere."""
        self.show.phase("asking for start schedules")
        shapes = self._spread()
        for n, shape in enumerate(shapes):
            if n >= 3 and not self.allowance.fits(_GATHERED, "starts"):
                break
            with self.allowance.step("starts"):
                self.pool |= dict.fromkeys(shape.space.starts()[:_OWN])
        self.show.phase("estimating")
        every, known = list(self.pool), []
        for n, shape in enumerate(shapes[:_FEW]):
            if n >= 3 and not self.allowance.fits(0.5 * (_GATHERED + _ESTIMATED), "row"):
                break
            with self.allowance.step("row"):
                known.append([shape.estimate(s) for s in every])
        costs = [[_cost(t, min(row)) for t in row] for row in known]
        best = chosen(costs, [s.weight for s in shapes[: len(known)]], _POOL * most, False, 0.0)
        self.pool = {every[i]: None for i in best}
        for n, shape in enumerate(shapes):
            if n >= 3 and not self.allowance.fits(_ESTIMATED, "estimates"):
                self.shapes = shapes[:n]
                return
            with self.allowance.step("estimates"):
                for s in self.pool:
                    shape.estimate(s)

    def compared(self, most: int) -> None:
        """On one shape after the other, as long as there is time and something to learn: the candidates that are expected to be the best
        there, its first start schedule, and the best of those that are chosen so far, timed."""
        pool = list(self.pool)
        light = [s for s in self._spread() if self.light(s)] or sorted(self.shapes, key=lambda s: s.work)[:3]
        few: list[int] = []
        before = -1
        while before != (before := sum(len(s.times) for s in light)):
            for n, shape in enumerate(light):
                if not few or n % _AGAIN == 0:
                    few = self._chosen(pool, most)
                expected = self.expected(shape, pool)
                best = sorted(range(len(pool)), key=expected.__getitem__)[:_BEST]
                best += sorted(few, key=expected.__getitem__)[:_CHOSEN]
                if any(s.times for s in light[3:]) and not self.allowance.fits(_TIMED, "timed"):
                    return
                with self.allowance.step("timed"):
                    self.timed(shape, [*(pool[i] for i in best), *([] if shape.times else shape.space.starts()[:1])])

    def _chosen(self, pool: Sequence[Schedule], most: int) -> list[int]:
        return chosen(self._costs(pool), [s.weight for s in self.shapes], most, self.how == "worst")

    def _costs(self, schedules: Sequence[Schedule]) -> list[list[float]]:
        """What `choice` wants: for each shape, the cost of each schedule."""
        costs = [self.expected(s, schedules, _UNTRIED) for s in self.shapes]
        return costs if self.how == "worst" or not self.hard else [[c + _HARD * c * c for c in row] for row in costs]

    def _spread(self) -> list[Shape]:
        """The shapes in an order in which the first ones are spread."""
        out = list(self.shapes)
        random.Random(self.random_seed).shuffle(out)
        return sorted(out, key=lambda s: not s.times)

    def expected(self, shape: Shape, schedules: Sequence[Schedule], untried: float = 0.0) -> list[float]:
        """The cost of each schedule at a shape, as `choice` has costs: as it was timed there, else as the model has it, corrected by how wrong
        that was of the schedule at near shapes (on logarithmic scales; kernel regression: Nadaraya, 1964). `untried` is added where nothing is known of it, and less where it was timed
        nearer."""
        logs = [math.log(x) for x in shape.sizes.values()]
        near = []
        for other in self.shapes:
            if other.wrong and other is not shape:
                away = sum((a - math.log(b)) ** 2 for a, b in zip(logs, other.sizes.values(), strict=True))
                near.append((1 / (0.2 + away), other.wrong))
        out, doubts = [], []
        for s in schedules:
            known = shape.time(s)
            doubts.append(0.0)
            if known is None:
                seen = [(w, wrong[s]) for w, wrong in near if s in wrong]
                whole = _DOUBT + sum(w for w, _ in seen)
                off = sum(w * x for w, x in seen) / whole
                doubts[-1] = untried * _DOUBT / whole
                known = shape.estimate(s) * math.exp(shape.usual + off)
            out.append(known)
        best = min([shape.best, *out])
        return [_cost(t, best) + doubt for t, doubt in zip(out, doubts, strict=True)]

    def tree(self, most: int, ranges: Ranges) -> SizeTree:
        """The tree of at most so many schedules."""
        pool = list(self.pool)
        few = [pool[i] for i in self._chosen(pool, most)]
        weights = [s.weight for s in self.shapes]
        return tree_of(ranges, grown([s.sizes for s in self.shapes], self._costs(few), weights, self.how == "worst"), few)


def _cost(time: float, best: float) -> float:
    return math.log(time / best) if time < math.inf else math.inf
