"""Start schedules of sums whose operands both lie along the sum: weights as layers have them, a row for each result; rows of two matrices, each against
each. Lanes along the sum and a few results of both axes in registers: nothing is packed, and what is computed of an operand (a weight's
bits, and its scale) is computed once for all results that share it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from ...ir.buffer import Buffer, loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...opts.access import strides_of
from ...opts.analysis.structure import extent, nests, shared_axes
from ...opts.defaults import fit, site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...targets import Target
from ..model.near_lanes import near_lanes

WIDE = ((8, 3), (6, 4), (8, 2), (4, 4))
"""Results of one axis by those of the other that are in registers at once, where there are 32 of these, the likeliest first."""
NARROW = ((4, 3), (4, 2), (3, 3))
"""The same with 16: of eight rows, which may be in one set of the first cache, none keeps its line from one vector to the next."""
BARE = ((4, 2), (3, 3), (3, 2))
"""The same where a product takes a register before it is added."""
LEAST = 4
"""Vectors of a sum from which on its lanes may be added up in the end."""
RAGGED = 0.25
"""Share of a sum's vectors that may be idle."""


def dotted_rows(kernel: Kernel, target: Target, lanes: int) -> Iterator[Opts]:
    """Guesses, perhaps illegal; none where an operand lies otherwise, or each is used for one result only."""
    if target.kind == "gpu":
        return
    tiles = WIDE if target.registers >= 32 else NARROW if "fma" in target.features else BARE
    for n in nests(kernel):
        along = next((a for a in n.reduce_axes if _lies_along(n, a, lanes)), None) if n.kind == "reduce" else None
        if along is None or extent(along) < LEAST * lanes or waste(extent(along), lanes) > RAGGED:
            continue
        grid = max((a for a in shared_axes(kernel) if a in n.axes), key=extent, default=None)
        outer = () if grid is None else (opt("PARALLEL", site_name(grid)),)
        for a, b in permutations(_apart(n, along), 2):
            for rows, columns in tiles:
                tile = [opt("UPCAST", site_name(x), k) for x, most in ((a, rows), (b, columns)) if (k := fit(extent(x), most)) > 1]
                yield (opt("UPCAST", site_name(along), lanes), *tile, *outer)


def _lies_along(nest: Nest, axis: Node, lanes: int) -> bool:
    """Whether at least two reads vary with a reduced axis, and lanes along it find what they read side by side."""
    found = [(b, i, strides_of(b, i).get(axis)) for b, i in _reads(nest, axis)]
    return len(found) > 1 and all(step == 1 or (step is None and near_lanes(b, i, axis, lanes) is not None) for b, i, step in found)


def _apart(nest: Nest, along: Node) -> list[Node]:
    """Two axes of results, each of which some reads along the sum vary with and others do not; fewer where there are none."""
    read = [axes_of(*i) for _, i in _reads(nest, along)]
    return [a for a in nest.axes if extent(a) > 1 and any(a in r for r in read) and any(a not in r for r in read)][-2:]


def _reads(nest: Nest, along: Node) -> list[tuple[Buffer, tuple[Node, ...]]]:
    """The loads that vary with an axis."""
    return [(b, i) for b, i, _ in loads(*nest.roots) if along in axes_of(*i)]
