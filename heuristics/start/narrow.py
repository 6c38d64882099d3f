"""Start schedules for sums of products of narrow integers where neighbours are added by one instruction: lanes along the reduction."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...ir.buffer import load_parts
from ...ir.dtypes import int32
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...opts.access import accesses
from ...opts.analysis.neighbours import NARROW, factors
from ...opts.analysis.places import combine_of
from ...opts.analysis.structure import extent, nests, shared_axes
from ...opts.defaults import fit, site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...targets import Target

ITEM = 512
"""Results of a work item where they have one axis."""


def narrow_sums(kernel: Kernel, target: Target, lanes: int) -> Iterator[Opts]:
    """Guesses, the likeliest first: one or two double vectors of the reduction, for a few results at a time."""
    for n in nests(kernel):
        if n.kind != "reduce" or (factors(n, target) is None and not _computed(n)):
            continue
        along = next((a for a in n.reduce_axes if _consecutive(kernel, n, a)), None)
        if along is None or 2 * extent(along) <= 2 * lanes:
            continue
        few = [a for a in n.axes if extent(a) > 1][-2:]
        outer = [opt("PARALLEL", site_name(a)) for a in shared_axes(kernel)[:1]]
        beside = prod(extent(a) for a in few[1:])
        if few and few[:1] == shared_axes(kernel)[:1] and extent(few[0]) * beside > ITEM > beside:  # a work item is more than a few results
            outer = [opt("TILE", site_name(few[0]), ITEM // beside), *outer]
        for vectors, copies in ((2, (4, 2)), (2, (8, 1)), (4, (4, 1)), (2, (4, 1)), (2, (8, 2))):
            tile, left = [], 1
            for a, k in zip(few[::-1], copies):  # what a short axis leaves goes to the next
                c = fit(extent(a), k * left)
                left = k * left // c
                tile += [opt("UPCAST", site_name(a), c)] if c > 1 else []
            wide = [opt("UPCAST", site_name(along), vectors * lanes)]
            if waste(extent(along), vectors * lanes) > 0.25:  # (zeros are added: less work than half vectors, of which none are joined)
                wide.insert(0, opt("PADTO", site_name(along), -(-extent(along) // (vectors * lanes)) * vectors * lanes))
            yield (*wide, *tile, *outer)


def _computed(n: Nest) -> bool:
    """Whether a nest sums in whole numbers what is computed of narrow ones (bytes less their zero points, perhaps)."""
    over = frozenset(n.reduce_axes)
    read = [load_parts(x)[0] for x in n.loads if axes_of(*load_parts(x)[1]) & over]
    return combine_of(n) == "add" and n.expr.dtype is int32 and len(read) > 1 and all(b.dtype in NARROW for b in read)


def _consecutive(kernel: Kernel, n: Nest, a: Node) -> bool:
    """Whether a nest reads something along an axis, and all of that is consecutive there."""
    read = [x.strides for x in accesses(kernel, n) if not x.store and x.strides.get(a, 0) != 0]
    return bool(read) and all(s[a] == 1 for s in read)
