"""The fleet's engine on Dask: slots are its workers, jobs its tasks, and messages its events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ..ir.errors import FleetError
from ..log import logger
from . import dask_setup as settings
from . import engine as jobs
from .dask_setup import key_of
from .engine import FleetJob, FleetSlot, JobFailed, Loss, Running, SchedulerLost, SlotLeft, SlotLost
from .scheduler import ENDS, LOST_TOPIC, MESSAGES_TOPIC, LostSlot, lost_slots, reach, unreachable
from .worker import dask, difference, machine_lock, slot_of, versions

if TYPE_CHECKING:
    from .worker import SlotWorker


# site -------------------------------------------------------------------------------------------------------
# A job on a Dask worker: `perform` is the one function that a client ever submits.
#
# What a job sends, and how it ended, go to the client as events of the scheduler, in order, over the connection that
# also says that the task is done. So nothing is fetched from workers, and a worker that dies takes no result with it.


log = logger("fleet")
_UNDER_WAY: dict[str, DaskSite] = {}
"""The jobs that run in this process."""
_LEFT = ("cancelled", "released", "forgotten", "error")
"""States of a task that nobody wants any more."""


class DaskSite:
    """Where a job runs: a thread of a Dask worker."""

    def __init__(self, worker: SlotWorker, envelope: Mapping[str, Any]) -> None:
        self._worker, self._topic, self._id, self._key = worker, envelope["topic"], envelope["id"], envelope["key"]
        device = worker.facts["device"]
        self.device: str = "" if device is None else device["spec"]
        self.threads: int = 1 if device is None else device["threads"]
        self.folder: str = worker.local_directory
        self.flag = threading.Event()
        self.leaving = False
        """Whether it is stopped only since its worker ends. What it has by then is no answer: others do the job again."""

    @property
    def stopped(self) -> bool:
        """Whether the client asked for it, or let go of the task, or is gone (the scheduler lets go for it then), or the worker ends."""
        if not self.flag.is_set():
            task = self._worker.state.tasks.get(self._key)
            self.leaving = str(self._worker.status.name) in ("closing", "closed", "failed")
            if self.leaving or task is None or task.state in _LEFT:
                self.flag.set()
        return self.flag.is_set()

    def send(self, message: Any) -> None:
        self.tell("message", message)

    def tell(self, what: str, value: Any) -> None:
        """`what`: message, done, failed, refused or left. As JSON text, for Dask's own encoding makes tuples of lists. TypeError for what is no
        JSON data."""
        self._worker.log_event(self._topic, {"job": self._id, what: json.dumps(value)})


def perform(envelope: Mapping[str, Any]) -> None:
    """Run the job in an envelope: `id`, `kind`, `payload`, `key` of the task, `topic` of its messages, `versions` of the client."""
    from distributed import get_worker

    worker: SlotWorker = get_worker()  # type: ignore[assignment]
    site = DaskSite(worker, envelope)
    if why := difference(versions(), envelope["versions"]):
        site.tell("refused", f"the worker at {worker.facts['host']} refuses the job: {why}")
        return
    _UNDER_WAY[site._id] = site
    try:
        what, value = "done", _run_exclusively(worker, envelope, site)
    except KeyboardInterrupt:
        what, value = "failed", ["it was stopped", "KeyboardInterrupt"]
    except Exception as e:
        log.info("job %s failed: %s: %s", envelope["kind"], type(e).__name__, e)
        what, value = "failed", [str(e) or type(e).__name__, type(e).__name__]
    finally:
        _UNDER_WAY.pop(site._id, None)
    site.tell(*("left", None) if site.leaving else (what, value))


def _run_exclusively(worker: SlotWorker, envelope: Mapping[str, Any], site: DaskSite) -> Any:
    """The job's result, made while nothing runs on this machine that would disturb it, or that it would."""
    kind, payload = envelope["kind"], envelope["payload"]
    with machine_lock(worker.facts["lock"], alone=kind != "build" and worker.facts["exclusive"], stopped=lambda: site.stopped):
        return jobs.perform(kind, payload, site)


def stop(job: str) -> None:
    """Ask a job of this process to end. The client runs this on the worker; a job that is over, or not begun, hears nothing."""
    if (site := _UNDER_WAY.get(job)) is not None:
        site.flag.set()


