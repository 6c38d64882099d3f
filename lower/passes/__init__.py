"""Named passes over a whole Program, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...program.program import Program
from ...targets import Target
from . import barriers, distribution, flat_groups, loop_counters, neighbour_sums, packed_stores, scheduling


@dataclass(frozen=True, slots=True)
class Pass:
    """Changes a Program in place where it `applies` to the target."""

    name: str
    applies: Callable[[Target], bool]
    run: Callable[[Program, Target], None]


def _no_groups(target: Target) -> bool:
    return not target.groups


def _barriers(program: Program, target: Target) -> None:
    for phase in program.phases:
        barriers.place(phase, target.warp)


def _interleave(program: Program, target: Target) -> None:
    # the phases that pack constant inputs run once, and may take their time
    for phase in program.phases[program.once :]:
        scheduling.interleave(phase, target.registers, program.shared_params)


PASSES = (
    # what stores would interleave and loads take apart is computed as it lies in memory
    Pass("flat", _no_groups, lambda program, target: flat_groups.flatten(program, "avx512" in target.features)),
    # sums of products of 16-bit integers take two products an instruction
    Pass("neighbours", lambda target: target.adds_neighbours, lambda program, _: neighbour_sums.join(program)),
    # what all rows of a loop have in common is computed in a loop before it
    Pass("columns", _no_groups, distribution.carry_over),
    # four registers of 32-bit numbers are packed into one of bytes
    Pass("bytes", lambda target: target.packs_bytes, lambda program, target: packed_stores.join_bytes(program, target.vector_bytes // 4)),
    # two registers of float32 are narrowed into one of 16 bits
    Pass("narrowing", packed_stores.narrows_two, packed_stores.join_halves),
    # vectors that count with a loop are carried through it
    Pass("counters", _no_groups, lambda program, _: loop_counters.carry(program)),
    # threads of a group wait for one another where they would disturb each other
    Pass("barriers", lambda target: target.groups, _barriers),
    # orders instructions; compilers for GPUs do so by themselves
    Pass("interleave", _no_groups, _interleave),
)


def of(target: Target) -> tuple[Pass, ...]:
    """The passes that run for a target."""
    return tuple(p for p in PASSES if p.applies(target))
