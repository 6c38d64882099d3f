"""A job on a Dask worker: `perform` is the one function that a client ever submits.

What a job sends, and how it ended, go to the client as events of the scheduler, in order, over the connection that also says that the
task is done. So nothing is fetched from workers, and a worker that dies takes no result with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ir.errors import FleetError
from ..log import logger
from . import jobs
from .facts import difference, versions
from .machine_lock import held

if TYPE_CHECKING:
    from .worker import SlotWorker

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
        what, value = "done", _alone(worker, envelope, site)
    except KeyboardInterrupt:
        what, value = "failed", ["it was stopped", "KeyboardInterrupt"]
    except Exception as e:
        log.info("job %s failed: %s: %s", envelope["kind"], type(e).__name__, e)
        what, value = "failed", [str(e) or type(e).__name__, type(e).__name__]
    finally:
        _UNDER_WAY.pop(site._id, None)
    site.tell(*("left", None) if site.leaving else (what, value))


def _alone(worker: SlotWorker, envelope: Mapping[str, Any], site: DaskSite) -> Any:
    """The job's result, made while nothing runs on this machine that would disturb it, or that it would."""
    kind, payload = envelope["kind"], envelope["payload"]
    with held(worker.facts["lock"], alone=kind != "build" and worker.facts["exclusive"], stopped=lambda: site.stopped):
        return jobs.perform(kind, payload, site)


def stop(job: str) -> None:
    """Ask a job of this process to end. The client runs this on the worker; a job that is over, or not begun, hears nothing."""
    if (site := _UNDER_WAY.get(job)) is not None:
        site.flag.set()


def check_kind(kind: str) -> None:
    """Raise FleetError for a kind of job that does not exist."""
    if kind not in jobs.FUNCTIONS:
        raise FleetError(f"there are no jobs of the kind {kind!r}; known: {', '.join(jobs.FUNCTIONS)}")
