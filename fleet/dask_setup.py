"""How Dask is set up for timing (nothing of it samples, moves or repeats tasks), and the names of jobs that its dashboard shows."""

from __future__ import annotations

import logging
from typing import Any

from ..log import logger
from .engine import FleetJob

DASK: dict[str, Any] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],
    "distributed.nanny.pre-spawn-environ": dict.fromkeys(
        ("MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    ),
    "distributed.admin.low-level-log-length": 200,
    "distributed.admin.log-length": 200,
    "distributed.admin.large-graph-warning-threshold": "1GB",
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.retry.count": 0,
}
"""Dask's settings on every side. A task whose worker is lost is never repeated by Dask (the client decides that), tasks stay where
they were sent, no profiler wakes up beside a timing, a worker has the environment of its command (Dask would give its libraries one
thread, and its memory another way of being freed), and the scheduler keeps few messages that it passed on."""


SILENT = logging.CRITICAL + 1
"""Dask calls it critical that a client was killed."""
NO_PAGES = "127.0.0.1:0"
"""Where Dask's HTTP server listens where it should serve nothing: it cannot be left out, and knows nothing of certificates."""


def apply() -> None:
    """Set up Dask in this process, and keep its log quiet unless ours is on."""
    import dask

    dask.config.set(DASK)
    if not logger("fleet").listens():
        # Dask gave these levels of their own
        own = [name for name in logging.root.manager.loggerDict if name.startswith(("distributed.", "tornado."))]
        for name in ("distributed", "tornado", "asyncio", *own):
            logging.getLogger(name).setLevel(SILENT)


def key_of(job: FleetJob) -> str:
    """Dask's key of a job: its dashboard groups tasks by what stands before the first '-', the kernel's name."""
    first = job.title.partition(" ")[0].rstrip(":").rpartition("/")[2].replace("-", "_") or job.kind
    return f"{first}-{job.id} {job.title or job.kind}"


def title_of(key: Any) -> str:
    """The title of the job behind a key."""
    return str(key).partition(" ")[2] or str(key)


def id_of(key: Any) -> str:
    """The id of the job behind a key; '' where it is none of ours."""
    first, _, title = str(key).partition(" ")
    return first.rpartition("-")[2] if title else ""
