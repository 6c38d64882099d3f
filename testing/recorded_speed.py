"""A tuned kernel measured again: right on its whole output, and how its time compares with the recorded one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.errors import CacheMiss, VerifyError

if TYPE_CHECKING:
    from ..cache import Cache
    from ..ir.buffer import Extent
    from ..ir.dtypes import DTypeLike
    from ..ir.kernel import Kernel


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
