"""Seeds in the order of what their Programs take: `gathered.seeds` ranks guesses by their options, and here the likeliest are lowered
and counted. benchmarks/model_rank.py measures whether that pays; so far it does not, so `best()` and searches use `seeds`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...opts.apply_options import apply
from ...opts.opt import Opts
from ...program.program import statements
from ...targets import Target
from ..counted import of_program
from .effects import EXACT
from .gathered import seeds

MOST = 8
"""Seeds that are lowered and counted at most."""
ROOM = 4000
"""Instructions of the Programs that are counted, together: fewer seeds where each is long (and differs less from the next)."""
ALIKE = 0.02
"""Counts that differ by less say nothing: the order stays as it was."""


def ranked_seeds(kernel: Kernel, target: Target, threads: int = 1, allowed: Set[str] = EXACT) -> list[Opts]:
    """As `seeds`, with the first ones in the order of their counted times. Takes a tenth of a second or more."""
    found = seeds(kernel, target, threads, allowed)
    if target.kind == "gpu" or target.groups:
        return found
    times: dict[Opts, float] = {}
    room = ROOM
    for opts in found[:MOST]:
        if room <= 0:
            break
        times[opts], length = _counted(kernel, target, threads, opts)
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


def _counted(kernel: Kernel, target: Target, threads: int, opts: Opts) -> tuple[float, int]:
    """(seconds by the counted model, instructions); what cannot be lowered takes for ever."""
    from ...lower import lower

    try:
        program = lower(apply(kernel, opts, target))
    except OptError:
        return math.inf, 0
    return of_program(program, target, threads), sum(1 for p in program.phases for _ in statements(p.body))
