"""Few schedules for many shapes of a kernel: which ones, and a tree of sizes that says where each is used.

Shapes are drawn from the ranges, or listed. Their start schedules, and what short searches at a few of them find, are candidates. Each is
timed on the shapes where something is expected of it, by what it was at near shapes; where it was not timed, that stands for it. `choice` picks the schedules and grows the tree. Shapes that had no part in this say what the tree costs."""

from __future__ import annotations

import contextlib
import math
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...cache.size_tree import MOST, Ranges, SizeTree, tree_of
from ...ir.errors import OutOfTimeError, UsageError
from ...measure.inputs import require_operands
from ...opts.fitted import fitted
from ...plan.resolve import MOST_INSTRUCTIONS
from ..api import tune
from ..budget import Budget, parse_seconds
from ..interrupts import Deadline, OutOfTime
from ..kernel_task import KernelTask
from ..progress import Silent
from ..task import TuneRequest
from .choice import chosen, grown
from .kept import Keeper
from .ranges import HOW, How, ShapesResult, SizeRange, WeightedShape, drawn
from .timed import Allowance, remembered, times_of

if TYPE_CHECKING:
    from ...cache import Cache
    from ...devices import Device
    from ...ir.dtypes import DTypeLike
    from ..progress import Progress
    from ..space import Schedule, Space

DEFAULT_S = 60.0
SCHEDULES = 6
"""Schedules at most for ranges, unless the caller says otherwise; for a list of shapes it is one."""
_SHAPES = (6, 96)
"""Shapes that are drawn, at least and at most."""
_SHAPE_S = 2.5
"""About how long a shape takes: its start schedules, and a few that are timed."""
_LONGEST = 1 / 400
"""Of the budget: the longest call that is expected of a shape that is drawn."""
_SEARCHED, _FIRST, _CHOSEN, _HELD = 0.3, 0.62, 0.8, 0.9
"""Of the budget: when searches end, when candidates are no longer tried, when the chosen ones are no longer timed on all shapes, and when
shapes are no longer held against the tree."""
_OWN, _TRIED = 2, 6
"""Start schedules of its own, and other candidates, that are timed on a shape at first."""
_UNKNOWN = 0.5
"""The cost of a schedule that was timed nowhere."""
_SEARCH_S, _ANCHORS = 5.0, 12
"""Seconds that a search at one shape is worth, and how many there are at most."""


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

    def until(self, share: float) -> bool:
        """Whether less than a share of the budget is spent."""
        return self.allowance.spent < share * self.allowance.seconds

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
            if n >= 3 and not self.until(_FIRST):
                return
            own = shape.space.starts()[:_OWN]
            every = list(self.pool)
            ranked = [s for _, s in sorted(zip(self.expected(shape, every), every, strict=True), key=lambda x: x[0])]
            self.pool |= dict.fromkeys(own)
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
                if not self.until(_CHOSEN):
                    return [every[i] for i in found]
                if shape.times:
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


