"""Which rows of the cache answer a question about an objective, or about the memory that may be used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..cache.objectives import FRONTS, OBJECTIVES, TIME, fronts_with
from ..cache.ranking import Standing, scratch_of, undominated, value_of

if TYPE_CHECKING:
    from ..cache import Cache, Key, Row

_ORDER = {s: i for i, s in enumerate(Standing)}


def asked(cache: Cache, key: Key, scratch_limit: int | None = None) -> list[Row]:
    """The rows that may answer a look-up of `key`, the best first: those of searches for its very objective, and those of fronts that
    it is one of. Of a pair, the front. `scratch_limit`: only schedules that are known to need no more bytes, whatever they were
    searched for."""
    if scratch_limit is not None:
        keys = [replace(key, objective=o) for o in (*OBJECTIVES, *FRONTS)]
        rows = [r for k in keys for r in cache.answers(k) if (needs := scratch_of(r)) is not None and needs <= scratch_limit]
        first = cache.answers(key)[:1]
        # what duels found to be the best stays it, where it fits; times of different searches say less
        return list(dict.fromkeys([*(r for r in first if r in rows), *_ordered(cache, rows, key.objective)]))
    if key.objective == TIME:
        return cache.answers(key)  # the fastest of a front is among them: see `search.fronts`
    if key.objective in FRONTS:
        return front(cache, key)
    own = cache.answers(key)
    fronts = [r for f in fronts_with(key.objective) for r in front(cache, replace(key, objective=f))]
    return _ordered(cache, [*own, *fronts], key.objective)


def front(cache: Cache, key: Key) -> list[Row]:
    """The front of a key of two objectives: of the rows that are best known here, those that no other beats in both."""
    rows = cache.answers(key)
    ranks = {r.digest: _ORDER[cache.standing(r)] for r in rows}
    best = min(ranks.values(), default=0)
    return undominated((r for r in rows if ranks[r.digest] == best), key.objective)


def _ordered(cache: Cache, rows: list[Row], objective: str) -> list[Row]:
    name = objective.split(",")[0]
    kept = {r.digest: r for r in rows if value_of(r, name) < float("inf")}
    return sorted(kept.values(), key=lambda r: (_ORDER[cache.standing(r)], value_of(r, name), r.t_med or 0.0, r.digest))
