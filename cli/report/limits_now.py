"""What bounds a row's kernel, by what is known of the machine today: limits that were measured while it was busy were too low."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...devices.limits import DOUBT
from ...ir.errors import TilewrightError

if TYPE_CHECKING:
    from ...cache import Row
    from ...measure.roofline import Roofline


def roofline_s(row: Row, seconds: float) -> float | None:
    """The least seconds of a call, as the row has it; where its `seconds` pass that by more than the spread, what this machine's limits say now,
    if it is this machine's row and a kernel known by name. None where the row says nothing."""
    kept = row.roofline_s
    if not kept or seconds <= 0:
        return kept
    said = row.facts.get("roofline")
    spread = said.get("spread", DOUBT) if isinstance(said, dict) else DOUBT
    if not isinstance(spread, float) or seconds * (1 + spread) >= kept:
        return kept
    now = _now(row.name, row.shape, row.dtype, row.device, row.threads, row.target, "DOWNCONVERT" in row.policy)
    host = row.facts.get("machine")
    return min(kept, now.seconds) if now is not None and isinstance(host, dict) and host == _machine(row.device) else kept


@functools.lru_cache(maxsize=1024)
def _now(name: str, shape: str, dtype: str, device: str, threads: int, target: str, lossy: bool) -> Roofline | None:
    """By today's limits; None where the kernel or the device is not to be had here."""
    import json

    from ... import kernels
    from ...search.kernel_task import KernelTask

    if name not in kernels.NAMES:
        return None
    try:
        task = KernelTask(name, json.loads(shape), dtype or None, device, threads, allow=("DOWNCONVERT",) if lossy else ())
        return task.roofline() if task.key.target == target else None
    except (TilewrightError, ValueError):
        return None  # another version's kernel or shape: the row says what it can


@functools.lru_cache(maxsize=16)
def _machine(device: str) -> object:
    from ... import devices

    try:
        return devices.get(device).fingerprint()
    except TilewrightError:
        return None
