"""Tuning one kernel on several devices of a fleet: `tune(..., measuring=…)` put together."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ...cache import Cache
from ...cache import open as opened
from ...ir.errors import FleetError
from ...log import logger
from ...search import tune
from ...search.task import deadline_s
from ..seam import FleetEngine, FleetSlot
from .crew import PATIENCE_S, Crew
from .described import DescribedDevice
from .fleet_measurer import FleetMeasurer, described_device
from .subject import subject

if TYPE_CHECKING:
    from ...search.budget import Budget
    from ...search.candidate_measurer import CandidateMeasurer
    from ...search.result import Result
    from ...search.task import TuningTask

log = logger("fleet")

ROWS_S = 0.25
"""Seconds that rows wait before they are written: what is lost where this process is killed."""


class FleetTuning:
    """One run of `tune` on the slots of `engine` that are for the device `spec` (what `devices.get` takes there), at most `wanted` of them
    (None: all that are alike). `said`: what a user should know in the end. Raises FleetError where there is no such slot."""

    def __init__(self, engine: FleetEngine, spec: str, wanted: int | None = None) -> None:
        self._engine = engine
        first = chosen(engine.slots(), spec)
        self._crew = Crew(engine, first[0].name, wanted or len(first))
        self.device: DescribedDevice = described_device(engine, self._crew.start()[0])
        self.measurer: FleetMeasurer | None = None

    def tune(self, kernel: str, **asked: Any) -> Result:
        """As `search.tune`, with the same arguments but `device` and `measuring`; rows go into the cache of this machine. Raises what it
        does, and FleetError."""
        threads = asked.pop("threads", None) or self.device.threads
        cache = asked.pop("cache", None)
        told = {name: asked.get(name) for name in ("shape", "dtype", "vars", "allow")} | {"kernel": kernel}
        with nullcontext(cache) if isinstance(cache, Cache) else opened(cache) as store:
            store.rows_wait_s = min(store.rows_wait_s, ROWS_S)
            return tune(kernel, device=self.device, threads=threads, measuring=self._measuring(told), cache=store, **asked)

    def _measuring(self, told: Mapping[str, Any]) -> Any:
        def made(task: TuningTask, budget: Budget, seed: int, hashed: bool) -> AbstractContextManager[CandidateMeasurer]:
            base = {
                "kernel": subject(task, told),
                "threads": task.threads,
                "seed": seed,
                "deadline_s": deadline_s(budget),
                "hashed": hashed,
            }
            # a fleet that is gone for good must not keep a run of seconds for minutes
            self._crew.patience_s = PATIENCE_S if budget.seconds is None else min(PATIENCE_S, max(15.0, budget.seconds))
            self.measurer = FleetMeasurer(self._engine, self._crew, base, self.device.facts, task.name)
            return self.measurer

        return made

    @property
    def said(self) -> list[str]:
        """What a user should know of the devices, a line each."""
        out = [] if self.measurer is None else [f"timed on {self.measurer.width} device{'s' * (self.measurer.width > 1)} of the fleet"]
        if self.measurer is not None and self.measurer.lost:
            lost = self.measurer.lost
            out.append(f"{lost} worker{'s were' if lost > 1 else ' was'} lost over candidates, and replaced")
        return out + list(self._crew.out.values())


def chosen(slots: list[FleetSlot], spec: str) -> list[FleetSlot]:
    """The slots for a device: of several kinds, the kind that there is most of. Raises FleetError, which says what there is."""
    mine = [s for s in slots if s.device is not None and spec in (s.device.spec, s.device.target, s.name)]
    able = [s for s in mine if not s.refused]
    if able:
        names = [s.name for s in able]
        most = max(names, key=lambda name: (names.count(name), name))
        return [s for s in able if s.name == most]
    if mine:
        raise FleetError("; ".join(dict.fromkeys(f"{s.host or s.address}: {s.refused}" for s in mine)))
    there = sorted({s.device.spec for s in slots if s.device is not None})
    raise FleetError(
        f"the fleet has no device {spec!r} now; {'it has ' + ', '.join(there) if there else 'start one with tune fleet worker URL'}"
    )
