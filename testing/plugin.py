"""The pytest plugin: the fixture `tilewright`. pytest loads this file in every run where Tilewright is installed, so it imports
nothing that takes time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ..ir.errors import CacheMiss, VerifyError

if TYPE_CHECKING:
    from ..cache import Cache
    from ..ir.buffer import Extent
    from ..ir.dtypes import DTypeLike
    from ..ir.kernel import Kernel


LEAST = 0.9
"""The share of its recorded speed that a kernel must have."""
TRIES = 3
"""Measurements before a kernel is called slow: a single one may be disturbed."""
LOOK_S = 0.3
"""Seconds of looking whether other programs use the machine."""


class SpeedChecks:
    """What the fixture `tilewright` is."""

    def holds(self, kernel: Any, shape: Any = None, dtype: Any = None, *, least: float = LEAST, **settings: Any) -> RecordedSpeed:
        """The test fails unless the tuned kernel is right and has at least `least` (a share, 0.9 by default) of its recorded
        speed; the arguments are those of `best` (kernel, shape, dtype, device, threads, cache, allow). Returns what was
        measured.

        A wrong kernel fails on any machine. Speed is not judged, and the test is skipped, where the time was recorded on
        another machine, and where other programs use this one. Raises CacheMiss where nothing was recorded."""
        __tracebackhide__ = True
        if not 0 < least <= 1:
            raise ValueError(f"least is a share of the recorded speed, above 0 and at most 1, not {least}")
        for i in range(TRIES):
            busy = _busy()
            try:
                found = remeasure(kernel, shape, dtype, **settings)
            except VerifyError as e:
                pytest.fail(f"not right: {e}", pytrace=False)
            if found.elsewhere:
                pytest.skip(f"right, but its time was recorded on another machine: {found}")
            if found.share >= least:
                return found
            if busy or _busy():
                pytest.skip(f"right, but this machine is busy ({busy or 'a moment later'}), which says nothing of its speed: {found}")
            if i + 1 == TRIES:
                pytest.fail(f"{found}; at least {least:g} is asked for", pytrace=False)
        raise AssertionError("unreachable")


def _busy() -> str:
    """How many cores other programs use, where it is worth a word; '' where it is not or the system does not say."""
    from ..measure import timing as busy

    cores = busy.used_by_others(LOOK_S)
    return "" if cores is None or cores <= busy.BUSY else f"other programs use {cores:.1f} cores"


@pytest.fixture(scope="session")
def tilewright() -> SpeedChecks:
    """Checks that a tuned kernel is still right and fast: `tilewright.holds("matmul", {"m": 512})`."""
    return SpeedChecks()


# recorded speed ---------------------------------------------------------------------------------------------
# A tuned kernel measured again: right on its whole output, and how its time compares with the recorded one.


@dataclass(frozen=True, slots=True)
class RecordedSpeed:
    """Fastest times in seconds per call, recorded and measured now. `elsewhere`: another machine recorded its time, which says
    nothing of this one."""

    kernel: str
    schedule: str
    recorded_s: float
    now_s: float
    elsewhere: bool = False

    @property
    def share(self) -> float:
        """Its speed now, as a share of the recorded one: 0.5 is half as fast."""
        return self.recorded_s / self.now_s

    def __str__(self) -> str:
        times = f"{self.now_s * 1e3:.4g} ms now, {self.recorded_s * 1e3:.4g} ms recorded"
        return f"{self.kernel} ({self.schedule}) has {self.share:.2f} of its recorded speed: {times}"


def remeasure(
    kernel: str | Kernel,
    shape: Mapping[str, Extent] | None = None,
    dtype: DTypeLike | None = None,
    device: str = "cpu",
    threads: int | None = None,
    cache: str | os.PathLike[str] | Cache | None = None,
    allow: Iterable[str] = (),
) -> RecordedSpeed:
    """Build, verify and time the schedule that the cache holds for exactly this kernel, as a search does: in a process of its own.
    A schedule that an earlier version of Tilewright recorded counts. The arguments are those of `best`.

    Raises CacheMiss where nothing was recorded, VerifyError where the schedule does not build, run or give right results."""
    from contextlib import nullcontext

    from .. import cache as caches
    from ..measure import Measurement
    from ..opts import short
    from ..plan import resolve
    from ..search.budget import Budget
    from ..search.kernel_task import KernelTask
    from ..search.task import TuneRequest

    task = KernelTask(kernel, shape, dtype, device, threads, None, allow)
    with nullcontext(cache) if isinstance(cache, caches.Cache) else caches.open(cache) as store:
        plan = resolve(task.kernel, task.device, task.threads, store, own_only=True, policy=task.key.policy)
    row, said = plan.row, " ".join((task.name, *(f"{k}={v}" for k, v in task.shape.items()), task.dtype))
    if row is None or row.t_min is None:
        raise CacheMiss(f"no speed of {said} is recorded for this processor and {task.threads} threads; tune it first (`tune run`)")
    with task.measurer(TuneRequest(Budget(None, 2)), builders=1) as measurer:
        (_, code), *_ = measurer.build([plan.opts])
        found = code if isinstance(code, Measurement) else measurer.measure([code])[0]
    if not found.ok or found.t_min is None:
        raise VerifyError(f"{said} ({short(plan.opts)}): {found.outcome.value}: {found.detail}")
    return RecordedSpeed(said, short(plan.opts), row.t_min, found.t_min, plan.standing == "unverified")
