"""A size that is known only at the call: schedules for parts of its range, and where one gives way to the next.

At a few sizes of the range the kernel is tuned twice: with the size as a symbol, which is the code that will run, and alone, which
says what a symbol costs. The best schedules of all of these are then timed at all the sizes, and the range is divided where
that pays (`divide`). Each part is a kernel of its own, whose symbol has a narrower range: it has its own key in the cache, and is
verified and recorded like any other. The row of the whole range says where the parts begin (`plan.compiled_kernel` reads it)."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cache.size_tree import Branch, SizeTest, tree_of
from ...ir.errors import UsageError
from ...ir.rewriter import resized
from ...measure.inputs import require_operands
from ..api import Interrupted, tune
from ..budget import parse_seconds
from ..interrupts import Deadline, OutOfTime
from ..kernel_task import KernelTask
from ..progress import Silent
from .ranges import Bucket, ShapesResult, SizeLoss, SizeRange
from .timed import LEAST_S, Allowance, distinct, record_given, remembered, times_of

if TYPE_CHECKING:
    from ...cache import Cache
    from ...devices import Device
    from ...ir.buffer import Extent
    from ...ir.dtypes import DTypeLike
    from ...plan import Built
    from ..progress import Progress
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


# bucket search ----------------------------------------------------------------------------------------------
# What `tune_buckets` does at single sizes of a range: search, compare, find the edges, check and record.


class BucketSearch:
    """One call of `tune_buckets`."""

    def __init__(
        self,
        kernel: str,
        shape: Mapping[str, int],
        varying: SizeRange,
        dtype: DTypeLike | None,
        device: str | Device,
        threads: int | None,
        random_seed: int,
        allow: Iterable[str],
        show: Progress,
        allowance: Allowance,
    ) -> None:
        self.kernel, self.shape, self.range = kernel, dict(shape), varying
        self.dtype, self.device, self.threads = dtype, device, threads
        self.random_seed, self.allow, self.show, self.allowance = random_seed, tuple(allow), show, allowance
        self.counts: Counter[str] = Counter()
        self.times: dict[tuple[Schedule, int], float] = {}
        self.built: dict[Schedule, Built | None] = {}
        """Code of schedules of the whole range; None for those that do not build."""

    def task(self, varying: SizeRange | None, at: int) -> KernelTask:
        """The kernel with the size as a symbol of that range, to be timed at `at`; with None, of the one size `at`."""
        size: Extent = at if varying is None else varying.symbol
        sizes = {**self.shape, self.range.name: size}
        vars = {} if varying is None else {varying.name: at}
        return KernelTask(self.kernel, sizes, self.dtype, self.device, self.threads, vars, self.allow)

    def searched(self, at: int, seconds: float, folder: Path) -> list[Schedule]:
        """The best schedules of a search with the symbol, timed at one size. In a cache of its own: times at different
        sizes of one key cannot be compared."""
        from ... import cache as caches

        self.show.phase(f"{self.range.name}={at} as a symbol")
        sizes: dict[str, Extent] = {**self.shape, self.range.name: self.range.symbol}
        with caches.open(folder / f"{at}.db") as kept:
            result = tune(
                self.kernel,
                sizes,
                self.dtype,
                self.device,
                seconds,
                threads=self.threads,
                random_seed=self.random_seed,
                cache=kept,
                progress=self.show,
                vars={self.range.name: at},
                allow=self.allow,
            )
            self.counts.update(result.counts)
            return [*([result.opts] if result.found else []), *remembered(self.task(self.range, at), kept, 3)]

    def alone(self, at: int, seconds: float, cache: Cache) -> tuple[Schedule, float] | None:
        """The schedule and median seconds of a search for just this size; it is recorded as any search's."""
        self.show.phase(f"{self.range.name}={at} alone")
        result = tune(
            self.kernel,
            {**self.shape, self.range.name: at},
            self.dtype,
            self.device,
            seconds,
            threads=self.threads,
            random_seed=self.random_seed,
            cache=cache,
            progress=self.show,
            allow=self.allow,
        )
        self.counts.update(result.counts)
        return (result.opts, result.t_med or result.t_min or math.inf) if result.found else None

    def timed(self, at: int, schedules: Sequence[Schedule]) -> None:
        """Time schedules of the whole range at one size. All sizes run the same code, which is built once."""
        self.show.phase(f"comparing at {self.range.name}={at}")
        wanted = [s for s in schedules if (s, at) not in self.times]
        began = self.allowance.spent
        taken, measured = times_of(self.task(self.range, at), wanted, self.random_seed, self.show, self.built)
        self.allowance.took(at, self.allowance.spent - began, len(wanted))
        self.counts.update(m.outcome.value for m in measured)
        self.times.update({(s, at): t for s, t in taken.items()})

    def likely(self, at: int, schedules: Sequence[Schedule]) -> list[Schedule]:
        """Those of the schedules that are worth timing at one more size: the best of the nearest size that was timed, and as many as there
        is time for."""
        known = {v for _, v in self.times}
        if not known:
            return list(schedules)
        near = min(known, key=lambda v: abs(math.log(v / at)))
        ranked = sorted(schedules, key=lambda s: self.times.get((s, near), math.inf))
        call = self.times.get((ranked[0], near), 0.0) * max(1.0, at / near)
        return ranked[: self.allowance.timed(len(ranked), call)]

    def edge(self, left: tuple[int, Schedule], right: tuple[int, Schedule]) -> int:
        """The last size of the left bucket: between two timed sizes, by bisection with at most three more while there is time, and
        halfway where there is none."""
        (lo, a), (hi, b) = left, right
        for _ in range(3):
            middle = math.isqrt(lo * hi)
            if not lo < middle < hi or hi < 1.1 * lo:
                break
            if self.allowance.spare < self.allowance.check(hi):
                return middle
            self.timed(middle, [a, b])
            if self.times.get((a, middle), math.inf) <= self.times.get((b, middle), math.inf):
                lo = middle
            else:
                hi = middle
        return lo

    def bucketed(self, division: Division) -> list[tuple[int, int, Schedule]]:
        """The parts of a division, with the sizes between them dealt out."""
        out: list[tuple[int, int, Schedule]] = []
        lo = self.range.lo
        for (_, last, opts), (first, _, following) in zip(division.parts, division.parts[1:], strict=False):
            edge = self.edge((last, opts), (first, following))
            out.append((lo, edge, opts))
            lo = edge + 1
        return [*out, (lo, self.range.hi, division.parts[-1][2])]

    def checked(self, lo: int, hi: int, opts: Schedule, cache: Cache, facts: Mapping[str, Any] | None = None) -> Bucket:
        """Verify a bucket's schedule on its own kernel, at both ends and between, and record it, with more `facts`."""
        part = self.range.between(lo, hi)
        self.show.phase(f"checking {self.range.name}={lo}..{hi}")
        middle = math.isqrt(lo * hi)
        task = self.task(part, middle)
        state = task.space().legalise(opts)
        given = [state.opts] if state is not None else []
        times = {v: t for (s, v), t in self.times.items() if s == opts and lo <= v <= hi}
        result = record_given(task, cache, given, self.random_seed, self.show, facts)
        self.counts.update(result.counts)
        if not (result.found and result.confirmed):
            return Bucket(lo, hi, opts, times, False)
        # of the whole range both ends were verified when they were timed: the code is the same
        for end in sorted({lo, hi} - {middle} - ({v for s, v in self.times if s == result.opts} if part == self.range else set())):
            taken, measured = times_of(self.task(part, end), [result.opts], self.random_seed + 1, self.show)
            self.counts.update(m.outcome.value for m in measured)
            if result.opts not in taken:
                return Bucket(lo, hi, opts, times, False)
        return Bucket(lo, hi, result.opts, times, True)


