"""Measurements on their way into the cache: buffered, written in short transactions by the main process only.

Which rows may answer a look-up is settled here. A candidate's row is stored as it comes, but unverified in the
cache's sense: it was checked in full against one set of inputs, and one unpaired time is not enough to call it better
than the start schedule. The winner's row, written after the duel and the second check, is verified; its provenance says which
checks were made, how thorough the search was, and which earlier answers it was preferred to. While the search goes on,
the start schedule and the best so far are recorded so too, as provisional (`decision.checkpoints`): a killed run leaves
an answer, and never one that is worse than no tuning.

A cache that cannot be written (a full disk, a lock, a server that went away) does not end a search: rows wait in
memory and are tried again, and what is left at the end goes into a bundle, which the next run that can write takes
in. Of a server that went away, they go into bundles at once: it may be long until it is back, and the search may be
killed before."""

from __future__ import annotations

import contextlib
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..cache import Row, tool_version
from ..cache.file_check import CacheWarning
from ..cache.objective_types import TIME
from ..cache.ranking import FAILED
from ..cache.rows import OBJECTIVE, now
from ..cache.server.server_errors import Unreachable
from ..files.strict import canon
from ..ir.errors import CacheError, OptError
from ..opts.syntax import SYNTAX
from .interrupts import OutOfTime
from .objective import SearchObjective

if TYPE_CHECKING:
    from ..cache import Cache, Key
    from ..ir.normal_form import Canonical
    from ..measure import Measurement
    from .result import Job
    from .space import Schedule

PATIENCE_S = 0.25
"""How long a write in the middle of a search waits for another writer."""
LAST_PATIENCE_S = 10.0
"""The same at the end."""
RETRY_S = 5.0
"""After a failed write, rows wait this long before the next."""
SHARE = 0.02
"""Of the search's time, at most, is spent on finding out that a server is still away."""


class Recorder(Protocol):
    """Where measurements go."""

    @property
    def earlier(self) -> Collection[str]:
        """The schedules, in canonical text, that answered before."""

    def add(self, measurement: Measurement, strategy: str) -> None:
        """One candidate of the search."""

    def winner(self, measurement: Measurement, start_opts: Schedule | None, start_s: float | None, final: Mapping[str, Any]) -> None:
        """The answer."""

    def flush(self) -> None:
        """Write what is buffered now, unless that failed a moment ago."""

    def close(self) -> str:
        """Write what is buffered, for the last time; what there is to say about it, or ''."""


class NoRecord:
    """Keeps nothing (simulated searches, tests)."""

    earlier: Collection[str] = ()

    def add(self, measurement: Measurement, strategy: str) -> None:
        """Nothing."""

    def winner(self, measurement: Measurement, start_opts: Schedule | None, start_s: float | None, final: Mapping[str, Any]) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> str:
        """Nothing."""
        return ""


