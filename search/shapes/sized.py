"""Few schedules for many shapes of a kernel: which ones, and a tree of sizes that says where each is used.

Shapes are drawn from the ranges, or listed. Their start schedules, and what short searches at a few of them find, are candidates. Each is
timed on the shapes where something is expected of it, by what it was at near shapes; where it was not timed, that stands for it. `choice` picks the schedules and grows the tree. Shapes that had no part in this say what the tree costs."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...cache.size_tree import Ranges, SizeTree, tree_of
from ...ir.errors import OutOfTimeError
from ...opts.fitted import fitted
from ...plan.resolve import MOST_INSTRUCTIONS
from ..api import tune
from ..budget import Budget
from ..kernel_task import KernelTask
from ..task import TuneRequest
from .choice import chosen, grown
from .timed import Allowance, remembered, times_of

if TYPE_CHECKING:
    from ...cache import Cache
    from ...devices import Device
    from ...ir.dtypes import DTypeLike
    from ..progress import Progress
    from ..space import Schedule, Space

_LONGEST = 1 / 400
"""Of the budget: the longest call that is expected of a shape that is drawn."""
SEARCHED, _FIRST, _CHOSEN = 0.25, 0.5, 0.62
"""Of the budget: when searches end, when candidates are no longer tried, and when the chosen ones are no longer timed on all
shapes."""
_OWN, _TRIED = 2, 6
"""Start schedules of its own, and other candidates, that are timed on a shape at first."""
_UNKNOWN = 0.5
"""The cost of a schedule that was timed nowhere."""
_ANCHORS = 12
"""Shapes that are searched at, at most."""


class Shape:
    """One shape: its task, and what is known of schedules there."""

    def __init__(self, task: KernelTask, sizes: Mapping[str, int], weight: float = 1.0) -> None:
        self.task, self.sizes, self.weight = task, dict(sizes), weight
        self.space: Space = task.space()
        self.times: dict[Schedule, float] = {}
        """Median seconds, by the schedule as it is here; infinite for what does not work."""
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
            found = self._here[opts] = fitted(self.task.kernel, opts, self.task.device.target)
        return found

    def time(self, opts: Schedule) -> float | None:
        """The time of a schedule; None where it was not timed."""
        return self.times.get(self.here(opts))

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
        show: Progress,
        allowance: Allowance,
    ) -> None:
        self.kernel, self.fixed, self.dtype, self.device, self.threads = kernel, dict(fixed), dtype, device, threads
        self.allow, self.how, self.random_seed, self.show, self.allowance = tuple(allow), how, random_seed, show, allowance
        self.shapes: list[Shape] = []
        self.counts: Counter[str] = Counter()
        self.pool: dict[Schedule, None] = {}

    def shape(self, sizes: Mapping[str, int], weight: float = 1.0) -> Shape:
        """A shape of the kernel."""
        task = KernelTask(self.kernel, {**self.fixed, **sizes}, self.dtype, self.device, self.threads, None, self.allow)
        return Shape(task, sizes, weight)

    def light(self, sizes: Mapping[str, int], least: Mapping[str, int]) -> Shape:
        """A shape that is not heavier than the budget allows: the largest of its sizes are halved until it is so."""
        at, longest = dict(sizes), _LONGEST * self.allowance.seconds
        while True:
            shape = self.shape(at)
            roof = shape.task.roofline()
            large = [n for n in at if at[n] // 2 >= least[n]]
            if max(shape.work / 2e10, roof.seconds if roof else 0.0) <= longest or not large:
                return shape
            at[max(large, key=at.__getitem__)] //= 2

    def timed(self, shape: Shape, schedules: Iterable[Schedule]) -> None:
        """Time those of some schedules that were not timed at a shape."""
        wanted = [s for s in dict.fromkeys(map(shape.here, schedules)) if s not in shape.times]
        long = [s for s in wanted if shape.space.state(s) is None or shape.space.code_size(s) > MOST_INSTRUCTIONS]
        shape.times.update(dict.fromkeys(long, math.inf))
        wanted = [s for s in wanted if s not in long]
        if not wanted:
            return
        self.show.phase(f"comparing at {shape}")
        taken, measured = times_of(shape.task, wanted, self.random_seed, self.show)
        self.counts.update(m.outcome.value for m in measured)
        shape.times.update({s: taken.get(s, math.inf) for s in wanted})

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

    def first(self) -> None:
        """On each shape, as long as there is time: its start schedules, and the candidates that are expected to be good there, timed."""
        for n, shape in enumerate(self._spread()):
            if n >= 3 and not self.allowance.fits(_FIRST, "first"):
                return
            own = shape.space.starts()[:_OWN]
            every = list(self.pool)
            ranked = [s for _, s in sorted(zip(self.expected(shape, every), every, strict=True), key=lambda x: x[0])]
            self.pool |= dict.fromkeys(own)
            with self.allowance.step("first"):
                self.timed(shape, [*own, *ranked[:_TRIED]])

    def _spread(self) -> list[Shape]:
        """The shapes in an order in which the first ones are spread."""
        out = list(self.shapes)
        random.Random(self.random_seed).shuffle(out)
        return sorted(out, key=lambda s: not s.times)

    def expected(self, shape: Shape, schedules: Sequence[Schedule]) -> list[float]:
        """The cost of each schedule at a shape, as `choice` has costs: as it was timed there, else the mean of what it was at others, the
        near ones counting most (on logarithmic scales), and more where it was timed far away only."""
        logs = {n: math.log(x) for n, x in shape.sizes.items()}
        near: list[tuple[float, Shape]] = []
        for other in self.shapes:
            if other.times and other is not shape:
                near.append((sum((logs[n] - math.log(x)) ** 2 for n, x in other.sizes.items()), other))
        near.sort(key=lambda x: x[0])
        out = []
        for s in schedules:
            known = shape.time(s) if shape.times else None
            if known is not None:
                out.append(_cost(known, shape.best))
                continue
            seen = [(d, _cost(t, o.best)) for d, o in near if (t := o.time(s)) is not None][:4]
            weights = [1 / (0.2 + d) for d, _ in seen]
            mean = sum(w * min(c, 3.0) for w, (_, c) in zip(weights, seen, strict=True)) / sum(weights) if seen else _UNKNOWN
            out.append(mean + 0.02 + 0.05 * math.sqrt(seen[0][0]) if seen else mean)
        return out

    def costs(self, shapes: Sequence[Shape], schedules: Sequence[Schedule]) -> list[list[float]]:
        """What `choice` wants: for each shape, the cost of each schedule."""
        return [self.expected(s, schedules) for s in shapes]

    def choose(self, most: int) -> list[Schedule]:
        """At most so many schedules for all shapes: chosen, timed on all of them, and chosen again while that changes the choice."""
        every = list(self.pool)
        shapes = [s for s in self.shapes if s.times]
        found: list[int] = []
        for _ in range(4):
            now = sorted(chosen(self.costs(shapes, every), [s.weight for s in shapes], most, self.how == "worst"))
            if now == found:
                break
            found = now
            for shape in self._spread():
                if not self.allowance.fits(_CHOSEN, "chosen"):
                    return [every[i] for i in found]
                if shape.times:
                    with self.allowance.step("chosen"):
                        self.timed(shape, [every[i] for i in found])
        return [every[i] for i in found]

    def tree(self, most: int, ranges: Ranges) -> SizeTree:
        """The tree of at most so many schedules."""
        few = self.choose(most)
        shapes = [s for s in self.shapes if s.times]
        costs, weights = self.costs(shapes, few), [s.weight for s in shapes]
        return tree_of(ranges, grown([s.sizes for s in shapes], costs, weights, self.how == "worst"), few)


def _cost(time: float, best: float) -> float:
    return math.log(time / best) if time < math.inf else math.inf
