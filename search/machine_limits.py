"""A machine's limits, measured in a process of its own: one that hangs is ended, and the search goes on without.

`python -m tilewright.search.machine_limits READ_FD WRITE_FD PARENT_PID` is that process. It keeps what it finds, as `Device.limits` does.
Limits that were measured while the machine was busy show when a result is faster than they allow; then they are measured again, once a
search (`RemeasuredLimits`)."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import devices
from ..devices import base
from ..ir.errors import DeviceError, MeasureError, TilewrightError
from ..log import logger
from ..measure.processes import process
from ..measure.processes.protocol import Channel, Closed
from .budget import DEFAULT_SECONDS

if TYPE_CHECKING:
    from ..devices import Device, Limits
    from ..measure import Measurement
    from .budget import Budget
    from .cache_recorder import CacheRecorder
    from .candidate_measurer import CandidateMeasurer
    from .result import Job
    from .run_state import RunState
    from .task import Task


MODULE = "tilewright.search.machine_limits"
USUAL_S = 5.0
"""Seconds that measuring all limits thoroughly takes, about."""
SHARE = 0.15
"""Of a search's budget, at most, is for them."""
BACKGROUND = 15
"""Processes that are so nice measure no limits."""
LONGEST_S = 60.0
"""Seconds that it may take on a machine that is very busy."""
_FAILED: set[str] = set()
"""Devices whose limits could not be measured in this process. A machine that is too busy once is asked no more: of each of many searches
it would take a third of the budget."""


def part_of(budget_s: float | None) -> float:
    """Seconds for measuring the limits before a search of `budget_s` seconds."""
    return min(USUAL_S, SHARE * (DEFAULT_SECONDS if budget_s is None else budget_s))


def longest_of(budget_s: float | None) -> float:
    """The most that it may take then."""
    return LONGEST_S if budget_s is None else min(LONGEST_S, max(1.0, 2 * SHARE * budget_s))


def measured(device: Device, seconds: float = USUAL_S, limit_s: float = LONGEST_S) -> Limits | None:
    """The limits of a device, measured now in about so many seconds and kept; better figures of earlier times stay. Raises DeviceError
    where that fails, or takes longer than `limit_s`."""
    if not device.spec:  # a device that exists in this process only
        return device.limits(probe=seconds)
    try:
        helper, channel = process.start(MODULE, (device.spec, seconds))
    except MeasureError as e:
        raise DeviceError(str(e)) from None
    began = time.monotonic()
    try:
        said = channel.receive(max(0.01, limit_s - (time.monotonic() - began)))
    except TimeoutError:
        raise DeviceError(f"the limits of {device.name} could not be measured within {limit_s:.3g} s; the search goes on without") from None
    except Closed:
        raise DeviceError(f"the limits of {device.name} could not be measured: {process.how_it_ended(helper.wait())}") from None
    finally:
        process.stop(helper, channel)
    if said:
        raise DeviceError(said)
    return device.limits()


def know_limits(device: Device, budget_s: float | None, begin: Callable[[], None]) -> None:
    """Measure the limits of a device where that never happened, in a part of a budget: without them a result has no share of the
    roofline, and the model ranks by guesses. `begin` is called before. A search works without them, so trouble is a warning, and is not
    looked for again."""
    if device.limits() is not None or type(device).limits is base.Device.limits or device.name in _FAILED:
        return
    if os.nice(0) >= BACKGROUND:
        return  # it would measure what others leave
    begin()
    try:
        measured(device, part_of(budget_s), longest_of(budget_s))
    except DeviceError as error:
        _FAILED.add(device.name)
        warnings.warn(str(error), stacklevel=3)


def serve(channel: Channel, setup: Any) -> None:
    """Measure, and say '' or what went wrong."""
    spec, seconds = setup
    try:
        devices.get(spec).limits(probe=seconds)
        channel.send("")
    except TilewrightError as e:
        channel.send(str(e))


log = logger("search")

AGAIN_S = 1.5
"""Seconds, at most, for measuring them again: a machine that is idle now shows in a moment what it can do."""

_LONGEST = 5.0
"""So many times longer it may take before it is ended."""


class RemeasuredLimits:
    """Those of one search, whose rows say what the machine's limits are."""

    def __init__(self, task: Task, recorder: CacheRecorder, measurer: CandidateMeasurer, budget: Budget) -> None:
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
            with self._measurer.exclusive():
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


if __name__ == "__main__":
    import sys

    from . import machine_limits

    process.main(sys.argv, machine_limits.serve)