def tune_sizes(
    kernel: str,
    sizes: Sequence[SizeRange] | Sequence[WeightedShape],
    dtype: DTypeLike | None = None,
    device: str | Device = "cpu",
    *,
    fixed: Mapping[str, int] | None = None,
    schedules: int | None = None,
    how: How = "geomean",
    budget: str | float | None = None,
    threads: int | None = None,
    random_seed: int = 0,
    cache: str | os.PathLike[str] | Cache | None = None,
    allow: Iterable[str] = (),
    again: bool = False,
    progress: Progress | None = None,
) -> ShapesResult:
    """Choose at most `schedules` schedules (6; 1 for a list of shapes) for many shapes of `kernel`, and a tree of sizes that says where
    each is used (`cache.size_tree`).

    `kernel`: a name or `my.py:function`. `sizes`: ranges of sizes, beside the sizes that are `fixed`, or shapes with weights. What is made small is the
    weighted geometric mean of the times over those of the best schedule of each shape ("geomean"), or the largest of these ("worst").
    `budget`: seconds or text such as "60s" (the default), kept as `tune` keeps it; with more of it, more shapes are drawn and more
    schedules compared. The tree is kept in the cache with the kernel whose sizes are symbols. `best()` answers from it where nothing was
    tuned for the very shape; kernels with symbols of these ranges have its parts. A cached tree is the answer unless `again`. Raises
    UsageError, KernelError, DeviceError, CacheError, and Interrupted as `tune` does; a tree of what was timed until then is kept."""
    from ... import cache as caches

    listed = [s for s in sizes if isinstance(s, WeightedShape)]
    varying = [s for s in sizes if isinstance(s, SizeRange)]
    fixed = dict(fixed or {})
    most = schedules if schedules is not None else SCHEDULES if varying else 1
    _check(listed, varying, fixed, most, how)
    started = time.monotonic()
    show = progress if progress is not None else Silent()
    seconds = parse_seconds(budget) if budget is not None else DEFAULT_S
    search = SizeSearch(kernel, fixed, dtype, device, threads, random_seed, allow, how, show, Allowance(seconds, started))
    ranges = {r.name: (r.lo, r.hi) for r in varying} or spans([s.shape for s in listed])
    with contextlib.ExitStack() as stack:
        stack.enter_context(Deadline(seconds, started))
        store = cache if isinstance(cache, caches.Cache) else stack.enter_context(caches.open(cache))
        store.will_write = True
        kept = Keeper(search, ranges, bool(listed), store)
        if varying and not again and (answer := kept.known(started)) is not None:
            return answer
        rng = random.Random(random_seed)
        try:
            if varying:
                count = max(_SHAPES[0], min(_SHAPES[1], int(0.6 * seconds / _SHAPE_S)))
                search.shapes = [search.light(s, {r.name: r.lo for r in varying}) for s in drawn(varying, count, rng)]
            else:
                search.shapes = [search.shape(s.shape, s.weight) for s in listed]
            for shape in search.shapes:
                require_operands(shape.task.kernel, {})
            for shape in (anchors := search.anchors(int(_SEARCHED * seconds / _SEARCH_S))):
                share = search.allowance.slice(_SEARCHED, _SEARCHED + 0.05, len(anchors))
                if share is not None:
                    search.searched(shape, share, store)
            search.first()
            tree = search.tree(most, ranges)
            held = kept.held_out(tree, varying, random.Random(random_seed + 1), _HELD) if varying else search.shapes
            return kept.recorded(tree, held, started, "")
        except OutOfTime as e:
            some = any(s.times for s in search.shapes)
            return kept.recorded(search.tree(most, ranges), (), started, str(e)) if some else kept.result(None, (), started, str(e), 4)
        except KeyboardInterrupt:
            if any(s.times for s in search.shapes):
                kept.recorded(search.tree(most, ranges), (), started, "interrupted")
            raise


def spans(shapes: Sequence[Mapping[str, int]]) -> dict[str, tuple[int, int]]:
    """The least ranges that hold the sizes of some shapes."""
    return {n: (min(s[n] for s in shapes), max(s[n] for s in shapes)) for n in shapes[0]}


def _check(listed: Sequence[WeightedShape], varying: Sequence[SizeRange], fixed: Mapping[str, int], most: int, how: str) -> None:
    """Raise UsageError for what cannot be asked for."""
    if how not in HOW:
        raise UsageError(f"shapes are aggregated by {' or '.join(HOW)}, not {how!r}")
    if most < 1 or most > MOST:
        raise UsageError(f"schedules must be at least 1 and at most {MOST}, not {most}")
    if (listed and varying) or (not varying and len(listed) < 2):
        raise UsageError("sizes are ranges, such as SizeRange('m', 1, 4096), or two or more of WeightedShape({'m': 64}, 1.0)")
    names = [r.name for r in varying]
    for n in names:
        if n in fixed or names.count(n) > 1:
            raise UsageError(f"{n} varies and is given as well: leave it out of the shape")
    if listed and len({tuple(sorted(s.shape)) for s in listed}) > 1:
        raise UsageError("shapes of one list give the same sizes: " + "; ".join(map(str, listed[:3])))
