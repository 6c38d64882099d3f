"""How Dask is set up for timing: nothing of it samples, moves or repeats tasks."""

from __future__ import annotations

import logging
from typing import Any

from ..log import logger

DASK: dict[str, Any] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.low-level-log-length": 200,
    "distributed.admin.log-length": 200,
    "distributed.admin.large-graph-warning-threshold": "1GB",
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.retry.count": 0,
}
"""Dask's settings on every side. A task whose worker is lost is never repeated by Dask (the client decides that), tasks stay where
they were sent, no profiler wakes up beside a timing, and the scheduler keeps few messages that it passed on."""


def apply() -> None:
    """Set up Dask in this process, and keep its log quiet unless ours is on."""
    import dask

    dask.config.set(DASK)
    if not logger("fleet").listens():
        for name in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
