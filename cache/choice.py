"""Which rows answer a look-up, the best first.

The unit is the schedule: all measurements of one option list under one key. The newest one speaks for it, so a
schedule that was found wrong, or that did not come back, is no answer until it has been right again, however fast it
once was. What somebody pinned by hand goes before all others. Then it counts who says so: what was checked twice and timed here goes before what was checked once, and
that before what was measured elsewhere. Only then the time decides, or what else the search made small."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping
from enum import StrEnum

from .keys import Key
from .objectives import FRONTS, TIME
from .recover import CacheWarning
from .rows import Row, current_schedule
from .valued import value_of

FAILED = frozenset({"wrong", "build", "timeout", "crash", "illegal"})


class Standing(StrEnum):
    """How much is known of a row's schedule on this machine."""

    verified = "verified"
    """Timed here, and a winner's second check was passed."""
    unconfirmed = "unconfirmed"
    """Timed here, its whole output checked once; there was no time for the second check."""
    unverified = "unverified"
    """Measured elsewhere: it came with a bundle, from a shared cache, or from another machine."""


_ORDER = {s: i for i, s in enumerate(Standing)}


def standing(row: Row, *, elsewhere: bool = False) -> Standing:
    """The standing of a usable row. `elsewhere`: it comes from a cache that others fill."""
    facts = row.facts
    machine = facts.get("machine")
    host = machine.get("host") if isinstance(machine, dict) else None
    if elsewhere or row.imported or (host is not None and host != os.uname().nodename):
        return Standing.unverified
    return Standing.verified if facts.get("confirmed") is True else Standing.unconfirmed


def answers(rows: Iterable[Row], *, elsewhere: bool = False) -> list[Row]:
    """One row for each schedule that may answer, the best first. `rows`: everything that was measured of these schedules under one key.
    Warns where what somebody pinned failed since, for something else answers then."""
    schedules: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: (r.when, r.digest)):
        schedules.setdefault(row.schedule, []).append(row)
    ended = _ended(schedules.values())
    found = []
    beaten: dict[str, list[tuple[int, str]]] = {}
    for measured in schedules.values():
        local = [r for r in measured if not r.imported]
        newest = (local or measured)[-1]
        if newest.outcome in FAILED:
            if not elsewhere and any(r.pinned for r in measured):
                _fell(newest)
            continue
        usable = [r for r in measured if r.usable and not (r.provisional and r.run_id in ended)]
        if not usable:
            continue
        best = max(usable, key=lambda r: (r.pinned and not elsewhere, -_ORDER[standing(r, elsewhere=elsewhere)], r.when, r.digest))
        latest = [r for r in (local or measured) if r.t_med is not None][-1]
        found.append((best, latest))
        for loser in best.facts.get("beat", ()):
            beaten.setdefault(current_schedule(loser), []).append((_ORDER[standing(best, elsewhere=elsewhere)], best.when))

    def order(pair: tuple[Row, Row]) -> tuple[bool, int, bool, float, float, float, str]:
        best, latest = pair
        assert latest.t_med is not None
        made_small = latest.t_med if best.objective in (TIME, *FRONTS) else value_of(latest, best.objective)
        rank = _ORDER[standing(best, elsewhere=elsewhere)]
        # side by side is more than two times of different moments; what a row from elsewhere says of ours does not count
        lost = any(by <= rank and when > best.when for by, when in beaten.get(best.schedule, ()))
        chosen = best.pinned and not elsewhere
        return not chosen, rank, lost, made_small, latest.t_med, latest.t_min or latest.t_med, best.digest

    return [best for best, _ in sorted(found, key=order)]


def _ended(schedules: Iterable[list[Row]]) -> set[str]:
    """Runs whose own answer still stands: what they said on the way to it counts no more. `schedules`: the rows of each, the newest last."""
    stand = [rows for rows in schedules if rows[-1].outcome not in FAILED]
    if not any(r.provisional for rows in stand for r in rows):
        return set()
    return {r.run_id for rows in stand for r in rows if r.usable and not r.provisional}


def distance(row: Row, key: Key, shape: Mapping[str, int] | None, flops: int | None) -> float:
    """How far away: octaves of threads and of every extent (of the amount of work, where shapes have no common names)."""
    away = abs(math.log2(row.threads / key.threads))
    theirs = row.shape_dict
    if shape and set(shape) == set(theirs):
        return away + sum(abs(math.log2(max(shape[k], 1) / max(theirs[k], 1))) for k in shape)
    return away + (abs(math.log2(flops / row.flops)) if flops and row.flops else 64.0)


def _fell(row: Row) -> None:
    """Say that a schedule which somebody chose by hand answers no more. `row`: its newest measurement."""
    shape = ",".join(f"{k}={v}" for k, v in row.shape_dict.items())
    warnings.warn(
        f"the schedule that was pinned for {' '.join(filter(None, (row.name, shape)))} failed since ({row.outcome}, {row.when[:19]}) and is "
        "not used; pin another, or let go of it with `tune unpin`",
        CacheWarning,
        stacklevel=4,
    )