# buckets ----------------------------------------------------------------------------------------------------
DEFAULT_S = 60.0
MOST = 6
"""Buckets at most, unless the caller says otherwise."""
_SYMBOLIC, _ALONE = 0.4, 0.25
"""Shares of the budget for searching with the size as a symbol, and alone."""
_ANCHORS = 5
"""Sizes that are searched at."""
_COMPARED = 0.25
"""Share of the budget for comparing what was found at all sizes."""
_POOL = 16
_OVER = 0.1
"""Share of the budget by which the checks of buckets may exceed it: a bucket less costs every call."""


def tune_buckets(
    kernel: str,
    shape: Mapping[str, int],
    varying: SizeRange,
    dtype: DTypeLike | None = None,
    device: str | Device = "cpu",
    *,
    most: int = MOST,
    budget: str | float | None = None,
    threads: int | None = None,
    random_seed: int = 0,
    cache: str | os.PathLike[str] | Cache | None = None,
    allow: Iterable[str] = (),
    again: bool = False,
    progress: Progress | None = None,
) -> ShapesResult:
    """Tune `kernel`, whose size `varying.name` is known only at the call, in at most `most` buckets of that size.

    `kernel`: a name or `my.py:function`; `shape`: its other sizes. `budget`: seconds or text such as "60s" (the default), and
    as many sizes, schedules and buckets are looked at as fit in it, and it is kept as `tune` keeps it: where it is over before the buckets
    were checked, the best schedule so far is recorded for the whole range. The buckets' schedules are in the cache under kernels of their own; `best(kernel,
    {…, "m": ir.sym("m", lo, hi)})` with the whole range finds them, and so does this function unless `again`. Raises UsageError, KernelError, DeviceError, CacheError, and
    Interrupted, as `tune` does; what was recorded until then is kept."""
    from ... import cache as caches

    if most < 1:
        raise UsageError(f"buckets must be at least 1, not {most}")
    if varying.name in shape:
        raise UsageError(f"{varying.name} is {shape[varying.name]} and varies as well ({varying}): leave it out of the shape")
    started = time.monotonic()
    show = progress if progress is not None else Silent()
    seconds = parse_seconds(budget) if budget is not None else DEFAULT_S
    allowance = Allowance(seconds, started)
    search = BucketSearch(kernel, shape, varying, dtype, device, threads, random_seed, allow, show, allowance)
    with contextlib.ExitStack() as stack:
        stack.enter_context(Deadline(seconds, started))
        whole = search.task(varying, varying.lo)
        store = cache if isinstance(cache, caches.Cache) else stack.enter_context(caches.open(cache))
        store.will_write = True
        if not again and (answer := _known(search, whole, store, started)) is not None:
            return answer
        require_operands(whole.kernel, {varying.name: varying.hi})
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-")))
        values = varying.values()
        anchors = _anchors(values, seconds)
        pool: list[Schedule] = []
        alone: dict[int, float] = {}
        try:
            _searched(search, anchors, store, folder, pool, alone)
            legal = whole.space()
            few = [s for s in (*pool, *legal.starts()[: 2 if pool else _POOL]) if legal.state(s) is not None]
            schedules = distinct(few, allowance.compared(min(len(values), 3), _COMPARED, _POOL))
            return _concluded(search, store, _timed(search, values, schedules, most), schedules, alone, most, whole, started)
        except OutOfTime as e:
            best = _best_so_far(search, e, pool)
            _rescued(search, store, best)
            return _result(search, whole, (), best[0] if best else (), None, (), started, str(e), 0 if best else 4)
        except KeyboardInterrupt as e:
            _rescued(search, store, _best_so_far(search, e, pool))
            raise


