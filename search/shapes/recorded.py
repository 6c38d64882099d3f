"""Schedules that were chosen elsewhere, measured, decided and recorded as the search of one task would do it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..budget import Budget, Meter
from ..prepared import measurer_of, recorder_of
from ..remembered.warm import stored
from ..run import TuningRun
from ..space import OptEngine, Space
from ..start import Start

if TYPE_CHECKING:
    from ...cache import Cache
    from ..progress import Progress
    from ..result import Result
    from ..space import Schedule
    from ..task import TuningTask

NAME = "shapes"
"""What the rows say of the strategy that found them."""


def space_of(task: TuningTask) -> Space:
    """The schedules of a task."""
    return Space(OptEngine(task.kernel, task.device.target, task.threads, task.device.limits(), task.effects), task.effects)


def remembered(task: TuningTask, cache: Cache, top: int) -> list[Schedule]:
    """The best schedules that a cache has of a task, at most `top`."""
    return stored(cache, task.key, task.canonical, space_of(task), top)


def record_given(
    task: TuningTask, cache: Cache, schedules: Sequence[Schedule], seed: int, show: Progress, facts: Mapping[str, Any] | None = None
) -> Result:
    """Measure `schedules` beside the first seed, decide by duels, check the winner twice, and record it. `facts`: more provenance
    of the rows. The first of `schedules` wins where nothing is faster by more than the noise."""
    started = time.monotonic()
    budget = Budget(None, max(1, len(schedules)))
    job = task.job(NAME, "auto", seed, budget)
    space = space_of(task)
    starts = [Start(s) for s in dict.fromkeys(schedules) if space.state(s) is not None]
    with measurer_of(task, budget, seed, False, 1) as measurer:
        cache.ensure_writable()
        recorder = recorder_of(task, cache, space, job, facts)
        return TuningRun(space, measurer, None, starts, job, Meter(budget, started), show, recorder).run()
