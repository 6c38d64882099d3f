"""The start rule for chains on a GPU: reductions that others read at shifted places, or whole, get a phase (a launch) of their own.

A grid is of what all loops share, and such a chain shares none: without phases one group would do it all."""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.body import Fold
from ....ir.kernel import Kernel
from ....ir.node import Node
from ....opts.analysis.structure import extent, read_elsewhere, shared_axes
from ....opts.defaults import points
from ....opts.opt import Opt, Opts, opt
from ....opts.options.phase import phased
from ..start_rule import StartFacts, StartRule

UNROLLED = 9
"""Taps of a window that are unrolled."""


class GridChains(StartRule):
    """Chains of which all loops share no axis."""

    name = "chain"
    quick_places = (0, 1)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return _chains(f.kernel)


def _chains(kernel: Kernel) -> Iterator[Opts]:
    """Schedules, perhaps illegal ones; none where all loops share an axis."""
    values = tuple(v for v in read_elsewhere(kernel) if not isinstance(kernel.values[v].expr, Node))
    if not values or shared_axes(kernel) or any(isinstance(i, Fold) for i in kernel.body):
        return
    kernels = phased(kernel, values)
    windows = [opt("UNROLL", a.arg.name, extent(a)) for v in kernel.values.values() for a in v.reduce_axes if 1 < extent(a) <= UNROLLED]
    for threads in (128, 256):
        for vector in (1, 2, 4):
            found: dict[tuple[str, str], Opt] = {}
            for o in (o for k in kernels for o in (*points(k, threads, vector), *windows)):
                found.setdefault((o.op, o.on), o)
            yield (*(opt("PHASE", v) for v in values), *found.values())