def _searched(
    search: BucketSearch, anchors: Sequence[int], cache: Cache, folder: Path, pool: list[Schedule], alone: dict[int, float]
) -> None:
    """Search at some sizes, as a symbol and alone: what is found is added to `pool`, and seconds of sizes alone to `alone`, as it comes."""
    for at in anchors:
        if (share := search.allowance.slice(_SYMBOLIC, _SYMBOLIC + 0.05, len(anchors))) is not None:
            pool += search.searched(at, share, folder)
    for at in anchors:
        share = search.allowance.slice(_ALONE, _SYMBOLIC + _ALONE + 0.05, len(anchors))
        found = None if share is None else search.alone(at, share, cache)
        if found is not None:
            pool.append(found[0])
            alone[at] = found[1]


def _best_so_far(search: BucketSearch, e: KeyboardInterrupt, pool: Sequence[Schedule]) -> list[Schedule]:
    """The schedule of the whole range that is best at the sizes that were timed, else the last one that a search found; none of none."""
    division = divide(search.times, sorted({v for _, v in search.times}), list(dict.fromkeys(s for s, _ in search.times)), 1)
    if division is not None:
        return [division.parts[0][2]]
    interrupted = [e.result.opts] if isinstance(e, Interrupted) and e.result.found else []
    space = search.task(search.range, search.range.lo).space()
    return [s for s in (*interrupted, *reversed(pool)) if space.state(s) is not None][:1]


