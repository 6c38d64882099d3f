"""What a fleet's engine must do, in four methods and plain data. The rest of the fleet knows only this file. `dask_engine` is the adapter
for Dask; another engine is one more adapter.

A job is a kind and plain JSON data. Its kind names a function (`FUNCTIONS`), which a worker imports. A function that came over the
network by value would find its module's memory empty each time. While a job runs, it sends messages, also plain data. They arrive in
order, and all of them before its result."""

from __future__ import annotations

import hashlib
import importlib
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Literal, Protocol

from ..files.strict import canon
from ..ir.errors import FleetError

JobKind = Literal["entry", "batch", "build"]
JobFunction = Callable[[Mapping[str, Any], "Worksite"], Any]
"""A job's function: payload and where it runs in, plain data out. It may raise anything; what it raises arrives as `JobFailed`."""


class SlotLost(FleetError):
    """The worker that ran a job is gone. Whether the job is to blame is not known: the sender decides what comes next."""


class SlotLeft(SlotLost):
    """It ended as it was told to, and said so: the job is not to blame, and may be sent to another."""


class SchedulerLost(FleetError):
    """The connection to whatever passes jobs on was lost, and with it what became of a job. Nobody is to blame: where the fleet is there
    again (`FleetEngine.slots` tells), the job may be sent anew."""


class JobFailed(FleetError):
    """A job raised an error where it ran. `kind`: the name of the error's class."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class SlotDevice:
    """A device that is somewhere else, as data. `spec`: what `devices.get` takes there; `target`: the target's key; `compiler`:
    the compiler's id; `threads`: those that its kernels are timed with; `tool`: the code digest (`cache.version.tool_version`);
    `fingerprint`: where measurements are made, JSON-able."""

    spec: str
    target: str
    compiler: str
    threads: int
    tool: str
    fingerprint: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def slot_name(self) -> str:
        """16 hex digits, equal for devices whose measurements may be compared."""
        facts = [self.target, self.compiler, self.threads, self.tool]
        return hashlib.sha256(canon(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FleetSlot:
    """A worker process of the fleet. With a `device`, it times one thing at a time there. Slots of one `name` are alike.

    `address` says which one it is. A worker that was lost and came back is another slot, with another address. `width`: jobs
    that it times at once, 1 with a device and 0 without; `build`: builds that it makes at once, 0 for none. `host`: the
    machine's name. `refused`: why this client cannot use it, '' where it can; `running`: titles of the jobs that run there, and
    `jobs`: their ids. `machine`: equal for slots that keep out of each other's way, '' where that is not known; `alone`: it times while nothing else
    does on its machine, as a processor."""

    name: str
    address: str
    device: SlotDevice | None = None
    width: int = 1
    build: int = 0
    host: str = ""
    refused: str = ""
    running: tuple[str, ...] = field(default=(), compare=False)
    jobs: tuple[str, ...] = field(default=(), compare=False)
    machine: str = ""
    alone: bool = True

    def excludes(self, other: FleetSlot) -> bool:
        """Whether the two never time at once: they are on one machine, and one of them needs all of it."""
        return bool(self.machine) and self.machine == other.machine and (self.alone or other.alone)

    def to_json(self) -> dict[str, Any]:
        """Plain data, the same names."""
        return {
            **asdict(self),
            "device": None if self.device is None else asdict(self.device),
            "running": list(self.running),
            "jobs": list(self.jobs),
        }


@dataclass(frozen=True, slots=True)
class FleetJob:
    """Work for a slot. `payload`: JSON data, whole: a job reads nothing else of its sender's. `title`: what people see of it."""

    kind: JobKind
    payload: Mapping[str, Any]
    title: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])


class Running(Future[Any]):
    """A job on its way. As a future of `concurrent.futures`, `result()` gives what the job's function returned; it raises SlotLost,
    SchedulerLost, JobFailed, or FleetError where the slot refuses the job. `wait` and `as_completed` of that module work on it."""

    def __init__(self, slot: FleetSlot, job: FleetJob, stop: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.slot, self.job, self._stop = slot, job, stop
        self._arrived: SimpleQueue[Any] = SimpleQueue()

    def arrive(self, message: Any) -> None:
        """The engine calls this with each message, in order, before the future is done."""
        self._arrived.put(message)

    def messages(self) -> list[Any]:
        """What came since the last call. Once the future is done, one more call gives all the rest."""
        out: list[Any] = []
        while True:
            try:
                out.append(self._arrived.get_nowait())
            except Empty:
                return out

    def stop(self) -> None:
        """Ask the job to end soon: `Worksite.stopped` becomes true there. It then ends by itself, with a result or an error."""
        self._stop()


@dataclass(frozen=True, slots=True)
class Loss:
    """A slot that is gone, and the jobs that it had."""

    slot: FleetSlot
    jobs: tuple[FleetJob, ...]


class Worksite(Protocol):
    """What a job's function knows of where it runs."""

    @property
    def device(self) -> str:
        """What `devices.get` takes here; '' on a slot that only builds."""

    @property
    def threads(self) -> int:
        """The threads that the slot times with."""

    @property
    def stopped(self) -> bool:
        """Whether the sender asked the job to end, or is gone. Ask it every half second or so."""

    def send(self, message: Any) -> None:
        """Send plain JSON data to whoever sent the job. Quick: it does not wait. It is on its way a few milliseconds later."""


class FleetEngine(Protocol):
    """Places jobs on slots. It decides nothing: no job is ever sent twice, and a lost one is its sender's to think about."""

    def slots(self) -> list[FleetSlot]:
        """Who is there now, those that this client cannot use as well (`refused`). Waits some seconds for a fleet that cannot be reached.
        Raises FleetError where nobody can be asked."""

    def submit(self, slot: FleetSlot, job: FleetJob) -> Running:
        """Send a job to exactly this slot. One that is at work takes it up when it is free (send it one at a time to know
        who is to blame for a loss). A slot that is gone fails the future with SlotLost, and one that was there before the fleet could
        not be reached for a while with SchedulerLost: ask for `slots` again. This call itself does not wait."""

    @property
    def lost(self) -> SimpleQueue[Loss]:
        """Slots that went away since this client began, each with what this client had there, in order."""

    def close(self) -> None:
        """Stop what runs for this client, and leave. The workers stay."""


FUNCTIONS: dict[str, str] = {"entry": "entry_job:run", "batch": "batches.batch_job:run", "build": "batches.build_job:run"}
"""Module of this folder and function, by kind of job."""


def function(kind: str) -> JobFunction:
    """The function of a kind of job. Raises FleetError for a kind that this version does not know."""
    module, _, name = FUNCTIONS.get(kind, "").partition(":")
    if not name:
        raise FleetError(f"this version of Tilewright knows no jobs of the kind {kind!r}; install the client's version here")
    found: JobFunction = getattr(importlib.import_module(f".{module}", __package__), name)
    return found


def perform(kind: str, payload: Mapping[str, Any], site: Worksite) -> Any:
    """Run a job here."""
    return function(kind)(payload, site)