@dataclass
class CacheRecorder:
    """Rows of one run for one key, whose objective its provenance says. `effects` gives the effects of a schedule; `earlier` are the schedules, in
    canonical text, that answered before."""

    cache: Cache
    key: Key
    canonical: Canonical
    loose: Mapping[str, str]
    job: Job
    effects: Callable[[Schedule], frozenset[str]]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    earlier: Collection[str] = ()
    after: str = ""
    """The moment of the newest of these; rows are later, whatever the clock says."""
    clock: Callable[[], float] = time.monotonic
    last_s: float = LAST_PATIENCE_S
    """Seconds that the last write may wait for another writer; what is not written goes into a bundle."""
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])

    def __post_init__(self) -> None:
        self._rows: list[Any] = []
        self._written = self.clock()
        self._met: set[str] = set()
        self._trouble = ""
        self._next = 0.0
        self._kept: list[Path] = []
        self._safe = 0
        """So many of the rows, from the first, are in the bundles `_kept` too."""

    def add(self, measurement: Measurement, strategy: str) -> None:
        try:
            row = self._row(measurement, strategy, verified=False, start_s=None, more={})
        except OptError:
            # only an illegal schedule can name what the kernel does not have; it has no canonical form to be stored in
            if measurement.outcome != "illegal":
                raise
        else:
            self._rows.append(row)
            if row.objective != TIME and row.outcome in FAILED:
                # whatever was being made small: who asks for the fastest must hear of it too
                self._rows.append(self._row(measurement, strategy, verified=False, start_s=None, more={OBJECTIVE: TIME}))
            if row.outcome == "ok" and row.opts in self.earlier:
                self._met.add(row.opts)
        if self.clock() - self._written >= self.cache.rows_wait_s and self.clock() >= self._next:
            self.flush()

    def winner(self, measurement: Measurement, start_opts: Schedule | None, start_s: float | None, final: Mapping[str, Any]) -> None:
        # times of different days do not compare: the cache is told which of its answers this one was preferred to
        beat = sorted(self._met - {self._canonical(measurement.opts)})
        more = {"start_opts": None if start_opts is None else [o.json for o in start_opts], **({"beat": beat} if beat else {}), **final}
        self._rows.append(self._row(measurement, self.job.strategy, verified=True, start_s=start_s, more=more))
        self._write(PATIENCE_S)

    def flush(self) -> None:
        if self.clock() >= self._next:
            self._write(PATIENCE_S)

    def close(self) -> str:
        self._write(self.last_s)
        if not self._rows:
            return ""
        rows = len(self._rows)
        try:
            self._keep()
            where = ", ".join(map(str, self._kept))
            return f"the cache could not be written, so {rows} measurements are in {where}; {self.cache.waiting.advice(self._kept)}"
        except CacheError as e:
            return f"{rows - self._safe} measurements are lost: {self._trouble}; {e}"
        finally:
            self._rows, self._safe = [], 0

    def _keep(self) -> None:
        """Put what is in no bundle yet into one. Raises CacheError."""
        fresh = self._rows[self._safe :]
        if fresh:
            part = f"{self.run_id}-{len(self._kept)}" if self._kept else self.run_id
            self._kept.append(self.cache.spill(fresh, part))
            self._safe = len(self._rows)

    def _write(self, patience_s: float) -> None:
        rows, self._rows = self._rows, []
        begun = self.clock()
        try:
            if rows:
                self.cache.record(rows, patience_s=patience_s)
            self._trouble, self._safe = "", 0
            while self._kept:
                self._kept.pop().unlink(missing_ok=True)
        except (CacheError, OutOfTime) as e:  # (the budget is over while a writer or a server is waited for: the search ends by itself)
            self._rows = rows + self._rows
            self._next = self.clock() + max(RETRY_S, (self.clock() - begun) / SHARE)
            away = isinstance(e, Unreachable)
            if not self._trouble:
                warnings.warn(
                    f"{e}. The search goes on; its measurements wait in {'a bundle' if away else 'memory'}", CacheWarning, stacklevel=3
                )
            self._trouble = str(e)
            if away:
                with contextlib.suppress(CacheError):  # they stay in memory; `close` says so
                    self._keep()
        except BaseException:
            # an interrupt inside the transaction rolls it back: keep the rows for the last flush
            self._rows = rows + self._rows
            raise
        self._written = self.clock()

    def _canonical(self, opts: Schedule) -> str:
        return canon(self.canonical.to_canonical([o.json for o in opts], SYNTAX))

    def _row(self, m: Measurement, strategy: str, verified: bool, start_s: float | None, more: Mapping[str, Any]) -> Any:
        from ..named_kernels import short_name

        ok = m.outcome == "ok"
        display = [o.json for o in m.opts]
        details: dict[str, Any] = {"detail": m.detail} if m.detail else {}
        details |= {"clocks": dict(m.clocks)} if m.clocks else {}
        details |= {"energy": m.energy.json} if m.energy is not None else {}
        details |= {"scratch": m.scratch} if m.scratch is not None else {}
        aim = SearchObjective(self.key.objective)
        details |= {"value": aim.value(m, aim.first)} if ok and aim.own is not None and aim.able(m) else {}
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
            start_s=start_s,
            flops=self.job.flops,
            bytes=self.job.bytes,
            roofline_s=self.job.roofline_s,
            strategy=strategy,
            effects="+".join(sorted(self.effects(m.opts))) if ok else "",
            verified=verified and ok,
            source_sha=m.sha or "",
            when=now(self.after),
            tool_version=tool_version(),
            provenance=canon({**self.provenance, **details, **more}),
            run_id=self.run_id,
        )
