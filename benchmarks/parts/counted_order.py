"""Start schedules in the order of what their Programs take: `heuristics.starts` ranks guesses by their options, and here the likeliest are lowered
and counted. model_rank.py measures whether that pays; so far it does not, so nothing else uses it."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import heuristics
from tilewright.heuristics.counted import of_program
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import Opts, apply
from tilewright.program.program import statements
from tilewright.targets import Target

MOST = 8
"""Start schedules that are lowered and counted at most."""
ROOM = 4000
"""Instructions of the Programs that are counted, together: fewer start schedules where each is long (and differs less from the next)."""
ALIKE = 0.02
"""Counts that differ by less say nothing: the order stays as it was."""


def counted_starts(kernel: Kernel, target: Target, threads: int = 1) -> list[Opts]:
    """As `starts`, with the first ones in the order of their counted times. Takes a tenth of a second or more."""
    found = heuristics.starts(kernel, target, threads)
    if target.kind == "gpu" or target.groups:
        return found
    times: dict[Opts, float] = {}
    room = ROOM
    for opts in found[:MOST]:
        if room <= 0:
            break
        program = lower(apply(kernel, opts, target))
        times[opts] = of_program(program, target, threads)
        room -= sum(1 for p in program.phases for _ in statements(p.body))
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
