"""Which rows answer a look-up, the best first; and what rows are worth for an objective: their seconds, joules or bytes.

The unit is the schedule: all measurements of one option list under one key. The newest one speaks for it. So a schedule that was found
wrong, or that did not come back, is no answer until it has been right again, however fast it once was. A pinned schedule goes before
all others. Then one that was checked twice and timed here goes before one that was checked once, and that before one that was measured
elsewhere. Only then the time decides, or what else the search made small."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from .file_check import CacheWarning
from .keys import Key
from .objective_types import ENERGIES, FRONTS, OBJECTIVES, TIME
from .rows import Row


def energy_of(row: Row) -> Mapping[str, Any]:
    """What a row says of energy: the fields of `measure.outcome.EnergyUse`; empty where it was not measured."""
    found = row.facts.get("energy")
    return found if isinstance(found, Mapping) and isinstance(found.get("joules"), float) else {}


def scratch_of(row: Row) -> int | None:
    """Bytes beside the arguments; None where the row does not say."""
    found = row.facts.get("scratch")
    return found if isinstance(found, int) else None


def value_of(row: Row, name: str) -> float:
    """A row's value of one objective: seconds (the least), joules, bytes, or a figure of somebody's own; infinity where it was not measured."""
    if name not in OBJECTIVES:
        told = row.facts.get("value") if row.objective == name else None
        return float(told) if isinstance(told, (int, float)) else float("inf")
    if name == "scratch":
        found = scratch_of(row)
        return float("inf") if found is None else float(found)
    if name in ENERGIES:
        about = energy_of(row)
        # with and without what the machine takes at rest are two figures
        known = about and (about.get("idle_w") is None) == (name == "energy")
        return float(about["joules"]) if known else float("inf")
    least = row.t_min if row.t_min is not None else row.t_med
    return float("inf") if least is None else least


def undominated(rows: Iterable[Row], objective: str) -> list[Row]:
    """The front of two: rows to which no other is equal or better in both, the smallest in the first objective first."""
    a, b = objective.split(",")
    found: list[Row] = []
    for row in sorted(rows, key=lambda r: (value_of(r, a), value_of(r, b), r.digest)):
        if value_of(row, b) < min((value_of(f, b) for f in found), default=float("inf")):
            found.append(row)
    return found


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
        schedules.setdefault(row.opts, []).append(row)
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
            beaten.setdefault(loser, []).append((_ORDER[standing(best, elsewhere=elsewhere)], best.when))

    def order(pair: tuple[Row, Row]) -> tuple[bool, int, bool, float, float, float, str]:
        best, latest = pair
        assert latest.t_med is not None
        made_small = latest.t_med if best.objective in (TIME, *FRONTS) else value_of(latest, best.objective)
        rank = _ORDER[standing(best, elsewhere=elsewhere)]
        # side by side is more than two times of different moments; what a row from elsewhere says of ours does not count
        lost = any(by <= rank and when > best.when for by, when in beaten.get(best.opts, ()))
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
