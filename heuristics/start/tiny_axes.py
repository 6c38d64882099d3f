"""Start schedules of kernels with a tiny axis, such as the three components of a vector, over which they share work."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Fold
from ...ir.dtypes import index
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...opts.access import LONGEST_GROUP
from ...opts.analysis.structure import contractions, extent, nests, shared_axes
from ...opts.defaults import family_name, fit, site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.fuse import with_rows
from ...targets import Target

TINY = 4
"""Elements of an axis that are all kept in registers."""

LONG = 256
"""Points of a sum beside which adding up its vector of partial results is little."""
SHARED = 8
"""Sums for each of which a point has an operand in registers, beside vectors of points."""


def tiny_axes(kernel: Kernel) -> list[Node]:
    """Spatial axes of at most TINY elements (more, where each costs little beside what they share) over which some nest shares work: an
    operation that does not vary along them, or a value that was computed before. None of a
    kernel with sums of products or folds, whose register tiles have start schedules of their own."""
    if contractions(kernel) or any(isinstance(i, Fold) for i in kernel.body):
        return []
    found: dict[Node, None] = {}
    for n in nests(kernel):
        found |= dict.fromkeys(a for a in n.axes if isinstance(a.arg.extent, int) and 1 < extent(a) <= _most(n, a) and _shares(n, a))
    return list(found)


def _most(n: Nest, a: Node) -> int:
    """How long an axis may be: longer where long sums share what was computed before of each of their points, and where it chooses among
    expressions, each of which would be computed at every place."""
    long = frozenset(r for r in n.reduce_axes if isinstance(r.arg.extent, int) and extent(r) >= LONG)
    if n.kind == "reduce" and any(x.op == "ref" and a not in axes_of(x) and axes_of(x) & long for x in n.nodes):
        return SHARED
    chooses = n.store is not None and any(x.op == "where" and x.src[0].op == "eq" and axes_of(x.src[0]) == {a} for x in n.nodes)
    return LONGEST_GROUP if chooses else TINY


def _shares(n: Nest, a: Node) -> bool:
    return any(x.op not in ("load", "cast", "const") and x.dtype is not index and x.src and a not in axes_of(x) for x in n.nodes)


def copies(kernel: Kernel) -> Opts:
    """Tiny axes in registers."""
    return tuple(opt("UPCAST", f, extent(a)) for f, a in {family_name(kernel, a): a for a in tiny_axes(kernel)}.items())


def beside(kernel: Kernel, target: Target, threads: int, width: int, reduced: bool) -> Opts:
    """Tiny axes in registers, with up to `width` lanes along the last long axis beside them, or along the last one that is reduced; the
    outer long axis in parallel. Nothing where there is no such axis."""
    tiny = tiny_axes(kernel)
    long = [a for a in shared_axes(kernel) if a not in tiny and extent(a) >= 2]
    found = [a for n in nests(kernel) for a in n.reduce_axes] if reduced else long
    amount = fit(extent(found[-1]), width) if found else 1
    if amount < 2:
        return ()
    grid = tuple(opt("PARALLEL", site_name(a)) for a in long[: 1 if long and extent(long[0]) >= 8 * threads else 2])
    return (opt("UPCAST", family_name(kernel, found[-1]), amount), *copies(kernel), *grid, *with_rows(kernel, target))


def in_registers(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Guesses for kernels with tiny axes, the likeliest first."""
    if tiny_axes(kernel):
        for reduced in (False, True):
            wishes = (beside(kernel, target, threads, vectors * lanes, reduced) for vectors in (2, 4, 1))
            yield from (w for w in wishes if w)
