"""Named passes over a whole Program, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...program.program import Program
from ...targets import Target
from . import barriers, bytes_together, columns, counters, flat, interleave, narrowing, neighbours, shorten


@dataclass(frozen=True, slots=True)
class Pass:
    """Changes a Program in place where it `applies` to the target. `run` gives False where it did not touch the Program, which then
    needs no look at what it made."""

    name: str
    applies: Callable[[Target], bool]
    run: Callable[[Program, Target], bool | None]


def _barriers(program: Program, target: Target) -> None:
    for phase in program.phases:
        barriers.place(phase, target.warp)


def _interleave(program: Program, target: Target) -> None:
    # what packs constant inputs runs once, and may take its time
    for phase in program.phases[program.once :]:
        interleave.interleave(phase, target.registers, program.shared_params)


def _shorten(program: Program, target: Target) -> bool:
    found = [shorten.shorten(phase, target.registers, program.shared_params) for phase in program.phases[program.once :]]
    return any(found)


PASSES = (
    Pass("flat", lambda target: not target.groups, lambda program, target: flat.flatten(program, "avx512" in target.features)),
    Pass("neighbours", lambda target: target.adds_neighbours, lambda program, _: neighbours.join(program)),
    Pass("columns", lambda target: not target.groups, columns.carry_over),
    Pass("bytes", lambda target: target.packs_bytes, lambda program, target: bytes_together.join(program, target.vector_bytes // 4)),
    Pass("narrowing", narrowing.applies, narrowing.join),
    Pass("counters", lambda target: not target.groups, lambda program, _: counters.carry(program)),
    Pass("barriers", lambda target: target.groups, _barriers),
    Pass("interleave", lambda target: not target.groups, _interleave),  # compilers for GPUs schedule by themselves
    Pass("shorten", lambda target: not target.groups, _shorten),
)


def of(target: Target) -> tuple[Pass, ...]:
    """The passes that run for a target."""
    return tuple(p for p in PASSES if p.applies(target))
