"""An engine whose slots are threads of this process: for tests, and to try a job's function without a network."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from tilewright.fleet import engine as jobs
from tilewright.fleet.engine import FleetJob, FleetSlot, JobFailed, JobFunction, Loss, Running, SchedulerLost, SlotLost
from tilewright.ir.errors import FleetError


class Died(BaseException):
    """Raised in a job's function, it stands for the end of the worker's process."""


@dataclass
class _Site:
    """Where a job runs in this process."""

    slot: FleetSlot
    running: Running
    flag: threading.Event = field(default_factory=threading.Event)

    @property
    def device(self) -> str:
        return self.slot.device.spec if self.slot.device is not None else ""

    @property
    def threads(self) -> int:
        return self.slot.device.threads if self.slot.device is not None else 1

    @property
    def stopped(self) -> bool:
        return self.flag.is_set()

    def send(self, message: Any) -> None:
        if not self.running.done():
            self.running.arrive(message)


class LocalEngine:
    """`functions`: what runs for each kind of job, instead of `jobs.FUNCTIONS`. A slot whose job raises `Died`, or that the test
    loses by `lose`, is gone; with `revive` it comes back under another address, as a restarted worker does."""

    def __init__(self, slots: Sequence[FleetSlot], functions: Mapping[str, JobFunction] | None = None, revive: bool = True) -> None:
        self._functions, self._revive = functions, revive
        self._lost: SimpleQueue[Loss] = SimpleQueue()
        self._guard = threading.Lock()
        self._there: dict[str, FleetSlot] = {}
        self._queues: dict[str, SimpleQueue[Running | None]] = {}
        self._sites: dict[str, list[_Site]] = {}
        self._threads: list[threading.Thread] = []
        self._cut_off: dict[str, FleetError] = {}
        """What jobs for workers hear that were there before the scheduler was lost, by address."""
        self._born = 0
        for slot in slots:
            self.join(slot)

    @property
    def lost(self) -> SimpleQueue[Loss]:
        return self._lost

    def join(self, slot: FleetSlot) -> None:
        """One more slot."""
        with self._guard:
            self._there[slot.address] = slot
            queue = self._queues[slot.address] = SimpleQueue()
            self._sites[slot.address] = []
        for _ in range(max(1, slot.width, slot.build)):
            thread = threading.Thread(target=self._serve, args=(slot, queue), daemon=True, name=f"slot {slot.address}")
            self._threads.append(thread)
            thread.start()

    def slots(self) -> list[FleetSlot]:
        with self._guard:
            at_work = {a: [x.running.job for x in sites if x.running.running()] for a, sites in self._sites.items()}
            return [
                replace(s, running=tuple(j.title for j in at_work[a]), jobs=tuple(j.id for j in at_work[a])) for a, s in self._there.items()
            ]

    def submit(self, slot: FleetSlot, job: FleetJob) -> Running:
        site_of: list[_Site] = []
        running = Running(slot, job, stop=lambda: site_of[0].flag.set())
        site_of.append(_Site(slot, running))
        with self._guard:
            there = slot.address in self._there
            if there:
                self._sites[slot.address].append(site_of[0])
                self._queues[slot.address].put(running)
        if not there:
            gone = SlotLost(f"the worker at {slot.address} is gone")
            running.set_exception(self._cut_off.get(slot.address, gone))
        return running

    def cut(self) -> None:
        """The scheduler is lost, and there again: workers come back as after their own end, and nobody hears what became of jobs."""
        error = SchedulerLost("the connection to the scheduler was lost")
        for address in list(self._there):
            self._cut_off[address] = error
            self.lose(address, error)

    def lose(self, address: str, error: SchedulerLost | None = None) -> None:
        """The worker at this address is gone, now, with all that it had; or its scheduler is, with `error`."""
        with self._guard:
            slot = self._there.pop(address, None)
            if slot is None:
                return
            sites, queue = self._sites.pop(address), self._queues.pop(address)
        had = [s.running for s in sites if not s.running.done()]
        for site in sites:
            site.flag.set()
        for _ in range(max(1, slot.width, slot.build)):
            queue.put(None)
        if error is None:
            self._lost.put(Loss(slot, tuple(r.job for r in had)))
        if self._revive:
            self._born += 1
            self.join(replace(slot, address=f"{address.partition('#')[0]}#{self._born}"))
        for running in had:
            with suppress(InvalidStateError):  # it ended just now
                running.set_exception(error or SlotLost(f"the worker at {address} is gone"))

    def close(self) -> None:
        with self._guard:
            sites = [s for many in self._sites.values() for s in many]
            for site in sites:
                site.flag.set()
            for address, slot in self._there.items():
                for _ in range(max(1, slot.width, slot.build)):
                    self._queues[address].put(None)
        for thread in self._threads:
            thread.join(timeout=30)

    def _serve(self, slot: FleetSlot, queue: SimpleQueue[Running | None]) -> None:
        while (running := queue.get()) is not None:
            site = next((s for s in self._sites.get(slot.address, ()) if s.running is running), None)
            if site is None or not running.set_running_or_notify_cancel():
                continue
            try:
                act = self._functions[running.job.kind] if self._functions is not None else jobs.function(running.job.kind)
                value = act(running.job.payload, site)
            except Died:
                self.lose(slot.address)
                return
            except Exception as e:
                with suppress(InvalidStateError):  # lost meanwhile
                    running.set_exception(JobFailed(str(e) or type(e).__name__, type(e).__name__))
            else:
                with suppress(InvalidStateError):
                    running.set_result(value)
