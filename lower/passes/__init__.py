"""Passes over an emitted Program, by name and in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

from ...log import logger
from ...program.program import Phase, Program

Pass = Callable[[Phase], None]
"""Changes a phase in place."""
Observer = Callable[[str, Program], None]
"""Is called with ("emit", the Program) and then with (a pass's name, the Program) after each pass. The Program goes on changing."""
log = logger("lower")


def run_passes(program: Program, passes: Mapping[str, Pass], observe: Observer | None) -> None:
    """Change an emitted Program by passes, in order; `observe` sees it after each. Phases that pack once are left as they are. Raises what a
    pass raises: OptError where a barrier would have to stand in code that only some threads run."""
    for name, run in passes.items():
        begin = perf_counter()
        for phase in program.phases[program.once :]:
            run(phase)
        log.debug("%s: pass %s took %.3g ms", program.name, name, 1e3 * (perf_counter() - begin))
        if observe is not None:
            observe(name, program)
