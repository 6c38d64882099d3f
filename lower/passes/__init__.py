"""Passes over an emitted Program, by name and in order."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from ...log import logger
from ...program.program import Phase, Program
from ...targets import Target

Observer = Callable[[str, Program], None]
"""Is called with ("emit", the Program) and then with (a pass's name, the Program) after each pass. The Program goes on changing."""
log = logger("lower")


def run_passes(program: Program, target: Target, observe: Observer | None) -> None:
    """What happens to an emitted Program, in order; `observe` sees it after each pass. Phases that pack once are left as they are.
    Raises OptError where a barrier would have to stand in code that only some threads run."""
    from . import barriers, interleave

    passes: dict[str, Callable[[Phase], None]] = {"barriers": lambda phase: barriers.place(phase, target.warp)}
    if not target.groups:  # compilers for GPUs schedule by themselves
        passes["interleave"] = lambda phase: interleave.interleave(phase, target.registers)
    for name, run in passes.items():
        begin = perf_counter()
        for phase in program.phases[program.once :]:
            run(phase)
        log.debug("%s: pass %s took %.3g ms", program.name, name, 1e3 * (perf_counter() - begin))
        if observe is not None:
            observe(name, program)
