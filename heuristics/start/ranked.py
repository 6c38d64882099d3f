"""Start schedules in the order of what their Programs take: `gathered.starts` ranks guesses by their options, and here the likeliest are lowered
and counted. benchmarks/model_rank.py measures whether that pays; so far it does not, so `best()` and searches use `starts`."""

from __future__ import annotations

from collections.abc import Mapping, Set

from ...ir.kernel import Kernel
from ...opts.opt import Opts
from ...targets import Target
from .effects import EXACT
from .gathered import starts
from .legal import Trials
from .program_time import count

MOST = 8
"""Start schedules that are lowered and counted at most."""
ROOM = 4000
"""Instructions of the Programs that are counted, together: fewer start schedules where each is long (and differs less from the next)."""
ALIKE = 0.02
"""Counts that differ by less say nothing: the order stays as it was."""


def ranked_starts(kernel: Kernel, target: Target, threads: int = 1, allowed: Set[str] = EXACT) -> list[Opts]:
    """As `starts`, with the first ones in the order of their counted times. Takes a tenth of a second or more."""
    found = starts(kernel, target, threads, allowed)
    if target.kind == "gpu" or target.groups:
        return found
    times: dict[Opts, float] = {}
    trials = Trials(kernel, target)
    room = ROOM
    for opts in found[:MOST]:
        if room <= 0:
            break
        times[opts], length = count(trials, threads, opts)
        room -= length
    return [*in_order(times), *found[len(times) :]]


def in_order(times: Mapping[Opts, float]) -> list[Opts]:
    """Schedules, the quickest first. What differs by less than `ALIKE` keeps its order."""
    out: list[Opts] = []
    for opts, seconds in times.items():
        place = len(out)
        while place and seconds < times[out[place - 1]] * (1.0 - ALIKE):
            place -= 1
        out.insert(place, opts)
    return out
