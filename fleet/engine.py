"""The fleet's engine on Dask: slots are its workers, jobs its tasks, and messages its events."""

from __future__ import annotations

import json
import threading
from concurrent.futures import InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from ..ir.errors import FleetError
from . import settings, site
from .facts import dask, slot_of, versions
from .keys import key_of
from .lost import TOPIC as LOST
from .lost import LostSlot, lost_slots
from .scheduler import TOPIC, reach, unreachable
from .seam import FleetJob, FleetSlot, JobFailed, Loss, Running, SlotLost

ASK_S = 15.0
"""Seconds that the scheduler may take to answer."""


class DaskEngine:
    """A client of the scheduler at `url`. `security`: Dask's, for tls:// (see `tls.security`). Raises FleetError where no scheduler
    answers there, or one of another version of Dask."""

    def __init__(self, url: str, security: Any = None) -> None:
        distributed = dask()
        settings.apply()
        self.url = url
        self._versions = versions()
        self._guard = threading.RLock()
        self._under_way: dict[str, tuple[Running, Any]] = {}
        self._known: dict[str, FleetSlot] = {}
        self._gone: set[str] = set()
        self._lost: SimpleQueue[Loss] = SimpleQueue()
        self._closed = False
        self.strangers = 0
        """Workers of this scheduler that `tune fleet worker` did not start, as of the last look."""
        self._names: set[str] = set()
        loop = distributed.utils.LoopRunner()
        loop.start()
        self._loop = loop
        try:
            loop.run_sync(reach, url, security)  # it says what is wrong; Dask's own client only that time is up
            self._client = distributed.Client(
                url, security=security, set_as_default=False, timeout=ASK_S, name="tilewright", loop=loop.loop, direct_to_workers=False
            )
        except (OSError, TimeoutError) as e:
            loop.stop()
            raise unreachable(url, e) from None
        except BaseException:
            loop.stop()
            raise
        self._topic = TOPIC + self._client.id
        try:
            self._agree()
            self._scheduler = self._client.sync(self._client.scheduler.identity, n_workers=0, callback_timeout=ASK_S)["id"]
            self._client.subscribe_topic(self._topic, self._heard)
            self._client.subscribe_topic("all", self._noted)
        except BaseException:
            self.close()
            raise

    @property
    def lost(self) -> SimpleQueue[Loss]:
        """Slots that went away (see the seam)."""
        return self._lost

    def slots(self) -> list[FleetSlot]:
        """Who is there now. Raises FleetError where the scheduler does not answer."""
        scheduler = self._client.scheduler
        if scheduler is None:  # Dask's client gave up
            raise FleetError(f"the scheduler at {self.url} is gone")
        try:
            identity = self._client.sync(scheduler.identity, callback_timeout=ASK_S)
            busy = self._client.sync(scheduler.processing, workers=None, callback_timeout=ASK_S)
        except (OSError, TimeoutError, RuntimeError) as e:
            raise FleetError(f"the scheduler at {self.url} does not answer any more ({type(e).__name__})") from None
        if identity["id"] != self._scheduler:  # it was started anew, and does not know what this client listens to
            self._scheduler = identity["id"]
            self._client.subscribe_topic(self._topic, self._heard)
            self._client.subscribe_topic("all", self._noted)
        workers = identity["workers"]
        found = [
            slot_of(address, w["tilewright"], self._versions, busy.get(address, ()))
            for address, w in workers.items()
            if isinstance(w.get("tilewright"), dict)
        ]
        self.strangers = len(workers) - len(found)
        self._names = {str(w["id"]) for w in workers.values()}
        with self._guard:
            found = [s for s in found if s.address not in self._gone]
            self._known.update((s.address, s) for s in found)
        return sorted(found, key=lambda s: (s.host, s.name, s.address))

    def gone(self) -> list[LostSlot]:
        """Who went away, whoever it worked for, the last 200 that the scheduler noted; who of them is back is as of the last look.
        Raises FleetError where the scheduler does not answer."""
        try:
            events = self._client.sync(self._client.scheduler.events, topic=LOST, callback_timeout=ASK_S)
        except (AttributeError, OSError, TimeoutError, RuntimeError) as e:  # a client that gave up has no scheduler
            raise FleetError(f"the scheduler at {self.url} does not answer any more ({type(e).__name__})") from None
        return lost_slots(events, self._names)

    def submit(self, slot: FleetSlot, job: FleetJob) -> Running:
        """Send a job to a slot (see the seam)."""
        site.check_kind(job.kind)
        running = Running(slot, job, stop=lambda: self._ask_to_stop(job.id))
        if slot.refused:
            running.set_exception(FleetError(f"the worker at {slot.host or slot.address} cannot be used: {slot.refused}"))
            return running
        if not (slot.build if job.kind == "build" else slot.width):
            running.set_exception(FleetError(f"{slot.host or slot.address} has no place for jobs of the kind {job.kind!r}"))
            return running
        key = key_of(job)
        envelope = {"id": job.id, "kind": job.kind, "payload": job.payload, "key": key, "topic": self._topic, "versions": self._versions}
        with self._guard:
            if slot.address in self._gone:
                running.set_exception(SlotLost(f"the worker {slot.address} on {slot.host} is gone"))
                return running
            self._known.setdefault(slot.address, slot)
            self._under_way[job.id] = (running, None)
        running.set_running_or_notify_cancel()
        try:
            future = self._client.submit(
                site.perform, envelope, key=key, workers=[slot.address], allow_other_workers=False, pure=False, retries=0,
                resources={"timing" if job.kind != "build" else "build": 1},
            )  # fmt: skip
        except Exception as e:  # a client that lost its scheduler says so in several ways
            with self._guard:
                self._under_way.pop(job.id, None)
            _settle(running, error=FleetError(f"the scheduler at {self.url} is gone ({type(e).__name__})"))
            return running
        with self._guard:
            if job.id in self._under_way:
                self._under_way[job.id] = (running, future)
        future.add_done_callback(lambda f: self._over(job.id, f))
        return running

    def close(self) -> None:
        """Ask what runs for this client to stop, and leave."""
        with self._guard:
            self._closed = True
            left = list(self._under_way.values())
            self._under_way.clear()
        for running, future in left:
            if future is not None:
                with suppress(Exception):  # the scheduler may be gone; then the worker stops by itself
                    future.cancel()
            _settle(running, error=FleetError("this client has left the fleet"))
        with suppress(Exception):  # a client that lost its scheduler says so in several ways
            for topic in ("all", self._topic):
                self._client.unsubscribe_topic(topic)
        with suppress(Exception):
            self._client.close(timeout=5)
        self._loop.stop()

    # on the client's loop -------------------------------------------------------------------------------------------
    def _heard(self, event: tuple[float, dict[str, Any]]) -> None:
        """A message of a job, or its end."""
        said = event[1]
        with self._guard:
            running, _ = self._under_way.get(said.get("job", ""), (None, None))
        if running is None:
            return
        if "message" in said:
            running.arrive(json.loads(said["message"]))
        elif "done" in said:
            _settle(running, json.loads(said["done"]))
        elif "refused" in said:
            _settle(running, error=FleetError(json.loads(said["refused"])))
        elif "left" in said:
            _settle(running, error=SlotLost(f"the worker {running.slot.address} on {running.slot.host} ends"))
        else:
            text, kind = json.loads(said["failed"])
            _settle(running, error=JobFailed(text, kind))

    def _noted(self, event: tuple[float, Any]) -> None:
        """Something happened to the fleet. A worker that leaves takes its tasks with it: Dask would keep those that were meant for it
        alone, and wait."""
        said = event[1]
        if not isinstance(said, dict) or said.get("action") != "remove-worker":
            return
        address = said.get("worker", "")
        with self._guard:
            self._gone.add(address)
            slot = self._known.pop(address, None)
            had = [(r, f) for r, f in self._under_way.values() if r.slot.address == address and not r.done()]
        if slot is None:
            return
        self._lost.put(Loss(slot, tuple(r.job for r, _ in had)))
        for running, future in had:
            self._forget(running.job.id)
            _settle(running, error=SlotLost(f"the worker {address} on {slot.host} is gone"))
            if future is not None:
                future.release()

    def _over(self, job: str, future: Any) -> None:
        """The task is done, lost or cancelled; what it had to say has been heard before."""
        with self._guard:
            running, _ = self._under_way.pop(job, (None, None))
        status = future.status
        future.release()
        if running is None or running.done():
            return
        if status == "error":
            _settle(running, error=_trouble(future, running.slot))
        elif status == "finished":
            _settle(running, error=JobFailed("the job ended without saying how: its worker lost the scheduler meanwhile", "FleetError"))
        else:
            _settle(running, error=FleetError(f"the scheduler at {self.url} is gone"))

    # ----------------------------------------------------------------------------------------------------------------
    def _forget(self, job: str) -> None:
        with self._guard:
            self._under_way.pop(job, None)

    def _ask_to_stop(self, job: str) -> None:
        with self._guard:
            running, _ = self._under_way.get(job, (None, None))
        if running is None or running.done():
            return
        # not waited for: a worker that hangs would not answer, and one that is gone has lost the job anyway
        self._client.loop.add_callback(self._client._run, site.stop, job, workers=[running.slot.address], on_error="ignore")

    def _agree(self) -> None:
        """FleetError where the scheduler has another version of Dask."""
        theirs = self._client.sync(self._client.scheduler.versions, packages=[], callback_timeout=ASK_S)["packages"]["distributed"]
        if theirs != self._versions["dask"]:
            raise FleetError(
                f"the scheduler at {self.url} has Dask's distributed {theirs}, this client {self._versions['dask']}: install the same on both"
            )


def _settle(running: Running, value: Any = None, error: BaseException | None = None) -> None:
    with suppress(InvalidStateError):  # the other way in was first
        if error is not None:
            running.set_exception(error)
        else:
            running.set_result(value)


def _trouble(future: Any, slot: FleetSlot) -> FleetError:
    from distributed import KilledWorker

    error = future.exception()
    if isinstance(error, KilledWorker):
        return SlotLost(f"the worker {slot.address} on {slot.host} is gone")
    return JobFailed(f"the worker on {slot.host} could not run the job: {error}", type(error).__name__)
