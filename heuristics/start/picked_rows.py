"""Sums of rows that are picked: along them (products of rows of two tables for a list of pairs, distances of rows to picked centres), or
of several of them (bags of embeddings, neighbours' features).

A row begins anywhere, so lanes along what picks it would gather every element; within a row elements lie side by side."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import walk
from ...opts.analysis.structure import contiguous, extent, nests
from ...opts.defaults import site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...targets import Target

VECTORS = (1, 2, 4)
"""Vectors of a row that are read in a step."""
ROWS = (4, 8, 2, 1)
"""Rows side by side: the sums of several are added up across their lanes together."""
SPARE = 4
"""Registers that are not for a row's sums."""


def gathers(n: Nest) -> bool:
    """Whether rows are read at indices that are themselves read, each from its beginning."""
    return any(
        any(x.op == "load" for i in indices[:-1] for x in walk(i)) and not any(x.op == "load" for x in walk(indices[-1]))
        for _, indices, _ in loads(*n.roots)
        if indices
    )


def picked_rows(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Lanes along the rows, a few picked rows side by side."""
    for n in nests(kernel):
        along = next((a for a in contiguous(kernel, n) if a in n.reduce_axes), None)
        if n.kind != "reduce" or not n.axes or along is None or extent(along) < lanes or not gathers(n):
            continue
        for vectors in VECTORS:
            for rows in ROWS:
                beside = (opt("UPCAST", site_name(n.axes[-1]), rows),) if rows > 1 else ()
                yield (opt("UPCAST", site_name(along), vectors * lanes), *beside, opt("PARALLEL", site_name(n.axes[0])))


def whole_picked_rows(kernel: Kernel, target: Target, lanes: int) -> Iterator[Opts]:
    """Rows that are added up, whole in registers, so that what picks them is read once for all of a row; those of an odd width are padded,
    since what is left of them would be one more sum over all that is picked."""
    for n in nests(kernel):
        lane = next((a for a in contiguous(kernel, n) if a in n.axes), None)
        if n.kind != "reduce" or lane is None or len(n.axes) < 2 or extent(lane) <= lanes or not gathers(n):
            continue
        width = -(-extent(lane) // lanes) * lanes
        if width <= (target.registers - SPARE) * lanes:
            pad = (opt("PADTO", site_name(lane), width),) if width != extent(lane) else ()
            yield (*pad, opt("UPCAST", site_name(lane), width), opt("PARALLEL", site_name(n.axes[0])))
