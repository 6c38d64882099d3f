"""`lower`: the way from a Scheduled to a Program, as a list of named steps."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from ..ir.errors import InternalError, OptError
from ..log import logger
from ..opts.memory_limits import check_program
from ..opts.phases import plain
from ..opts.schedule import Scheduled
from ..program.program import Instr, Program, statements
from ..program.verify import verify, wanted
from . import passes
from .emission import emit

Observer = Callable[[str, Program], None]
log = logger("lower")


def lower(scheduled: Scheduled, expand: bool = True, observe: Observer | None = None) -> Program:
    """The Program of a schedule: it is emitted, goes through the passes of the target in the order of `passes.PASSES`, and must fit the
    target's memory. `expand=False` keeps exp, log, tanh and erf as operations (for the twin). `observe` is called with "emit" and the
    Program as it is emitted, then with the name of each pass and what it made (of the same object: an observer that wants to keep a stage
    keeps its text). OptError where the schedule cannot be expressed."""
    kernel, target = scheduled.kernel.name, scheduled.target
    program = _made(scheduled, expand, observe)
    if wanted():
        try:
            verify(program, "after all passes")
        except InternalError:  # whose fault it is takes a look after each
            _made(scheduled, expand, lambda step, program: verify(program, f"after {step}"))
            raise
    if (
        scheduled.kernel.fixed
        and not {"fma", "neon"} & target.features
        and any(isinstance(s, Instr) and s.op == "fma" for p in program.phases for s in statements(p.body))
    ):
        raise OptError(
            f"{kernel}: fixed numerics need fused multiply-adds (x86-64-v3 or later, AArch64), which this target has none of: use free numerics"
        )
    if program.shared > target.shared and target.groups:
        raise OptError(f"{kernel}: the group needs {program.shared} bytes of shared memory; {target.name} has {target.shared}")
    if scheduled.opts:
        check_program(target, kernel, program, lambda: lower(plain(scheduled)))
    return program


def _made(scheduled: Scheduled, expand: bool, observe: Observer | None) -> Program:
    """What is emitted, after all passes."""
    kernel, target = scheduled.kernel.name, scheduled.target

    def finished(step: str, begin: float) -> None:
        log.debug("%s for %s: %s took %.3g ms", kernel, target.name, step, 1e3 * (perf_counter() - begin))
        if observe is not None:
            observe(step, program)

    begin = perf_counter()
    program = emit(scheduled, expand)
    finished("emit", begin)
    for p in passes.of(target):
        begin = perf_counter()
        p.run(program, target)
        finished(p.name, begin)
    return program
