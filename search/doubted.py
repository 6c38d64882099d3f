"""A result that is faster than the machine can be: its limits were measured while it was busy, and are measured again, once a search."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..ir.errors import DeviceError
from ..log import logger
from .probing import SHARE, measured

if TYPE_CHECKING:
    from ..measure import Measurement
    from .budget import Budget
    from .remembered.record import CacheRecorder
    from .result import Job
    from .run_state import RunState
    from .task import TuningTask

log = logger("search")

AGAIN_S = 1.5
"""Seconds, at most, for measuring them again: a machine that is idle now shows in a moment what it can do."""

_LONGEST = 5.0
"""So many times longer it may take before it is ended."""


class DoubtedLimits:
    """Those of one search, whose rows say what the machine's limits are."""

    def __init__(self, task: TuningTask, recorder: CacheRecorder, measurer: Any, budget: Budget) -> None:
        self._task, self._recorder, self._measurer = task, recorder, measurer
        self._seconds = AGAIN_S if budget.seconds is None else min(AGAIN_S, 0.5 * SHARE * budget.seconds)
        self._done = False

    def looked_at(self, best: Measurement, job: Job, so_far: RunState) -> Job:
        """The job of a search whose best is now `best`, with what bounds the kernel."""
        roof = self._task.roofline()
        if self._done or best.t_min is None or roof is None or not roof.passed(best.t_min):
            return job
        self._done = True
        said = f"{roof.percent(best.t_min):.0f} % of the roofline cannot be, so the machine's limits were measured again"
        log.info("%s", said)
        try:
            builders = getattr(self._measurer, "builders", None)
            with builders.exclusive() if builders is not None else nullcontext():
                measured(self._task.device, self._seconds, _LONGEST * self._seconds)
        except DeviceError as e:  # a search works without them
            so_far.notes.setdefault(str(e))
            return job
        so_far.notes.setdefault(said)
        roof = self._task.roofline()
        assert roof is not None
        fresh = dataclasses.replace(job, roofline_s=roof.seconds)
        self._recorder.job = fresh
        self._recorder.provenance = {**self._recorder.provenance, "roofline": roof.facts}
        return fresh