def check_kind(kind: str) -> None:
    """Raise FleetError for a kind of job that does not exist."""
    if kind not in jobs.FUNCTIONS:
        raise FleetError(f"there are no jobs of the kind {kind!r}; known: {', '.join(jobs.FUNCTIONS)}")


# settled ----------------------------------------------------------------------------------------------------
# How a job on its way ends, and what a task's error means.


def settle(running: Running, value: Any = None, error: BaseException | None = None) -> None:
    """Give it a value or an error, unless it has one."""
    with suppress(InvalidStateError):  # the other way in was first
        if error is not None:
            running.set_exception(error)
        else:
            running.set_result(value)


def trouble(future: Any, slot: FleetSlot) -> FleetError:
    """The error of a task of Dask's."""
    from distributed import KilledWorker

    error = future.exception()
    if isinstance(error, KilledWorker):
        return SlotLost(f"the worker {slot.address} on {slot.host} is gone")
    return JobFailed(f"the worker on {slot.host} could not run the job: {error}", type(error).__name__)


# engine -----------------------------------------------------------------------------------------------------
ASK_S = 15.0
"""Seconds that the scheduler may take to answer; one that went away may be started again within them."""
AGAIN_S = 0.2
"""Seconds between two attempts to ask it."""


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
        self._topic = MESSAGES_TOPIC + self._client.id
        self._connection: Any = None
        self._ended: Any = None
        """The connection over which a scheduler said that it ends."""
        try:
            self._agree()
            self._listen()
        except (OSError, TimeoutError) as e:
            self.close()
            raise unreachable(url, e) from None
        except BaseException:
            self.close()
            raise

    @property
    def lost(self) -> SimpleQueue[Loss]:
        """Slots that went away (see the seam)."""
        return self._lost

    def slots(self) -> list[FleetSlot]:
        """Who is there now. Raises FleetError where the scheduler does not answer."""
        workers, busy = self._asked()
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

    def _asked(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The scheduler's workers, and what runs on each. A scheduler that went away is waited for: Dask's client finds it again by
        itself. Raises FleetError."""
        until = time.monotonic() + ASK_S
        while True:
            scheduler = self._client.scheduler
            if scheduler is None:  # Dask's client gave up
                raise FleetError(f"the scheduler at {self.url} is gone")
            try:
                if not self._hears:
                    self._listen()
                left = max(AGAIN_S, until - time.monotonic())
                workers = self._client.sync(scheduler.identity, callback_timeout=left)["workers"]
                return workers, self._client.sync(scheduler.processing, workers=None, callback_timeout=left)
            except (OSError, TimeoutError, RuntimeError) as e:
                if time.monotonic() > until:
                    raise FleetError(f"the scheduler at {self.url} does not answer any more ({type(e).__name__})") from None
            time.sleep(AGAIN_S)

    def _listen(self) -> None:
        """Hear what concerns this client. A scheduler that was started anew, or let go of this client when it could not be reached, does
        not know what it listens to. Raises OSError while there is no connection."""
        connection = self._client.scheduler_comm
        if connection is None or connection is self._ended or self._client.status != "running":
            raise OSError("not connected")
        with self._guard:
            self._known.clear()  # Dask would keep a job for a worker that a new scheduler does not know, and wait
        self._client.subscribe_topic(self._topic, self._heard)
        self._client.subscribe_topic("all", self._noted)
        self._connection = connection

    def gone(self) -> list[LostSlot]:
        """Who went away, whoever it worked for, the last 200 that the scheduler noted; who of them is back is as of the last look.
        Raises FleetError where the scheduler does not answer."""
        try:
            events = self._client.sync(self._client.scheduler.events, topic=LOST_TOPIC, callback_timeout=ASK_S)
        except (AttributeError, OSError, TimeoutError, RuntimeError) as e:  # a client that gave up has no scheduler
            raise FleetError(f"the scheduler at {self.url} does not answer any more ({type(e).__name__})") from None
        return lost_slots(events, self._names)

    def submit(self, slot: FleetSlot, job: FleetJob) -> Running:
        """Send a job to a slot (see the seam)."""
        check_kind(job.kind)
        running = Running(slot, job, stop=lambda: self._ask_to_stop(job.id))
        if slot.refused:
            running.set_exception(FleetError(f"the worker at {slot.host or slot.address} cannot be used: {slot.refused}"))
            return running
        if not (slot.build if job.kind == "build" else slot.width):
            running.set_exception(FleetError(f"{slot.host or slot.address} has no place for jobs of the kind {job.kind!r}"))
            return running
        if not self._hears:  # no worker outlives its scheduler, so this slot may be none any more
            running.set_exception(SchedulerLost(self._cut))
            return running
        key = key_of(job)
        envelope = {"id": job.id, "kind": job.kind, "payload": job.payload, "key": key, "topic": self._topic, "versions": self._versions}
        with self._guard:
            if slot.address in self._gone:
                running.set_exception(SlotLost(f"the worker {slot.address} on {slot.host} is gone"))
                return running
            if slot.address not in self._known:
                running.set_exception(SchedulerLost(self._cut))
                return running
            self._under_way[job.id] = (running, None)
        running.set_running_or_notify_cancel()
        try:
            future = self._client.submit(
                perform, envelope, key=key, workers=[slot.address], allow_other_workers=False, pure=False, retries=0,
                resources={"timing" if job.kind != "build" else "build": 1},
            )  # fmt: skip
        except Exception as e:  # a client that lost its scheduler says so in several ways
            with self._guard:
                self._under_way.pop(job.id, None)
            cut = SchedulerLost(f"{self._cut} ({type(e).__name__})")
            settle(running, error=FleetError(f"the job cannot be sent: {type(e).__name__}: {e}") if self._hears else cut)
            return running
        with self._guard:
            if job.id in self._under_way:
                self._under_way[job.id] = (running, future)
        future.add_done_callback(lambda f: self._over(job.id, f))
        return running

    @property
    def _hears(self) -> bool:
        """Whether the connection is still the one by which this client hears what concerns it."""
        connection = self._client.scheduler_comm
        return connection is not None and connection is self._connection

    @property
    def _cut(self) -> str:
        return f"the connection to the scheduler at {self.url} was lost"

    def close(self) -> None:
        """Ask what runs for this client to stop, and leave."""
        with self._guard:
            left = list(self._under_way.values())
            self._under_way.clear()
        for running, future in left:
            if future is not None:
                with suppress(Exception):  # the scheduler may be gone; then the worker stops by itself
                    future.cancel()
            settle(running, error=FleetError("this client has left the fleet"))
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
            settle(running, json.loads(said["done"]))
        elif "refused" in said:
            settle(running, error=FleetError(json.loads(said["refused"])))
        elif "left" in said:
            with self._guard:
                self._gone.add(running.slot.address)
            settle(running, error=SlotLeft(f"the worker {running.slot.address} on {running.slot.host} ends"))
        else:
            text, kind = json.loads(said["failed"])
            settle(running, error=JobFailed(text, kind))

    def _noted(self, event: tuple[float, Any]) -> None:
        """Something happened to the fleet. A worker that leaves takes its tasks with it: Dask would keep those that were meant for it
        alone, and wait."""
        said = event[1]
        if isinstance(said, dict) and said.get("action") == ENDS:
            self._cut_off()
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
            settle(running, error=SlotLost(f"the worker {address} on {slot.host} is gone"))
            if future is not None:
                future.release()

    def _cut_off(self) -> None:
        """The scheduler ends, and all workers with it: it says so first."""
        self._connection, self._ended = None, self._client.scheduler_comm
        with self._guard:
            left = list(self._under_way.values())
            self._under_way.clear()
        for running, future in left:
            settle(running, error=SchedulerLost(self._cut))
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
            settle(running, error=trouble(future, running.slot))
        elif status == "finished":
            settle(running, error=JobFailed("the job ended without saying how: its worker lost the scheduler meanwhile", "FleetError"))
        else:
            settle(running, error=SchedulerLost(self._cut))

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
        self._client.loop.add_callback(self._tell_to_stop, job, running.slot.address)

    async def _tell_to_stop(self, job: str, address: str) -> None:
        with suppress(Exception):  # this client may leave meanwhile
            await self._client._run(stop, job, workers=[address], on_error="ignore")

    def _agree(self) -> None:
        """FleetError where the scheduler has another version of Dask."""
        theirs = self._client.sync(self._client.scheduler.versions, packages=[], callback_timeout=ASK_S)["packages"]["distributed"]
        if theirs != self._versions["dask"]:
            raise FleetError(
                f"the scheduler at {self.url} has Dask's distributed {theirs}, this client {self._versions['dask']}: install the same on both"
            )
