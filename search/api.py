"""`tilewright.tune`: find the fastest schedule of a kernel on a device, within a budget, and remember it."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, get_args

from .. import cache as caches
from ..cache.keys import Numerics, with_numerics
from ..cache.objective_types import TIME
from ..cache.rows import POLICY
from ..ir import argument_checks
from ..ir.errors import UsageError
from ..log import logger
from ..measure.measurement_policy import MeasurementPolicy
from ..measure.processes import process
from . import objective as objectives
from . import strategy as strategies
from .budget import Budget, Meter
from .interrupts import Deadline, SignalWatch, late_s, release
from .kernel_task import KernelTask
from .machine_limits import RemeasuredLimits, know_limits
from .progress import Progress, shown
from .result import INTERRUPTED, Job, Result
from .task import MODES, Measuring, Mode, OnInterrupt, Task, TuneRequest
from .tuning_run import TuningRun
from .warm_start import earlier_measurements

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device
    from ..ir.buffer import Extent
    from ..ir.dtypes import DTypeLike
    from ..ir.kernel import Kernel
    from .candidate_measurer import CandidateMeasurer
    from .space import Space
    from .strategies.optuna_study import StudyKeeper


# garbage ----------------------------------------------------------------------------------------------------
# Python looks through all young objects for cycles after every 700 new ones, and now and then through all objects. A
# search makes many that stay (states, schedules) and hardly a cycle: a tenth of its own time went into that.


OBJECTS = 50_000
"""New objects after which the youngest are looked through."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Inside, cycles are looked for less often, unless whoever runs this process said that they never are, or even less often."""
    before = gc.get_threshold()
    if 0 < before[0] < OBJECTS:
        gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


# api --------------------------------------------------------------------------------------------------------
log = logger("search")


