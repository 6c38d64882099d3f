"""How a job on its way ends, and what a task's error means."""

from __future__ import annotations

from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import Any

from ..ir.errors import FleetError
from .seam import FleetSlot, JobFailed, Running, SlotLost


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