def _rescued(search: BucketSearch, cache: Cache, best: Sequence[Schedule]) -> None:
    """After an interrupt: record the best that is known for the whole range as one bucket, unless it has been recorded."""
    whole = search.task(search.range, math.isqrt(search.range.lo * search.range.hi))
    if best and not remembered(whole, cache, 1):
        search.show.phase("saving the best so far")
        record_given(whole, cache, best, search.random_seed, search.show)


def _timed(search: BucketSearch, values: Sequence[int], schedules: Sequence[Schedule], most: int) -> list[int]:
    """Time schedules in the middle, at both ends, and at the sizes between while there is time for them and for the second checks of the
    buckets that there would be; the sizes where they were, in order."""
    last = len(values) - 1
    order = [*dict.fromkeys([values[0], values[last // 2], values[last], *values[last // 4 :: 2], *values])]
    done: list[int] = []
    for v in order:
        if len(done) >= 3:
            division = divide(search.times, sorted(done), schedules, most)
            search.allowance.held = _checks_s(search, division.parts if division is not None else ((v, v, ()),))
            if search.allowance.spare < search.allowance.check(v):
                break
        search.timed(v, search.likely(v, schedules))
        done.append(v)
    return sorted(done)


def _checks_s(search: BucketSearch, parts: Sequence[tuple[int, int, Schedule]]) -> float:
    """Seconds that the checks of the parts of a range take: of each at its middle and its ends, and of the whole range beside them."""
    check = search.allowance.check
    if len(parts) == 1:  # the bucket is the range, and its ends were verified when they were timed
        return 2 * check(parts[0][1])
    return sum(check(first) + check(last) for first, last, _ in parts) + check(parts[len(parts) // 2][0])


def _affordable(search: BucketSearch, values: Sequence[int], schedules: Sequence[Schedule], most: int) -> tuple[Division | None, str]:
    """The best division whose checks there is time for (or one part, whatever that takes), and what is to be said of a better one."""
    room = search.allowance.left + _OVER * search.allowance.seconds
    best = divide(search.times, values, schedules, most)
    for parts in range(most, 0, -1):
        division = divide(search.times, values, schedules, parts)
        if division is None or parts == 1 or _checks_s(search, division.parts) <= room:
            break
    if division is None or best is None or len(best.parts) == len(division.parts):
        return division, ""
    gain = 1 - (1 + best.loss) / (1 + division.loss)
    return division, f"{len(best.parts)} buckets would take {gain:.0%} less time, and there was none left to check them: give it more"


def _known(search: BucketSearch, whole: KernelTask, cache: Cache, started: float) -> ShapesResult | None:
    """The cache's own division, where each of its parts is verified here."""
    from ...cache.ranking import Standing
    from ...plan import resolve
    from ...plan.resolve import measured
    from ...plan.size_trees import parts_of, symbolic_tree

    found = symbolic_tree(whole.kernel, whole.key, cache)
    buckets: list[Bucket] = []
    for _, box, opts in parts_of(whole.kernel, *found) if found is not None else ():
        part = resized(whole.kernel, box)
        plan = measured(part, opts, whole.device, whole.threads, cache, whole.key.policy, None)
        if plan is None or plan.row is None or cache.standing(plan.row) is not Standing.verified:
            return None
        buckets.append(Bucket(*box[search.range.name], plan.opts, {}, True))
    general = resolve(whole.kernel, whole.device, whole.threads, cache, own_only=True, policy=whole.key.policy)
    if not buckets or general.origin != "exact":
        return None
    return _result(search, whole, tuple(buckets), general.opts, None, (), started, "found in the cache; --retune searches again", 0)


def _anchors(values: Sequence[int], seconds: float) -> list[int]:
    """The sizes that are searched at: the middle, both ends too, or more, as there is time; none where there is too little for any."""
    count = min(_ANCHORS, int((_SYMBOLIC + _ALONE) * seconds / (2 * LEAST_S)), len(values))
    if count < 2:
        return [values[len(values) // 2]] * count
    return [values[round(i * (len(values) - 1) / max(1, count - 1))] for i in range(count)]


def _concluded(
    search: BucketSearch,
    cache: Cache,
    values: Sequence[int],
    schedules: Sequence[Schedule],
    alone: Mapping[int, float],
    most: int,
    whole: KernelTask,
    started: float,
) -> ShapesResult:
    """Divide, check, record, and say what it costs."""
    single = divide(search.times, values, schedules, 1)
    division, more = _affordable(search, values, schedules, most)
    if division is None or single is None:
        return _result(search, whole, (), (), 0.0, (), started, "no schedule works at every size that was tried", 4)
    search.allowance.held = _checks_s(search, division.parts)
    parts, chosen = search.bucketed(division), single.parts[0][2]
    if len(parts) == 1:  # the bucket is the range
        kept = [search.checked(*parts[0], cache, _facts(search, whole, [(*parts[0], True)]))]
        usable = [b for b in kept if b.confirmed]
        found = bool(usable)
    else:
        kept = [search.checked(lo, hi, opts, cache) for lo, hi, opts in parts]
        usable = [b for b in kept if b.confirmed]
        middle = math.isqrt(search.range.lo * search.range.hi)
        search.show.phase("the whole range")
        bounds = _facts(search, whole, [(b.lo, b.hi, b.opts, b.confirmed) for b in kept])
        general = record_given(search.task(search.range, middle), cache, [chosen], search.random_seed, search.show, bounds)
        search.counts.update(general.counts)
        found = general.found
    losses = tuple(
        SizeLoss(f"{search.range.name}={v}", next(b.times[v] for b in kept if v in b.times), alone.get(v))
        for v in values
        if any(v in b.times for b in kept)
    )
    failed = len(kept) - len(usable)
    message = f"{failed} of {len(kept)} buckets did not pass their checks and are left to the whole range's schedule" if failed else ""
    message = "; ".join(filter(None, (message, more, search.allowance.said())))
    return _result(search, whole, tuple(kept), chosen, single.loss, losses, started, message, 0 if found else 4)


def _facts(search: BucketSearch, whole: KernelTask, parts: Sequence[tuple[int, int, Schedule, bool]]) -> dict[str, Any]:
    """What the row of the whole range keeps of its parts (first and last size, schedule, whether it was verified)."""
    from ...plan.size_trees import facts_of

    branch: Branch = len(parts) - 1
    for i in range(len(parts) - 2, -1, -1):
        branch = SizeTest((search.range.name,), parts[i][1], i, branch)
    tree = tree_of({search.range.name: (search.range.lo, search.range.hi)}, branch, [p[2] for p in parts])
    return facts_of(whole.kernel, {}, symbolic=tree)


def _result(
    search: BucketSearch,
    whole: KernelTask,
    buckets: tuple[Bucket, ...],
    opts: Schedule,
    whole_loss: float | None,
    losses: tuple[SizeLoss, ...],
    started: float,
    message: str,
    code: int,
) -> ShapesResult:
    known = [math.log1p(x.loss) for x in losses if x.loss is not None]
    return ShapesResult(
        kernel=search.kernel,
        shape=search.shape,
        dtype=whole.dtype,
        device=whole.device.name,
        threads=whole.threads,
        range=search.range,
        buckets=buckets,
        whole=opts,
        whole_loss=whole_loss,
        losses=losses,
        loss=math.expm1(sum(known) / len(known)) if known else None,
        counts=dict(search.counts),
        seconds=time.monotonic() - started,
        message=message,
        exit_code=code,
    )