def tune(
    kernel: str | Kernel,
    shape: Mapping[str, Extent] | None = None,
    dtype: DTypeLike | None = None,
    device: str | Device = "cpu",
    budget: str | float | Budget | None = None,
    trials: int | None = None,
    threads: int | None = None,
    strategy: str | None = None,
    start: str = "auto",
    random_seed: int = 0,
    cache: str | os.PathLike[str] | Cache | None = None,
    mode: Mode = "use",
    retune: bool = False,
    progress: Progress | None = None,
    *,
    stop_at: float | None = None,
    patience: int | None = None,
    vars: Mapping[str, int] | None = None,
    study: str | None = None,
    interrupt: OnInterrupt = "raise",
    allow: Iterable[str] = (),
    numerics: Numerics = "free",
    objective: str | Sequence[str] = TIME,
    measuring: Measuring | None = None,
    policy: str | None = None,
    since: float | None = None,
) -> Result:
    """Search for the fastest schedule of `kernel` and record every measurement in `cache`.

    `kernel`: a name (`tune kernels`), `my.py:function`, or a Kernel. `shape` and `dtype` complete a name; a size may be a symbol.
    `budget`: seconds or text such as "30s" (the default unless `trials`, the number of measurements, is given), everything included,
    counted from `since` (on `time.monotonic`; default: now) and kept to within a tenth or 2 s: what hangs is ended. `stop_at`: fraction
    of the roofline that is good enough; `patience`: batches without a gain. `start`: "auto" begins with the start schedules, "none" from
    the empty one, and a schedule (in short form or JSON) is tried beside the start schedules. `vars`: value at which a symbolic extent is tuned
    (default: the middle of its range). `cache`: path or URL (default: TILEWRIGHT_CACHE, else the user's). `study`: an Optuna storage
    (sqlite:///study.db, a journal file's path, …) where an `optuna:` strategy keeps and resumes its trials.

    `allow`: effects that are refused otherwise, such as "downconvert" (`cache.keys.EFFECTS`): schedules may then compute in lower
    precision, are held to the wider error bound that follows, and have cache entries of their own. `numerics`: "fixed" searches among the
    schedules that give the same bits as all others (docs/numerics.md), for cache entries of their own. `measuring`: what makes the
    measurer, where that is not one of `device` here (`fleet.batches.fleet_measurer`). `objective`: what is made small, of
    `cache.objective_types.OBJECTIVES`, or two such as "time,scratch", whose front is the answer; each has cache entries of its own.
    `policy`: where operands lie while they are timed, and whether other cores work: "memory", "cache", or "program" (both in turns, the default),
    each also with ",busy"; an answer that was measured otherwise is searched for again.

    `mode`: "use" and "tune" answer from the cache when it has this key and the search behind the answer was as thorough as `budget` and
    `trials` ask, else they search, going on from all that was measured; an answer that was measured elsewhere, or never checked twice,
    is checked and timed here first. "require" answers from the cache or raises CacheMiss; "record" measures only the start schedules;
    "refresh", like `retune=True`, searches again, from the best schedules stored. Raises UsageError, KernelError, DeviceError, CacheError,
    MeasureError; `Result.exit_code` is 4 when nothing valid was found and 6 when there was no time to measure anything. After Ctrl-C the
    best so far is kept and Interrupted, a KeyboardInterrupt with the `result`, is raised; with `interrupt="return"` it is returned."""
    if policy is not None and measuring is not None:
        raise UsageError("a policy is for this machine's own processor, not for a fleet: leave it out")
    argument_checks.check_all("tune", locals(), mode=MODES, interrupt=get_args(OnInterrupt), numerics=get_args(Numerics))
    request = TuneRequest.make(
        budget,
        trials,
        stop_at,
        patience,
        strategy=strategy,
        mode=mode,
        retune=retune,
        start=start,
        study=study,
        random_seed=random_seed,
        started=time.monotonic() if since is None else since,
        progress=shown(progress),
        measuring=measuring,
        policy=None if policy is None else MeasurementPolicy.of(policy),
    )
    objectives.check(objective, request.strategy or strategies.DEFAULT, study, request.budget)
    return carried_out(
        request,
        lambda: KernelTask(kernel, shape, dtype, device, threads, vars, with_numerics(allow, numerics), objective),
        cache,
        interrupt,
    )


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a search; `result` is the best so far, which is in the cache."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.summary())
        self.result = result


def carried_out(
    request: TuneRequest,
    task: Callable[[], Task],
    cache: str | os.PathLike[str] | Cache | None,
    interrupt: OnInterrupt,
    doing: str = "the search was being prepared",
) -> Result:
    """The answer to a request about what `task` makes, within its time and under Ctrl-C, from a cache that is opened for it unless it is open.
    `doing`: what is under way while the task is made."""
    request.progress.phase("preparing")
    limits = Deadline(request.budget.seconds, request.started, doing)
    with limits, SignalWatch((signal.SIGINT,)) as watch, opened(cache) as store, seldom_collected():
        made = task()
        release()
        result = tuned(made, store, request)
    if interrupt == "raise" and (result.exit_code == INTERRUPTED or watch.number):
        raise Interrupted(result)
    return result


def cached(
    kernel: str | Kernel,
    shape: Mapping[str, int] | None,
    dtype: DTypeLike | str | None,
    device: str | Device,
    threads: int | None,
    cache: Cache,
    wanted: Budget | None,
    objective: str = TIME,
    allow: Iterable[str] = (),
) -> Result | None:
    """The cache's answer where it will do without a search: verified here, and by a search as thorough as `wanted`
    (see `Effort.covers`). Raises what `tune` does."""
    request = TuneRequest(Budget())
    task = KernelTask(kernel, shape, dtype, device, threads, allow=allow, objective=objective)
    cache.begin_writing()
    found = task.look(cache)
    if found is None or not found.checked or not found.covers(wanted):
        return None
    return found.result(task.job("", request), request.seconds)


