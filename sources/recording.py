"""Sources in the cache: rows that hold the winner's text, and rows as results."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..search.remembered.effort import Effort
from ..search.remembered.record import CacheRecorder
from ..search.result import Result
from . import text
from .configurations import texts
from .resolving import SourceJob
from .spec import SourceSpec

if TYPE_CHECKING:
    from ..cache import Cache, Row
    from ..measure import Measurement


class SourceRecorder(CacheRecorder):
    """Rows of a source: how long each build took, and with the winner the source itself, so that it can be shown."""

    spec: SourceSpec

    def _row(self, m: Measurement, strategy: str, verified: bool, seed_s: float | None, more: Mapping[str, Any]) -> Any:
        about: dict[str, Any] = {"build_s": round(m.build_s, 6)} if m.build_s else {}
        if verified:
            given = texts(m.opts)
            about["source"] = {
                "file": Path(self.spec.file).name,
                "language": self.spec.language,
                "flags": list(text.flags_of(self.spec, given)),
                "text": text.plain(self.spec, given)[: 1 << 16],
            }
        return super()._row(m, strategy, verified, seed_s, {**about, **more})


def answered(row: Row, job: SourceJob, seconds: float) -> Result:
    """A cached row as a result."""
    from ..opts import parse
    from ..search import result as results

    facts, gain, effort = row.facts, row.facts.get("gain"), Effort.of(row)
    said = f"found in the cache (measured {row.when}{f', after {effort}' if effort else ''})"
    return results.make(
        job,
        opts=parse(row.opts),
        t_min=row.t_min,
        t_med=row.t_med,
        n=row.n,
        seed_opts=parse(facts["seed_opts"]) if facts.get("seed_opts") else None,
        seed_s=row.seed_s,
        gain=gain if isinstance(gain, float) else None,
        verified=row.verified,
        confirmed=bool(facts.get("confirmed")),
        origin="cached",
        seconds=seconds,
        source_sha=row.source_sha or None,
        message=said,
    )


def opened(cache: Any) -> AbstractContextManager[Cache]:
    """The cache that is named, or one that was given open, which stays open."""
    from contextlib import nullcontext

    from .. import cache as caches

    return nullcontext(cache) if isinstance(cache, caches.Cache) else caches.open(cache)
