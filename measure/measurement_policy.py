"""What a call finds while it is timed: where its operands lie, and whether other cores work.

A schedule may win with operands from memory and lose with operands in the caches. By default rounds of both kinds take turns, as in a program
that calls a kernel now on what it has just made and now on what was made long ago. A policy asks for one kind, or for a machine whose other
cores move data through memory all the time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.errors import UsageError
from ..targets import usable_cores
from .roofline import MOST_SETS, rotations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..ir.kernel import Kernel
    from ..targets import Target

PLACES = ("program", "memory", "cache")
BUSY = "busy"


@dataclass(frozen=True, slots=True)
class MeasurementPolicy:
    """`operands`: 'memory' (more sets of them than the last cache holds), 'cache' (one set, again and again), or 'program' (both in turns,
    where a kernel moves much for what it computes). `busy`: all cores that are not timed on copy memory."""

    operands: str = "program"
    busy: bool = False

    @classmethod
    def of(cls, text: str) -> MeasurementPolicy:
        """From `cache`, `memory,busy`. Raises UsageError."""
        parts = [p.strip() for p in text.split(",")]
        places = [p for p in parts if p != BUSY] or ["program"]
        if len(places) > 1 or places[0] not in PLACES:
            raise UsageError(
                f"cannot read the policy {text!r}: write one of {', '.join(PLACES)}, and ,{BUSY} where other cores are to work"
            )
        return cls(places[0], BUSY in parts)

    def __str__(self) -> str:
        return self.operands + f",{BUSY}" * self.busy

    def check(self, kernel: Kernel, vars: Mapping[str, int], target: Target, threads: int) -> None:
        """Raise UsageError where it cannot be honoured here."""
        if target.kind == "gpu" and self != AS_PROGRAMS:
            raise UsageError(f"the policy {self} is for processors: leave it out for {target.name}")
        if self.busy and usable_cores() <= threads:
            instead = "give fewer threads" if threads > 1 else f"leave out ,{BUSY}"
            raise UsageError(f"the policy {self} needs a core beside the {threads} that the kernel runs on: {instead}")
        size, cache = _bytes(kernel, vars), target.l3 or target.l2
        if self.operands == "cache" and size > cache:
            raise UsageError(f"the policy {self} needs operands that the last cache holds: they have {size} bytes, and it has {cache}")
        if self.operands == "memory" and size * MOST_SETS < 2 * cache:
            raise UsageError(f"the policy {self} needs larger operands: {MOST_SETS} sets of {size} bytes stay in the last cache of {cache}")

    def sets(self, kernel: Kernel, vars: Mapping[str, int], target: Target) -> int:
        """How many sets of operands are gone through."""
        return 1 if self.operands == "cache" else rotations(kernel, vars, target, self.operands == "memory")

    @contextlib.contextmanager
    def others(self, threads: int) -> Iterator[None]:
        """Keeps the other cores busy, where it says so."""
        copies = usable_cores() - threads if self.busy else 0
        started = [subprocess.Popen([sys.executable, "-c", _COPY.format(parent=os.getpid())]) for _ in range(copies)]
        try:
            yield
        finally:
            for p in started:
                p.kill()
                p.wait()


AS_PROGRAMS = MeasurementPolicy()


def _bytes(kernel: Kernel, vars: Mapping[str, int]) -> int:
    from ..ir.cost import cost

    return int(cost(kernel, dict(vars)).bytes)


_COPY = """
import os
import numpy
a, b = numpy.ones(1 << 23), numpy.empty(1 << 23)
while os.getppid() == {parent}:
    numpy.copyto(b, a)
"""
