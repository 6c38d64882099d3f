"""Seeds of kernels that are no products, but whose results share what they read all the same: how many of each column lie below each of
some thresholds, a column's sums at each of some scales, how much each of some boxes overlaps each of others. A register tile of results
loads each element, and computes what is of it alone, once for several of them."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.analysis.structure import accesses, contractions, extent, lane_axis, nests, shared_axes
from ...opts.defaults import family_name, site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.fuse import with_rows
from ...targets import Target

FREE = 6
"""Registers that are not accumulators: what is read, what is compared with it, and what is on its way."""
PADDED = 0.5
"""Work beside the results that several vectors side by side may be worth."""


def reused_reads(kernel: Kernel, target: Target, lanes: int) -> Iterator[Opts]:
    """Tiles of a few vectors along what is consecutive, by several results that read the same; perhaps illegal. None of a sum of
    products, which has tiles of its own."""
    if contractions(kernel) or target.kind == "gpu":
        return
    map_only = all(n.kind == "store" for n in nests(kernel))
    for n in nests(kernel):
        lane = lane_axis(kernel, n) if n.kind == "reduce" or map_only else None
        if lane is None:
            continue
        grid = tuple(opt("PARALLEL", site_name(a)) for a in shared_axes(kernel)[:1])
        for a in _mapped(kernel, n, lane) if map_only else _sharing(kernel, n, lane):
            for vectors in (1, 2, 4):
                idle = waste(extent(lane), vectors * lanes)
                if idle > PADDED:
                    continue
                pad = (opt("PADTO", family_name(kernel, lane), vectors * lanes),) if idle > 0.25 else ()
                for copies in (8, 4, 2):
                    if vectors * copies <= target.registers - FREE and extent(a) >= copies and waste(extent(a), copies) <= 0.25:
                        tile = (opt("UPCAST", family_name(kernel, lane), vectors * lanes), opt("UPCAST", family_name(kernel, a), copies))
                        yield (*pad, *tile, *grid, *with_rows(kernel, target))


def _sharing(kernel: Kernel, n: Nest, lane: Node) -> list[Node]:
    """The axes of a reduction's results that do not change what it reads along the lanes, which is whole vectors."""
    along = [x for x in accesses(kernel, n) if not x.store and lane in x.strides]
    if any(x.strides[lane] != 1 for x in along):
        return []
    over = [x for x in along if set(n.reduce_axes) & set(x.strides)]
    return [a for a in n.axes if a is not lane and extent(a) >= 4 and any(a not in x.strides for x in over)]


def _mapped(kernel: Kernel, n: Nest, lane: Node) -> list[Node]:
    """The axes of a map's results that several of its reads along the lanes do not vary with. (One alone costs little beside the store.)"""
    along = [x for x in accesses(kernel, n) if not x.store and x.stride(lane)]
    return [a for a in n.axes if a is not lane and extent(a) >= 4 and sum(x.stride(a) == 0 for x in along) >= 2]
