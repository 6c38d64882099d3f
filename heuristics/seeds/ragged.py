"""Seeds for sums and extremes of which data says how far they go, such as those along padded rows.

One row at a time: of several side by side the longest counts, and each needs a mask. Few steps are taken at once, since the last of
them reach past the row."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...opts.analysis.ragged import conditions, selected, sides
from ...opts.analysis.structure import contiguous, extent, nests, shared_axes
from ...opts.defaults import family_name, fit, site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from .picked_rows import gathers

RESULTS = (8, 16, 4, 2, 1)
"""Vectors of results that are summed up at once."""
STEPS = (2, 4)
"""Vectors of a row that are read in a step."""
ROWS, ITEMS = 16, 64
"""Rows of a work item, and how many of those are enough for any number of threads."""
PICKED = 4
"""Elements that are picked in a step, as many at once as cost no more than one by one."""


def ragged_rows(kernel: Kernel, lanes: int, threads: int) -> Iterator[Opts]:
    """Guesses where a reduction of the kernel ends where data says. Perhaps illegal."""
    reducing = [n for n in nests(kernel) if n.kind == "reduce" and n.axes and _by_data(n)]
    joined = dict.fromkeys(family_name(kernel, a) for n in reducing for a in n.reduce_axes if len(kernel.families[a.arg.family]) > 1)
    for wish in dict.fromkeys((*w, *more) for n in reducing for w in _lanes(kernel, n, lanes) for more in _beside(kernel, n, lanes)):
        for together in [*((opt("FUSE", name),) for name in joined), ()]:
            outer = shared_axes(kernel)[:1]
            if threads > 1 and outer and extent(outer[0]) >= ITEMS * ROWS:  # short rows are no work items of their own
                yield (*wish, opt("TILE", site_name(outer[0]), ROWS), opt("PARALLEL", site_name(outer[0])), *together)
            yield (*wish, *(opt("PARALLEL", site_name(a)) for a in outer), *together)
            if threads == 1:
                yield (*wish, *together)


def _lanes(kernel: Kernel, n: Nest, lanes: int) -> Iterator[Opts]:
    """Lanes along results, along the rows, or along what is picked."""
    for a in contiguous(kernel, n):
        size, name = extent(a), family_name(kernel, a)
        if size >= lanes:
            many = RESULTS if a in n.axes else STEPS
            yield from ((opt("UPCAST", name, fit(size, min(v * lanes, size))),) for v in many)
            if a in n.axes and size % lanes == 0 and size <= max(RESULTS) * lanes:
                yield (opt("UPCAST", name, size),)
    for a in n.reduce_axes:
        if _picked(n, a):
            yield ()
            yield (opt("UPCAST", family_name(kernel, a), min(PICKED, extent(a))),)


def _by_data(n: Nest) -> bool:
    """Whether data says how far a reduction goes, or which of the rows that it picks are there."""
    where = selected(n)
    return any(sides(c) for c in conditions(n)) or (where is not None and where.op == "where" and gathers(n))


def _beside(kernel: Kernel, n: Nest, lanes: int) -> Iterator[Opts]:
    """What else is wished: nothing, or lanes along the rows of other reductions."""
    yield ()
    others = (m for m in nests(kernel) if m.kind == "reduce" and m is not n)
    along = [a for m in others for a in contiguous(kernel, m) if a in m.reduce_axes and extent(a) >= lanes]
    if along:
        yield tuple(opt("UPCAST", site_name(a), lanes) for a in dict.fromkeys(along))


def _picked(n: Nest, axis: Node) -> bool:
    """Whether single elements lie where data says that changes along an axis."""
    return any(axis in axes_of(i) and any(x.op == "load" for x in walk(i)) for _, at, _ in loads(*n.roots) for i in at[-1:])
