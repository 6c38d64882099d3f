"""Measurements on their way into the cache: buffered, written in short transactions by the main process only.

Which rows may answer a look-up is settled here. A candidate's row is stored as it comes, but unverified in the cache's sense: it was checked in full
against one set of inputs, and one unpaired time is not enough to call it better than the seed. The winner's row, written after the duel and the second
check, is verified. So a killed run leaves measurements to start from, and never an answer that is worse than no tuning.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..cache.strict import canon
from ..ir.errors import OptError

if TYPE_CHECKING:
    from ..cache import Cache, Key, Row
    from ..ir.canonical import Canonical
    from ..measure import Measurement
    from .result import Job
    from .space import Schedule

EVERY_S = 0.5


class Recorder(Protocol):
    """Where measurements go."""

    def add(self, measurement: Measurement, strategy: str) -> None:
        """One candidate of the search."""

    def winner(self, measurement: Measurement, seed_opts: Schedule | None, seed_s: float | None, final: Mapping[str, Any]) -> None:
        """The answer."""

    def flush(self) -> None:
        """Write what is buffered now."""


class NoRecord:
    """Keeps nothing (replays, tests)."""

    def add(self, measurement: Measurement, strategy: str) -> None:
        """Nothing."""

    def winner(self, measurement: Measurement, seed_opts: Schedule | None, seed_s: float | None, final: Mapping[str, Any]) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""


@dataclass
class CacheRecorder:
    """Rows of one run for one key. `effects` gives the effects of a schedule; `before` is the answer the cache had."""

    cache: Cache
    key: Key
    canonical: Canonical
    loose: Mapping[str, str]
    job: Job
    effects: Callable[[Schedule], frozenset[str]]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    before: Row | None = None
    clock: Callable[[], float] = time.monotonic
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])

    def __post_init__(self) -> None:
        self._rows: list[Any] = []
        self._written = self.clock()
        self._before_now: float | None = None

    def add(self, measurement: Measurement, strategy: str) -> None:
        if self.before is not None and measurement.outcome == "ok" and self._canonical(measurement.opts) == self.before.opts:
            self._before_now = measurement.t_med
        try:
            self._rows.append(self._row(measurement, strategy, verified=False, seed_s=None, more={}))
        except OptError:
            # only an illegal schedule can name what the kernel does not have; it has no canonical form to be stored in
            if measurement.outcome != "illegal":
                raise
        if self.clock() - self._written >= EVERY_S:
            self.flush()

    def winner(self, measurement: Measurement, seed_opts: Schedule | None, seed_s: float | None, final: Mapping[str, Any]) -> None:
        measurement, as_timed = self._comparable(measurement)
        seed_json = None if seed_opts is None else [o.json for o in seed_opts]
        self._rows.append(self._row(measurement, self.job.strategy, verified=True, seed_s=seed_s, more={"seed_opts": seed_json, **as_timed, **final}))
        self.flush()

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            try:
                self.cache.record(rows)
            except BaseException:
                # an interrupt inside the transaction rolls it back: keep the rows for the last flush
                self._rows = rows + self._rows
                raise
        self._written = self.clock()

    def _comparable(self, m: Measurement) -> tuple[Measurement, dict[str, float]]:
        """The winner's time as it would have been when the cache's answer was timed.

        The cache returns the fastest row of a key, but the machine may be slower today. Where this run timed the old answer too, and found the winner
        faster than it side by side, the winner's times are scaled by (old answer then / old answer now), and kept as they were in the provenance."""
        before, now = self.before, self._before_now
        if before is None or before.t_med is None or now is None or m.t_med is None or m.t_min is None:
            return m, {}
        scale = before.t_med / now
        if m.t_med >= now or scale >= 1 or self._canonical(m.opts) == before.opts:
            return m, {}
        return dataclasses.replace(m, t_min=m.t_min * scale, t_med=m.t_med * scale), {"t_min_as_timed": m.t_min, "t_med_as_timed": m.t_med}

    def _canonical(self, opts: Schedule) -> str:
        return canon(self.canonical.to_canonical([o.json for o in opts]))

    def _row(self, m: Measurement, strategy: str, verified: bool, seed_s: float | None, more: Mapping[str, Any]) -> Any:
        from ..cache import Row, tool_version
        from ..kernels import short_name

        ok = m.outcome == "ok"
        display = [o.json for o in m.opts]
        details = {"detail": m.detail} if m.detail else {}
        return Row(
            kernel=self.key.kernel,
            target=self.key.target,
            threads=self.key.threads,
            compiler=self.key.compiler,
            policy=self.key.policy,
            loose_extents=self.loose.get("extents", ""),
            loose_epilogue=self.loose.get("epilogue", ""),
            name=short_name(self.job.kernel),
            shape=canon(dict(self.job.shape)),
            dtype=self.job.dtype,
            device=self.job.device,
            opts=self._canonical(m.opts),
            opts_display=canon(display),
            outcome=str(m.outcome.value),
            t_min=m.t_min,
            t_med=m.t_med if m.t_med is not None else m.t_min if ok else None,
            n=m.n,
            seed_s=seed_s,
            flops=self.job.flops,
            bytes=self.job.bytes,
            roofline_s=self.job.roofline_s,
            strategy=strategy,
            effects="+".join(sorted(self.effects(m.opts))) if ok else "",
            verified=verified and ok,
            source_sha=m.sha or "",
            tool_version=tool_version(),
            provenance=canon({**self.provenance, **details, **more}),
            run_id=self.run_id,
        )
