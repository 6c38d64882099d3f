"""Seeds for sums and extremes of which data says how far they go, such as those along padded rows.

One row at a time: of several side by side the longest counts, and each needs a mask. Few steps are taken at once, since the last of
them reach past the row."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...opts.analysis.ragged import conditions, sides
from ...opts.analysis.structure import contiguous, extent, nests, shared_axes
from ...opts.defaults import fit, site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt

RESULTS = (8, 16, 4, 2, 1)
"""Vectors of results that are summed up at once."""
STEPS = (2, 4)
"""Vectors of a row that are read in a step."""
PICKED = 4
"""Elements that are picked in a step, as many at once as cost no more than one by one."""


def ragged_rows(kernel: Kernel, lanes: int, threads: int) -> Iterator[Opts]:
    """Guesses where a reduction of the kernel ends where data says. Perhaps illegal."""
    for n in nests(kernel):
        if n.kind != "reduce" or not n.axes or not any(sides(c) for c in conditions(n)):
            continue
        for wish in dict.fromkeys(_lanes(kernel, n, lanes)):
            yield (*wish, *(opt("PARALLEL", site_name(a)) for a in shared_axes(kernel)[:1]))
            if threads == 1:
                yield wish


def _lanes(kernel: Kernel, n: Nest, lanes: int) -> Iterator[Opts]:
    """Lanes along results, along the rows, or along what is picked."""
    for a in contiguous(kernel, n):
        if extent(a) >= lanes:
            many = RESULTS if a in n.axes else STEPS
            yield from ((opt("UPCAST", site_name(a), fit(extent(a), min(v * lanes, extent(a)))),) for v in many)
    for a in n.reduce_axes:
        if _picked(n, a):
            yield ()
            yield (opt("UPCAST", site_name(a), min(PICKED, extent(a))),)


def _picked(n: Nest, axis: Node) -> bool:
    """Whether single elements lie where data says that changes along an axis."""
    return any(axis in axes_of(i) and any(x.op == "load" for x in walk(i)) for _, at, _ in loads(*n.roots) for i in at[-1:])
