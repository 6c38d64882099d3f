"""Sums along rows that are picked: products of rows of two tables for a list of pairs, distances of rows to picked centres.

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

VECTORS = (1, 2, 4)
"""Vectors of a row that are read in a step."""
ROWS = (4, 8, 2, 1)
"""Rows side by side: the sums of several are added up across their lanes together."""


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
