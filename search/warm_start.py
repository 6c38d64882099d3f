"""What the cache knows of a kernel before a search: the answer, how thorough the search behind it was, and what to start from.

`Effort` decides whether the answer will do, or the search goes on. A search that goes on begins with the start schedules, the best schedules of this
kernel and of its relatives (`starts_of`), and with all measurements that earlier searches made with today's code (`known`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ..cache import tool_version
from ..cache.objective_types import FRONTS, OBJECTIVES
from ..cache.ranking import Standing, energy_of, scratch_of, value_of
from ..ir.errors import OptError
from ..measure import Measurement, Outcome
from ..measure.outcome import EnergyUse
from ..opts import parse
from ..plan.identity import opts_of
from ..plan.resolve import front
from . import result as results
from .budget import Budget
from .objective import SearchObjective
from .strategy import seconds

if TYPE_CHECKING:
    from ..cache import Cache, Key, Row
    from ..ir.normal_form import Canonical
    from ..measure import Measurement
    from .result import Job, Result
    from .space import Schedule, Space


_ENOUGH = 0.95
"""A search that had this share of the seconds asked for had them: it ends a little before its budget."""


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """All searches of one key with one version of the tool together: `seconds` of search and `candidates` that were
    tried. `complete`: there was nothing left to try. `patience`: generations without a gain after which the last one
    gave up, 0 where it did not. `interrupted`: the last one was. `minute`: the share that another minute of the last one was expected to
    gain, 1 where nothing was."""

    seconds: float = 0.0
    candidates: int = 0
    complete: bool = False
    patience: int = 0
    interrupted: bool = False
    minute: float = 1.0

    @classmethod
    def of(cls, row: Row) -> SearchEffort | None:
        """What a row says of it; None where it says nothing (it was written before rows did, or by hand)."""
        said = row.facts.get("effort")
        if not isinstance(said, Mapping):
            return None
        made = {f.name: said.get(f.name, f.default) for f in fields(cls)}
        right = all(isinstance(v, (int, float)) and v >= 0 for v in made.values())
        return (
            cls(
                float(made["seconds"]),
                int(made["candidates"]),
                bool(made["complete"]),
                int(made["patience"]),
                bool(made["interrupted"]),
                float(made["minute"]),
            )
            if right
            else None
        )

    @property
    def json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "seconds": round(self.seconds, 3), "minute": round(self.minute, 5)}

    def then(self, more: SearchEffort) -> SearchEffort:
        """This one, and `more` after it."""
        return SearchEffort(
            self.seconds + more.seconds,
            self.candidates + more.candidates,
            self.complete or more.complete,
            max(self.patience, more.patience),
            more.interrupted,
            more.minute,
        )

    def covers(self, budget: Budget | None) -> bool:
        """Whether a search with `budget` would have come no further. A search ends at the first limit it meets, so
        one of them is enough. None: no more is asked than that no search was cut short."""
        if self.complete:
            return True
        if budget is None:
            return not self.interrupted
        if budget.patience is not None and self.patience >= budget.patience:
            return True
        if budget.plateau is not None and self.minute < budget.plateau:
            return True
        asked = [self.candidates >= budget.trials] if budget.trials is not None else []
        asked += [self.seconds >= _ENOUGH * budget.seconds] if budget.seconds is not None else []
        return any(asked)

    def __str__(self) -> str:
        end = ", all there is" if self.complete else ", interrupted" if self.interrupted else ""
        return f"{self.candidates} candidate{'s' * (self.candidates != 1)} in {self.seconds:.3g} s of search{end}"


def next_minute(row: Row) -> float | None:
    """The share that another minute of search is expected to gain an answer: 1 where too little is known, None where nothing is left to try,
    somebody chose it by hand, or it says nothing of its search."""
    effort = SearchEffort.of(row)
    return None if effort is None or effort.complete or row.pinned else effort.minute


NOTES = {
    Standing.unconfirmed: "checked once: a run of `tune run` checks it again",
    Standing.unverified: "elsewhere, so unverified here: a run of `tune run` checks and times it",
}


def stored(cache: Cache, key: Key, canonical: Canonical, space: Space, top: int = 3) -> list[Schedule]:
    """The answers of earlier runs, then the fastest schedules measured for this key, whether or not that run was
    finished: where a killed or repeated search goes on."""
    rows = cache.rows(kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy, outcome="ok")
    return _legal(sorted(rows, key=lambda r: (not r.verified, r.t_med or 0.0)), canonical, space, top)


def related(cache: Cache, key: Key, canonical: Canonical, space: Space, loose: Mapping[str, str], job: Job, top: int = 2) -> list[Schedule]:
    """Winners of the nearest other shapes and epilogues, then what ships for other processors."""
    rows = cache.nearest(key, loose.get("extents", ""), loose.get("epilogue", ""), shape=job.shape, flops=job.flops or None)
    return _legal([*rows, *cache.siblings(key)], canonical, space, top)


def _legal(rows: Iterable[Row], canonical: Canonical, space: Space, top: int) -> list[Schedule]:
    """Their options in this kernel's names, those that are legal here, each schedule once."""
    found: dict[str, Schedule] = {}
    for row in rows:
        if len(found) == top:
            break
        try:
            opts = opts_of(row, canonical)
        except OptError:
            continue  # written by another version, or about axes this kernel lacks: of no use as a start
        state = space.state(opts)
        if state is not None:
            found.setdefault(state.hash, opts)
    return list(found.values())


