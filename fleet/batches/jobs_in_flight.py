"""Jobs on their way from the client to workers: sent, listened to, given up; and what becomes of candidates whose worker was lost.

A worker says which candidate it begins, and sends each result as it comes. So the candidate that a lost worker was at is known in most
cases, and is sent again alone. Where nothing was said (the last messages of a process that is killed may not have left it), the part
is halved. A candidate is a `crash` when a second worker was lost that had only this candidate and had begun it. The other candidates of
a batch are never blamed, nor is a candidate whose worker ended while it made the inputs. A worker that has one candidate only waits
until its message has left before it begins (`batch_job.CAREFUL_S`), so that what is said of it can be trusted."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...ir.errors import FleetError
from ...log import logger
from ...measure.outcome import Measurement
from ..engine import FleetJob, FleetSlot, JobFailed, Running, SchedulerLost, SlotLeft, SlotLost
from .messages import TravellingBuild

CONVICTED = 2
"""Workers lost over a candidate, the last of them with nothing else to do, after which it is never sent again."""
GUILTY = f"{CONVICTED} workers were lost over it, the last with nothing else to do"


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Candidates, by their numbers, that go to one worker. `avoid`: hosts that lost one over them already, so that another machine is
    asked where there is one."""

    items: tuple[int, ...]
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LossVerdict:
    """What follows from a loss: parts to send, in this order, and candidates that are to blame."""

    again: tuple[BatchPart, ...] = ()
    guilty: tuple[int, ...] = ()


FRUITLESS = 8
"""Workers lost in a row, without one result between them, after which something other than the candidates is at fault."""


@dataclass
class LossRule:
    """Remembers who was lost over whom; one for all batches of a kernel. `lost`: workers lost so far; `fruitless`: those of them
    since the last result."""

    lost: int = 0
    fruitless: int = 0
    _over: Counter[int] = field(default_factory=Counter)

    def after(self, part: BatchPart, done: Collection[int], begun: Sequence[int], host: str = "") -> LossVerdict:
        """A worker on `host` was lost over `part`. `done`: candidates whose results had arrived; `begun`: those that it said to
        have begun, in order."""
        self.lost += 1
        self.fruitless += 1
        rest = tuple(i for i in part.items if i not in done)
        avoid = part.avoid | {host} if host else part.avoid
        at = next((i for i in reversed(begun) if i in rest), None)
        if at is not None:
            self._over[at] += 1
            if self._over[at] >= CONVICTED and len(part.items) == 1:
                return LossVerdict(guilty=(at,))
            others = tuple(i for i in rest if i != at)
            return LossVerdict((BatchPart((at,), avoid), *([BatchPart(others, part.avoid)] if others else [])))
        if len(rest) <= 1:
            return LossVerdict((BatchPart(rest, avoid),) if rest else ())
        middle = len(rest) // 2
        return LossVerdict((BatchPart(rest[:middle], avoid), BatchPart(rest[middle:], avoid)))

    def measured(self, item: int) -> None:
        """It has a result: what was lost over it had other reasons."""
        self.fruitless = 0
        self._over.pop(item, None)


def split(items: Sequence[int], width: int, most: int) -> list[BatchPart]:
    """Parts for `width` workers, as equal as can be, none longer than `most`. Neighbours go to different workers: a search sorts
    candidates by their estimate, and so every part has some that are quick and some that are slow."""
    if not items:
        return []
    count = max(min(width, len(items)), -(-len(items) // most))
    return [BatchPart(tuple(items[i::count])) for i in range(count)]


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
        """The answer of a job that is done. Raises SlotLost, JobFailed, FleetError."""
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
