"""Times of several schedules at several sizes or shapes: every pair built, verified and timed as candidates of a search are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...measure import Measurement
from ..budget import Budget
from ..prepared import measurer_of

if TYPE_CHECKING:
    from ...plan import Built
    from ..progress import Progress
    from ..space import Schedule
    from ..task import TuningTask


def built_of(task: TuningTask, schedules: Iterable[Schedule], seed: int, show: Progress) -> tuple[dict[Schedule, Built], list[Measurement]]:
    """(code by schedule, what became of those that have none)."""
    made: dict[Schedule, Built] = {}
    failed: list[Measurement] = []
    with measurer_of(task, Budget(None), seed, False) as measurer:
        for _, got in measurer.build(list(dict.fromkeys(schedules))):
            if isinstance(got, Measurement):
                failed.append(got)
                show.candidate(got)
            else:
                made[tuple(got.opts)] = got
    return made, failed


def times_of(task: TuningTask, built: Sequence[Built], seed: int, show: Progress) -> tuple[dict[Schedule, float], list[Measurement]]:
    """(median seconds a call, by schedule; all measurements) of code on a task's inputs. What is wrong or crashes has no time; slow code,
    three times behind the best, has that of a few calls."""
    taken: dict[Schedule, float] = {}
    if not built:
        return taken, []
    with measurer_of(task, Budget(None), seed, False) as measurer:
        measured = measurer.measure(list(built))
    for result in measured:
        show.candidate(result)
        if result.t_med is not None and result.error is not None and result.error <= 1 and not result.cleared:
            taken[tuple(result.opts)] = result.t_med
    return taken, measured


def distinct(schedules: Sequence[Schedule], most: int) -> list[Schedule]:
    """The first `most` schedules, each once."""
    return list(dict.fromkeys(schedules))[:most]