def answer(job: Job, row: Row, opts: Schedule, seconds: float, standing: Standing | None = None, **more: Any) -> Result:
    """A cached row as a result; `opts` are its options in the kernel's names, `standing` what is known of it here, and `more` are fields of
    the result."""
    facts = row.facts
    effort = SearchEffort.of(row)
    note = "" if standing is None else NOTES.get(standing, "")
    said = [f"found in the cache (measured {row.when}", f"after {effort}" if effort else "", note]
    start_opts = facts.get("start_opts")
    gain = facts.get("gain")
    return results.make(
        job,
        opts=opts,
        t_min=row.t_min,
        t_med=row.t_med,
        n=row.n,
        start_opts=None if start_opts is None else parse(start_opts),
        start_s=row.start_s,
        gain=gain if isinstance(gain, float) else None,
        verified=row.verified,
        confirmed=bool(facts.get("confirmed", False)),
        standing="" if standing is None else str(standing),
        pinned=row.pinned,
        origin="cached",
        seconds=seconds,
        source_sha=row.source_sha or None,
        energy=dict(energy_of(row)) or None,
        scratch=scratch_of(row),
        minute=next_minute(row),
        value=told if (told := value_of(row, row.objective)) < math.inf and row.objective not in (*OBJECTIVES, *FRONTS) else None,
        ties=tuple(facts.get("ties") or ()),
        places=tuple(facts.get("places") or ()),
        start_value=value if isinstance(value := facts.get("start_value"), (int, float)) else None,
        message=", ".join(filter(None, said)) + ")",
        **more,
    )


def front_of(key: Key, cache: Cache) -> tuple[dict[str, Any], ...]:
    """The members of the front of a key, as a result holds them; none where it has one objective."""
    if key.objective not in FRONTS:
        return ()
    return tuple(
        {
            "t_min": r.t_min,
            "t_med": r.t_med,
            "joules": energy_of(r).get("joules"),
            "scratch": scratch_of(r),
            "opts": json.loads(r.opts_display),
            "confirmed": bool(r.facts.get("confirmed")),
        }
        for r in front(cache, key)
    )


NEWEST = 2000
"""Rows of a key that are looked at."""
TOLD = 64
"""The fastest of them that a strategy hears of."""
NEAR = 1.15
"""What is within this ratio of the fastest is measured again: times of another day do not decide between such."""


@dataclass(frozen=True)
class EarlierMeasurements:
    """Measurements of earlier searches, by schedule."""

    by_opts: Mapping[Schedule, Measurement]
    front: bool = False
    """Of two objectives, what is slow may still be the best in the other."""

    def settled(self, opts: Schedule) -> Measurement | None:
        """The measurement of a schedule that need not be made again: it failed, or was clearly slower than the fastest."""
        m = self.by_opts.get(opts)
        return m if m is not None and (m.t_min is None or (not self.front and seconds(m) > NEAR * self.fastest)) else None

    @property
    def fastest(self) -> float:
        """Seconds, infinity where nothing was right."""
        return min((seconds(m) for m in self.by_opts.values() if m.t_min is not None), default=math.inf)

    def today(self, fresh: Mapping[Schedule, Measurement]) -> list[Measurement]:
        """The fastest ones as they would be timed now: scaled by what those among `fresh`, measured again in this run, take now."""
        then = [(m.t_min, self.by_opts[o].t_min) for o, m in fresh.items() if o in self.by_opts]
        ratios = sorted(now / before for now, before in then if now and before)
        scale = ratios[len(ratios) // 2] if ratios else 1.0
        right = sorted((m for o, m in self.by_opts.items() if m.t_min is not None and o not in fresh), key=seconds)
        return [
            replace(
                m,
                t_min=scale * m.t_min,
                t_med=None if m.t_med is None else scale * m.t_med,
                score=None if m.score is None else scale * m.score,
            )
            for m in right[:TOLD]
            if m.t_min is not None
        ]


NOTHING = EarlierMeasurements({})


def earlier_measurements(cache: Cache, key: Key, canonical: Canonical) -> EarlierMeasurements:
    """What the cache holds of `key`, measured here, with the code of today."""
    rows = cache.rows(
        kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy, tool_version=tool_version()
    )
    found = {}
    aim = SearchObjective(key.objective)
    for row in rows[-NEWEST:]:
        if not row.imported and (m := _measurement(row, canonical, aim)) is not None and (m.t_min is None or aim.able(m)):
            found[m.opts] = aim.scored(m)  # oldest first: the newest stays
    return EarlierMeasurements(found, aim.front)


def _measurement(row: Row, canonical: Canonical, aim: SearchObjective) -> Measurement | None:
    try:
        opts = opts_of(row, canonical)
    except OptError:
        return None
    timed = row.outcome in ("ok", "slow")
    found = Measurement(
        opts, Outcome(row.outcome), row.t_min if timed else None, row.t_med if timed else None, row.n, sha=row.source_sha or None
    )
    used = EnergyUse.of(energy_of(row)) if aim.energy and value_of(row, aim.energy) < math.inf else None
    return replace(found, scratch=scratch_of(row), energy=used)
