"""Times of several schedules at several sizes or shapes, and the time that may be spent on them.

Every pair is built, verified and timed as candidates of a search are (`times_of`). Schedules that were chosen elsewhere are measured, decided
and recorded as the search of one task would do it (`record_given`). An `Allowance` says whether another step still fits. No answer is given
unchecked, so the last check is made all the same; how long it took past the budget is reported."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...ir.errors import BuildError, OptError
from ...measure import Measurement, Outcome
from ...plan.artefacts import compile
from ..budget import Budget, Meter
from ..run_state import Start
from ..task import TuneRequest
from ..tuning_run import TuningRun
from ..warm_start import stored

if TYPE_CHECKING:
    from ...cache import Cache
    from ...plan import Built
    from ..kernel_task import KernelTask
    from ..progress import Progress
    from ..result import Result
    from ..space import Schedule


def times_of(
    task: KernelTask, schedules: Sequence[Schedule], seed: int, show: Progress, built: dict[Schedule, Built | None] | None = None
) -> tuple[dict[Schedule, float], list[Measurement]]:
    """(seconds a call, by schedule, the least: others' load only ever adds time; all measurements) on a task's inputs. What is illegal, wrong or crashes has no time; slow code,
    three times behind the best, has that of a few calls. `built`: code that there is (None: there is none); more is added."""
    known = {} if built is None else built
    taken: dict[Schedule, float] = {}
    measured: list[Measurement] = []
    wanted = list(dict.fromkeys(schedules))
    for s in wanted:
        if s not in known:  # in this process, as `best()` builds: builders that are started for a few schedules take longer
            try:
                known[s] = compile(task.kernel, s, task.device)
            except (OptError, BuildError) as e:
                known[s] = None
                measured.append(Measurement(s, Outcome.illegal if isinstance(e, OptError) else Outcome.build, detail=str(e)))
    if all(known[s] is None for s in wanted):
        return taken, measured
    with task.measurer(TuneRequest(Budget(None), random_seed=seed), builders=1) as measurer:
        measured += measurer.measure([b for s in wanted if (b := known[s]) is not None])
    for result in measured:
        show.candidate(result)
        if result.t_min is not None and result.error is not None and result.error <= 1 and not result.cleared:
            taken[tuple(result.opts)] = result.t_min
    return taken, measured


LEAST_S = 2.0
"""Seconds that a search is worth starting for."""
SAID_S = 0.5
"""Seconds over the budget that need no words."""


class Allowance:
    """A budget being spent on many steps of a few kinds."""

    def __init__(self, seconds: float, started: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`started`: the moment on `clock` from which the budget counts."""
        self.seconds, self.started, self._clock = seconds, started, clock
        self._took: dict[str, list[float]] = {}

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self._clock() - self.started

    @contextmanager
    def step(self, kind: str) -> Iterator[None]:
        """Inside, one step of a kind is made. The next is expected to take half as long again as such steps mostly took: one that stood still,
        because the machine was busy elsewhere, says nothing of the others."""
        began = self._clock()
        try:
            yield
        finally:
            insort(self._took.setdefault(kind, []), self._clock() - began)

    def _next(self, kind: str) -> float:
        took = self._took.get(kind, [0.0])
        return min(took[-1], 1.5 * took[len(took) // 2])

    def fits(self, share: float, *kinds: str) -> bool:
        """Whether one more step of each of `kinds` is expected to end before `share` of the budget is spent; one that was never made is
        taken to be short."""
        return self.spent + sum(map(self._next, kinds)) < share * self.seconds

    def slice(self, share: float, before: float, pieces: int) -> float | None:
        """Seconds for the next of `pieces` searches that have `share` of the budget together, and must end when `before` of it is spent;
        None where that is too little to begin one."""
        rest = min(share * self.seconds / max(1, pieces), (before * self.seconds - self.spent))
        return rest if rest >= LEAST_S else None

    def said(self) -> str:
        """What is to be said of the time that was taken beyond the budget, or ''."""
        over = self.spent - self.seconds
        return f"the checks at the end took {over:.1f} s more than the budget" if over > SAID_S else ""


NAME = "shapes"
"""What the rows say of the strategy that found them."""


def remembered(task: KernelTask, cache: Cache, top: int) -> list[Schedule]:
    """The best schedules that a cache has of a task, at most `top`."""
    return stored(cache, task.key, task.canonical, task.space(), top)


def record_given(
    task: KernelTask, cache: Cache, schedules: Sequence[Schedule], seed: int, show: Progress, facts: Mapping[str, Any] | None = None
) -> Result:
    """Measure `schedules` beside the first start schedule, decide by duels, check the winner twice, and record it. `facts`: more provenance
    of the rows. The first of `schedules` wins where nothing is faster by more than the noise."""
    request = TuneRequest(Budget(None, max(1, len(schedules))), random_seed=seed, progress=show)
    job, space = task.job(NAME, request), task.space()
    starts = [Start(s) for s in dict.fromkeys(schedules) if space.state(s) is not None]
    with task.measurer(request, builders=1) as measurer:
        recorder = task.recorder(cache, space, job, facts)
        return TuningRun(space, measurer, None, starts, job, Meter(request.budget, request.started), show, recorder).run()