def tuned(task: Task, cache: Cache, request: TuneRequest) -> Result:
    """The cache's answer to a task, or that of a search, as the request wants it. Raises CacheMiss, and what the task and its measurer do."""
    show, required = request.progress, request.mode == "require"
    strategy = task.strategy(request)
    if not required:
        cache.begin_writing()
    found = task.look(cache, required)
    otherwise = found is not None and request.policy is not None and found.row.facts.get(POLICY, "program") != str(request.policy)
    only_checked = found is not None and not request.again and not otherwise and (request.mode == "record" or found.covers(request.wanted))
    if found is not None and (required or (only_checked and found.checked)):
        log.info("%s: cached, and will do", task.name)
        result = found.result(task.job(strategy, request), request.seconds)
        show.done(result)
        return result
    log.info("%s: %s", task.name, "not in the cache" if found is None else "cached, and checked here" if only_checked else "searched again")
    aim = objectives.measurable(task.key.objective, task.device, request.measuring is not None)
    task.check(request)
    if request.measuring is None:
        know_limits(task.device, request.budget.seconds, lambda: show.phase("measuring this machine's limits, once"))
        begun = process.begin()  # what forks the measurer's helpers has imports of its own to do
    job = task.job(strategy, request)
    space = task.space()
    if request.measuring is None and begun and request.start != "none":
        space.starts()  # meanwhile
    cache.ensure_writable()
    searcher = None if request.mode == "record" or only_checked else task.searcher(strategy)
    keeper = _study(task, job, space, request) if request.study and searcher is not None else None
    # then the measurer, so that its processes start while the rest is prepared
    with (request.measuring or _measurer_of)(task, request, keeper is not None) as measurer:
        recorder = task.recorder(cache, space, job)
        recorder.last_s = min(recorder.last_s, late_s(request.budget.seconds))
        starts = task.starts(cache, space, job)
        chosen = None
        if searcher is not None:
            more = {"start": [s.opts for s in starts] if request.start != "none" else [], **searcher}
            more |= {} if keeper is None else {"study": keeper}
            more |= {"values": aim.logs} if aim.front and strategy.startswith("optuna:") else {}
            chosen = strategies.create(strategy, space, seed=request.random_seed, **more)
        try:
            known_here = earlier_measurements(cache, task.key, task.canonical)
            remeasured = RemeasuredLimits(task, recorder, measurer, request.budget) if request.measuring is None else None
            earlier = None if found is None else found.effort
            meter = Meter(request.budget, request.started)
            more = {"known": known_here, "earlier": earlier, "remeasured": remeasured}
            return task.worded(TuningRun(space, measurer, chosen, starts, job, meter, show, recorder, **more).run())
        finally:
            if chosen is not None:
                chosen.close()


def _measurer_of(task: Task, request: TuneRequest, hashed: bool) -> AbstractContextManager[CandidateMeasurer]:
    if request.policy is None:
        return task.measurer(request, hashed)
    return _under(request.policy, task, request, hashed)


@contextmanager
def _under(policy: MeasurementPolicy, task: Task, request: TuneRequest, hashed: bool) -> Iterator[CandidateMeasurer]:
    """The task's own measurer, beside cores that work where the policy says so."""
    with policy.others(task.threads), task.measurer(request, hashed) as measurer:
        yield measurer


def _study(task: Task, job: Job, space: Space, request: TuneRequest) -> StudyKeeper:
    """The study of this task, open."""
    from .strategies.optuna_study import StudyKeeper

    assert request.study is not None
    name, about = task.study_of(job)
    keeper = StudyKeeper(request.study, name, space.templates(), about)
    keeper.last_s = min(keeper.last_s, late_s(request.budget.seconds))
    return keeper


def opened(cache: str | os.PathLike[str] | Cache | None) -> AbstractContextManager[Cache]:
    """A cache, opened; one that was given open stays open."""
    from contextlib import nullcontext

    return nullcontext(cache) if isinstance(cache, caches.Cache) else caches.open(cache)
