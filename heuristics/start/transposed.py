"""The start rule for kernels that store along one axis and load along another: transpositions."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.access import accesses
from ...opts.analysis.structure import extent, nests, shared_axes
from ...opts.defaults import fit, site_name
from ...opts.memory_limits import buffer_bytes, is_far
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.cache import STREAM
from ...targets import Target
from ..cache_sets import set_use
from ..machine import DEFAULT
from .start_rule import StartFacts, StartRule

LINE = 64
"""Bytes of a cache line."""
FEW_SETS = 4
"""Sets that rows of a block may meet in turns at most to be slow for it (measured: with 2 of them four times as long, with 8 as long as
rows that are spread)."""
ROWS = 8
"""Rows of results side by side whose lines stay in the first cache until they are whole, though all meet one set."""


class Transposed(StartRule):
    """A store is consecutive along one axis and its load along another: square blocks that are transposed in registers, or tiles through
    scratch."""

    name = "transposed"
    quick_places = (0,)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return iter(_transposed(f.kernel, f.target, f.lanes))


def _transposed(kernel: Kernel, target: Target, lanes: int) -> list[Opts]:
    out: list[Opts] = []
    for n in nests(kernel):
        if n.store is None or n.kind != "store" or len(nests(kernel)) > 1:
            continue
        into = next((a for x in accesses(kernel, n) if x.store for a, st in x.strides.items() if st == 1), None)
        # (what does not vary along the store, such as a row's number, is read once for many; what is read as it is stored, such as the
        # other half of a matrix and its transpose, is whole vectors in any case)
        read = [x for x in accesses(kernel, n) if not x.store and into in x.strides]
        along = next((a for x in read for a, st in x.strides.items() if st == 1 and a is not into), None)
        if into is None or along is None or min(extent(into), extent(along)) < lanes:
            continue
        cuts = tuple(
            opt("UPCAST", site_name(a), fit(extent(a), lanes)) for a in (into, along)
        )  # (whole vectors of 33 places would be refused)
        free = [a for a in shared_axes(kernel) if a not in (into, along)]
        size, buffer = n.store.buffer.dtype.size, n.store.buffer
        if size >= 4:  # transposed in registers; pieces of whole lines are written past the caches where the output will not stay there
            block, outer = 4 * lanes, tuple(opt("PARALLEL", site_name(a)) for a in free)
            past = (opt("CACHE", buffer.name, policy=STREAM),) if is_far(target, buffer.shape, size) else ()
            line = max(lanes, LINE // size)
            crowded = not past and _crowds(kernel, n, into, False, lanes, target)
            if crowded or (
                not past and _crowds(kernel, n, along, True, block, target)
            ):  # whole lines of few rows, and no loop down the rows that crowd the caches' sets
                cut = (opt("UPCAST", site_name(along), lanes if crowded else min(lanes, ROWS)), opt("UPCAST", site_name(into), line))
                across = along if _crowds(kernel, n, along, True, line, target) else into
                out.append((*cut, *outer, opt("PARALLEL", site_name(across))))
            else:
                out += _blocks(into, along, cuts, outer, past, block)
            if not past and buffer_bytes(buffer.shape, size) > target.l2:  # (only measuring can tell)
                whole = (opt("UPCAST", site_name(along), min(lanes, 8)), opt("UPCAST", site_name(into), line))
                out.append((*whole, *outer, opt("PARALLEL", site_name(along)), opt("CACHE", buffer.name, policy=STREAM)))
        grid = tuple(opt("PARALLEL", site_name(a)) for a in (*free, along))
        out.append((*cuts, *grid, opt("PARALLEL", site_name(into)), opt("STAGE", buffer.name, at=site_name(into))))
        if extent(into) >= 8 * lanes:
            out.append((*cuts, opt("TILE", site_name(into), 4 * lanes), *grid, opt("STAGE", buffer.name, at=site_name(into))))
    return out


def _blocks(into: Node, along: Node, cuts: Opts, outer: Opts, past: Opts, block: int) -> list[Opts]:
    """Square blocks that are transposed in registers, in several orders; the likeliest first."""
    out: list[Opts] = []
    if extent(along) >= 2048:  # strips of the output's rows, all of them by one item: fewer pages at a time
        strips = (opt("PARALLEL", site_name(into)), opt("TILE", site_name(along), 1024), opt("PARALLEL", site_name(along)))
        out.append((*cuts, *outer, *strips, *past))
    if extent(into) >= 2 * block:
        wide = (
            opt("TILE", site_name(into), block),
            opt("PARALLEL", site_name(into)),
            opt("MOVE", site_name(along), before=f"{site_name(into)}.t"),
        )
        out.append((*cuts, *outer, *wide, *past))
    return [*out, (*cuts, *outer, opt("PARALLEL", site_name(into)))]


def _crowds(kernel: Kernel, n: Nest, rows: Node, stored: bool, run: int, target: Target) -> bool:
    """Whether pieces of `run` elements of what a nest stores, or reads, meet few sets of the second cache where they go down `rows`, and are
    more than these hold."""
    core, caches = DEFAULT.core, DEFAULT.caches
    for x in accesses(kernel, n):
        if x.store == stored and (x.stride(rows) or 0) > run:
            size = x.buffer.dtype.size
            use = set_use(run * size, [((x.stride(rows) or 0) * size, extent(rows))], caches.line, core.set_span)
            if use.places <= FEW_SETS and use.crowded(target.l2, core.set_span):
                return True
    return False
