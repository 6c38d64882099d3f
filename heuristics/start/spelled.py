"""Start schedules of short sums whose steps lie far apart in memory or are found there (tracks that are mixed, bytes that are looked up): the
steps are spelled out.

Each step then has loads of its own, at which the processor sees one run through memory, and what does not vary with the results is
loaded and widened once for all of them. In a loop over the steps, one load jumps from row to row."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...opts.access import accesses
from ...opts.analysis.lane_work import arithmetic
from ...opts.analysis.structure import contiguous, extent, nests, shared_axes
from ...opts.defaults import fit, site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt

STEPS = 16
"""Steps of a sum that are spelled out."""
RUNS = 32
"""The same where each has a run through memory of its own, which a processor follows by the address of an instruction."""
LOOKED_UP = 64
"""The same where a step is little more than a number that is looked up."""
FEW = 4.0
"""Operations, in additions, that are little."""
RUN = 1024
"""Results that are a work item."""
ITEMS = 64
"""Work items that are enough for any number of threads."""
LINE = 64
"""Bytes of a cache line."""


def spelled_steps(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Guesses, the likeliest first; none where a step is a neighbour of the last one in all that is read. Perhaps illegal."""
    found = nests(kernel)
    summed = [n for n in found if n.kind == "reduce"]
    along = list(dict.fromkeys(a for n in summed for a in n.reduce_axes if extent(a) > 1))
    scattered = all(looked_up(kernel, n) for n in summed)
    plain = scattered and all(arithmetic(a, n.nodes) <= FEW for n in summed for a in n.reduce_axes)
    most = LOOKED_UP if plain else STEPS if scattered else RUNS
    if not along or any(extent(a) > most for a in along) or len(summed) != len({n.reduce_axes for n in summed}):
        return
    if any(n.kind in ("scan", "init") for n in found) or not shared_axes(kernel):
        return
    steps = tuple(opt("UNROLL", site_name(a), extent(a)) for a in along)
    families = [a.arg.family for a in along]
    fused = tuple(opt("FUSE", f) for f in dict.fromkeys(families) if families.count(f) > 1)
    rows = shared_axes(kernel)[-1]
    # many to a work item, which begins with what all of its results share
    outer = (
        *((opt("TILE", site_name(rows), RUN),) if extent(rows) >= ITEMS * RUN else ()),
        opt("PARALLEL", site_name(shared_axes(kernel)[0])),
    )
    if scattered:
        # (no lanes: elements from anywhere are loaded one by one)
        for copies in (4, 2, 1):
            beside = (opt("UPCAST", site_name(rows), copies),) if copies > 1 else ()
            yield (*beside, *steps, *outer)
    elif all(_strided(kernel, n, rows) for n in summed) and all(rows in contiguous(kernel, n) for n in found):
        for vectors in (2, 4, 8, 1):
            yield (opt("UPCAST", site_name(rows), fit(extent(rows), vectors * lanes)), *steps, *outer, *fused)


def _strided(kernel: Kernel, nest: Nest, rows: Node) -> bool:
    """Whether each step of a sum reads another row of its own, of which results that lie side by side read what does."""
    read = [x for x in accesses(kernel, nest) if not x.store and rows in x.strides]
    return bool(read) and all(x.stride(rows) == 1 and any(_far(x.stride(a), x.buffer.dtype.size) for a in nest.reduce_axes) for x in read)


def _far(stride: int | None, size: int) -> bool:
    return stride is not None and stride * size >= LINE


def looked_up(kernel: Kernel, nest: Nest) -> bool:
    """Whether each step of a sum reads an element at a place that is read itself, and results side by side read nothing that lies so."""
    found = [indices for _, indices, _ in loads(*nest.roots) if axes_of(*indices) & set(nest.reduce_axes)]
    placed = any(x.op == "load" for indices in found for x in walk(*indices))
    return placed and not any(x.stride(a) == 1 for x in accesses(kernel, nest) for a in nest.axes)
