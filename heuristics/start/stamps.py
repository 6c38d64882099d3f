"""Start schedules of scatters whose points lie side by side, as those of a stamp's rows do: a row at once, filled up to whole vectors."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.kernel import Kernel
from ...opts.analysis.structure import extent
from ...opts.defaults import rows, site_name
from ...opts.meeting import in_vectors, scatter_ordered
from ...opts.opt import Opts, opt
from ...targets import Target

LONGEST = 64
"""Elements of a row up to which all of it is in registers."""
CLEARED = (4, 2)
"""Vectors of what is cleared at once."""


def stamps(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Guesses for a kernel's stamps: their rows filled up to vectors, to half ones, or as they are."""
    found = {s.axes[-1]: s for s in kernel.stores if s.combine is not None and s.axes and s.axes[-1] in scatter_ordered(s)}
    mine = [a for a, s in found.items() if in_vectors(target, s, a) and 1 < extent(a) <= LONGEST]
    for width in dict.fromkeys((lanes, max(1, lanes // 2), 1)) if mine else ():
        row: Opts = ()
        for a in mine:
            whole = -(-extent(a) // width) * width
            row += (*((opt("PADTO", site_name(a), whole),) if whole > extent(a) else ()), opt("UPCAST", site_name(a), whole))
        for vectors in CLEARED:
            yield (*row, *rows(kernel, target, threads, vectors * lanes, True, 1))
