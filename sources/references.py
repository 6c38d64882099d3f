"""The reference of a source: computed before a search, in a process of its own, with a limit on its time."""

from __future__ import annotations

import time

from ..ir.errors import UsageError
from ..measure.processes import process
from ..measure.processes.protocol import Closed
from .building import SourceTask
from .device import SourceDevice
from .reference_process import MODULE, ReferenceRequest

LIMIT_S = 300.0
"""Seconds that a reference may take where nobody says another limit."""


def compute(task: SourceTask, device: SourceDevice, threads: int, seeds: tuple[int, ...], limit_s: float = LIMIT_S) -> None:
    """Write what every output must hold, for the inputs of each seed. Raises UsageError where the reference fails, hangs, or
    disagrees with itself."""
    if not any(a.written for a in task.spec.arrays):
        raise UsageError(
            f'{task.spec.function} writes no argument, so nothing can be checked: give the arrays that it writes role = "out" or "inout"'
        )
    started, channel = process.start(MODULE, ReferenceRequest(task, device, threads, seeds))
    what = (
        f"the reference {task.spec.check.reference}" if task.spec.check.reference else "the untuned configuration, which is the reference,"
    )
    began = time.monotonic()
    try:
        while True:
            try:
                kind, payload = channel.receive(min(1.0, max(0.01, began + limit_s - time.monotonic())))
                break
            except TimeoutError:
                if time.monotonic() - began > limit_s:
                    raise UsageError(
                        f"{what} did not end within {limit_s:.3g} s: give smaller sizes, another reference, or more time"
                    ) from None
    except Closed:
        how = process.how_it_ended(started.wait())
        raise UsageError(f"{what} ended its process ({how}){_hint(how)}") from None
    finally:
        process.stop(started, channel)
    if kind == "error":
        raise UsageError(str(payload))


def _hint(how: str) -> str:
    """What a signal usually means."""
    if "SIGSEGV" in how or "SIGBUS" in how:
        return ': it reads or writes outside an array, or writes one whose role is "in"; check shapes, roles and sizes'
    return ""
