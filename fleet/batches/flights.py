"""Jobs on their way from the client to workers: sent, listened to, given up."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...ir.errors import FleetError
from ...log import logger
from ...measure.outcome import Measurement
from ..seam import FleetJob, FleetSlot, JobFailed, Running, SchedulerLost, SlotLeft, SlotLost
from .losses import BatchPart
from .plain import TravellingBuild

log = logger("fleet")

SILENT_S = 20.0
"""A worker that is at work gives a sign of life every two seconds. One that gave none for so long stands still."""
QUEUED_S = 60.0
"""A job that no worker took up for so long, behind another client's, is taken back where another slot is free."""


@dataclass
class BatchOrder:
    """What one call wants: `items` by number, each with its options; `todo`: parts that are not under way."""

    items: Mapping[int, TravellingBuild]
    incumbent_s: float | None
    todo: deque[BatchPart]
    judge: bool = False
    results: dict[int, Measurement] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        return len(self.results) < len(self.items)


@dataclass
class BatchFlight:
    """A job on its way. `rows`: results that came, as JSON, by number; `begun`: candidates that were begun, in order; `heard`: when
    the worker last said something, None before it took the job up. A deadline begins there: waiting in a queue counts for nothing."""

    slot: FleetSlot
    part: BatchPart
    running: Running
    sent: float
    clock: Callable[[], float] = time.monotonic
    begun: list[int] = field(default_factory=list)
    rows: dict[int, Any] = field(default_factory=dict)
    heard: float | None = None
    given_up: bool = False

    def listen(self) -> list[int]:
        """Take what was said; numbers of the results that are new. Raises FleetError for what no worker of this version says."""
        fresh: list[int] = []
        try:
            for message in self.running.messages():
                self.heard = self.clock()
                if "row" in message:
                    number, row = message["row"]
                    fresh.append(int(number))
                    self.rows[int(number)] = row
                elif "begin" in message:
                    self.begun.append(int(message["begin"]))
        except (TypeError, ValueError, KeyError) as e:
            raise FleetError(f"a worker said what this version does not know ({e}); client and worker must be the same version") from e
        return fresh

    def late(self) -> bool:
        """Whether its worker was at it and stands still."""
        return self.heard is not None and self.clock() - self.heard > SILENT_S

    def stuck(self) -> bool:
        """Whether no worker took it up for long."""
        return self.heard is None and self.clock() - self.sent > QUEUED_S

    def give_up(self) -> None:
        """Ask the worker to end it; it is busy until it does."""
        self.given_up = True
        ask_to_stop(self.running)

    def answer(self) -> Mapping[str, Any]:
        """Of a job that is done. Raises SlotLost, JobFailed, FleetError."""
        got = self.running.result(0)
        if not isinstance(got, Mapping):
            raise FleetError(f"a worker answered {type(got).__name__} instead of an object")
        return got


def ask_to_stop(running: Running) -> None:
    """Without waiting: a worker that stands still does not hear it, and an engine may wait for its answer."""
    threading.Thread(target=running.stop, daemon=True, name="asks a job to end").start()


def lost(flight: BatchFlight) -> bool:
    """Whether a job that is done was lost with its worker."""
    return isinstance(flight.running.exception(0), SlotLost)


def cut_off(flight: BatchFlight) -> bool:
    """Whether a job that is done ended for nobody's fault: the connection to the scheduler was lost, or its worker was told to end."""
    return isinstance(flight.running.exception(0), (SchedulerLost, SlotLeft))


def why_failed(flight: BatchFlight) -> str:
    """What a job that is done and was not lost failed of; '' where it did not."""
    error = flight.running.exception(0)
    if error is None:
        return ""
    kind = f"{error.kind}: " if isinstance(error, JobFailed) and error.kind not in ("", "MeasureError", "DeviceError", "FleetError") else ""
    return f"{kind}{error}"


def batch_job(payload: Mapping[str, Any], title: str) -> FleetJob:
    """A job for a device's worker."""
    return FleetJob("batch", payload, title)


def sent_build(build: TravellingBuild, address: str) -> dict[str, Any]:
    """A candidate as a payload for the worker at `address` has it: its options, and the object where it was made elsewhere."""
    out: dict[str, Any] = {"opts": [o.json for o in build.opts]}
    return out | ({"build": build.to_json(whole=True)} if build.obj is not None and build.made_at != address else {})
