"""Times of several schedules at several sizes or shapes: every pair built, verified and timed as candidates of a search are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...measure import Measurement
from ..budget import Budget
from ..prepared import measurer_of

if TYPE_CHECKING:
    from ...plan import Built
    from ..progress import Progress
    from ..space import Schedule
    from ..task import TuningTask


FEW = 1
"""Builders that are started for two schedules or fewer."""


def times_of(
    task: TuningTask, schedules: Sequence[Schedule], seed: int, show: Progress, built: dict[Schedule, Built | None] | None = None
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
    with measurer_of(task, Budget(None), seed, False, FEW if len(fresh) <= 2 * FEW else None) as measurer:
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
