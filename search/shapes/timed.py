"""Times of several schedules at several sizes or shapes, and the time that may be spent on them.

Every pair is built, verified and timed as candidates of a search are (`times_of`). Schedules that were chosen elsewhere are measured, decided
and recorded as the search of one task would do it (`record_given`). No answer is given unchecked, so where even the reserve of an
`Allowance` is spent the checks are made all the same; how long they took past the budget is reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...measure import Measurement
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


FEW = 1
"""Builders that are started for two schedules or fewer."""


def times_of(
    task: KernelTask, schedules: Sequence[Schedule], seed: int, show: Progress, built: dict[Schedule, Built | None] | None = None
) -> tuple[dict[Schedule, float], list[Measurement]]:
    """(median seconds a call, by schedule; all measurements) on a task's inputs. What is illegal, wrong or crashes has no time; slow code,
    three times behind the best, has that of a few calls. `built`: code that there is (None: there is none); more is added."""
    known = {} if built is None else built
    taken: dict[Schedule, float] = {}
    measured: list[Measurement] = []
    wanted = list(dict.fromkeys(schedules))
    fresh = [s for s in wanted if s not in known]
    if not wanted or (not fresh and all(known[s] is None for s in wanted)):
        return taken, measured
    with task.measurer(TuneRequest(Budget(None), random_seed=seed), builders=FEW if len(fresh) <= 2 * FEW else None) as measurer:
        known |= dict.fromkeys(fresh)
        for _, got in measurer.build(fresh) if fresh else ():
            if isinstance(got, Measurement):
                measured.append(got)
            else:
                known[tuple(got.opts)] = got
        measured += measurer.measure([b for s in wanted if (b := known[s]) is not None])
    for result in measured:
        show.candidate(result)
        if result.t_med is not None and result.error is not None and result.error <= 1 and not result.cleared:
            taken[tuple(result.opts)] = result.t_med
    return taken, measured


def distinct(schedules: Sequence[Schedule], most: int) -> list[Schedule]:
    """The first `most` schedules, each once."""
    return list(dict.fromkeys(schedules))[:most]


LEAST_S = 2.0
"""Seconds that a search is worth starting for."""
START_S = 0.6
"""What measuring at one size takes before the first was measured: processes, inputs, reference, builds."""
CHECK_S = 0.4
"""What a second check takes beside its inputs and references: many runs of the winner."""
FEW_LEFT = 3
"""Schedules that are compared in the shortest of searches."""
EACH_S = 0.06
"""About how long a schedule takes to be built, verified and timed."""
CALLS = 10
"""Calls of a schedule that is timed where they take long."""
SHARE = 0.3
"""Of what is spare, for one more size."""
SAID_S = 0.5
"""Seconds over the budget that need no words."""


class Allowance:
    """A budget being spent on several sizes."""

    def __init__(self, seconds: float, started: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`started`: the moment on `clock` from which the budget counts."""
        self.seconds, self.started, self._clock = seconds, started, clock
        self._took: dict[object, float] = {}
        self.held = 0.0
        """Seconds of what is left that the checks at the end are expected to take."""

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self._clock() - self.started

    @property
    def left(self) -> float:
        """Seconds until the budget's end; negative when over."""
        return self.seconds - self.spent

    @property
    def spare(self) -> float:
        """The same without what is held for the checks."""
        return self.left - self.held

    def took(self, size: object, seconds: float, schedules: int = 2) -> None:
        """Comparing so many schedules at a size took so long: the least of what is told counts, for inputs and references are the same each
        time. A check is of two; what is the schedules' of the seconds is not known, and half is taken to be."""
        part = max(0.5, min(1.0, 2 / max(1, schedules)))
        alone = min(seconds, START_S + part * max(0.0, seconds - START_S))
        self._took[size] = min(alone, self._took.get(size, alone))

    def check(self, size: object) -> float:
        """Seconds that a second check at a size is expected to take."""
        return CHECK_S + self._took.get(size, START_S)

    def slice(self, share: float, before: float, pieces: int) -> float | None:
        """Seconds for the next of `pieces` searches that have `share` of the budget together, and must end when `before` of it is spent;
        None where that is too little to begin one."""
        rest = min(share * self.seconds / max(1, pieces), (before * self.seconds - self.spent))
        return rest if rest >= LEAST_S else None

    def compared(self, sizes: int, share: float, most: int) -> int:
        """How many schedules to compare at so many sizes in a share of the budget."""
        room = min(share * self.seconds, self.left) - sizes * START_S
        return max(FEW_LEFT, min(most, int(room / (EACH_S * sizes))))

    def timed(self, schedules: int, call_s: float) -> int:
        """How many schedules to time at one more size, where a call takes about so long: no more than take a share of what is spare."""
        return max(FEW_LEFT, min(schedules, int(SHARE * self.spare / (EACH_S + CALLS * call_s))))

    def said(self) -> str:
        """What is to be said of the time that was taken beyond the budget, or ''."""
        over = -self.left
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
        cache.ensure_writable()
        recorder = task.recorder(cache, space, job, facts)
        return TuningRun(space, measurer, None, starts, job, Meter(request.budget, request.started), show, recorder).run()
