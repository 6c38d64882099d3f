"""Start schedules for many short rows, of which each is reduced: lanes over the rows, and all elements of a row in registers. And start schedules
for short sums.

Lanes along a row would be combined by horizontal steps for every row, which is most of the work where a row is a vector or
two. Blocks of rows are turned in registers instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.body import Reduce
from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.access import GROUP_ROW, accesses
from ...opts.analysis.structure import contiguous, extent, nests, shared_axes
from ...opts.defaults import family_name, fit, site_name
from ...opts.opt import Opts, opt
from ...targets import Target
from .tiny_axes import TINY, copies

SHORT = 32
"""Elements of a short row."""
SPELLED = 16
"""Steps of a sum that are all in registers."""
FEW = 4
"""Results side by side that are worth lanes."""
MANY = 64
"""Rows for each lane that are worth it."""


def reduced_rows(kernel: Kernel) -> tuple[Node, tuple[Node, ...]] | None:
    """(the axis of the rows, the axes along them that are reduced) where all that a kernel reduces are short rows which lie
    one after the other; None elsewhere."""
    reducing = [n for n in nests(kernel) if n.kind == "reduce"]
    shared = shared_axes(kernel)
    if not reducing or not shared or any(n.kind == "scan" for n in nests(kernel)):
        return None
    rows, along = shared[-1], []
    if extent(rows) <= TINY:  # (few of everything side by side, such as phases)
        return None
    for n in reducing:
        if len(n.reduce_axes) != 1 or n.axes[-1:] != (rows,) or not 4 < extent(n.reduce_axes[0]) <= SHORT:
            return None
        a = n.reduce_axes[0]
        along.append(a)
        read = [x for x in accesses(kernel, n) if not x.store and rows in x.strides]
        if any(x.stride(a) not in (0, 1) or (x.stride(rows) or 0) % extent(a) for x in read):
            return None
        if not any(x.stride(a) == 1 and x.stride(rows) for x in read):
            return None
    return rows, tuple(dict.fromkeys(along))


def short_rows(kernel: Kernel, target: Target, lanes: int) -> Iterator[Opts]:
    """Guesses where `reduced_rows` finds some, the likeliest first. Perhaps illegal."""
    found = reduced_rows(kernel)
    if found is None or extent(found[0]) < MANY * lanes:
        return
    rows, along = found
    outer = opt("PARALLEL", site_name(shared_axes(kernel)[0]))
    whole = [tuple(opt("UPCAST", name, n) for name, n in {family_name(kernel, a): extent(a) for a in along}.items())]
    if _turns(kernel, target, along, lanes):
        reduced = {a: all(b in along for b in kernel.families.get(a.arg.family, ())) for a in along}
        names = {family_name(kernel, a) if reduced[a] else site_name(a): extent(a) for a in along}
        whole.append(tuple(opt("UNROLL", name, n) for name, n in names.items()))
    for vectors in (2, 1):
        for row in whole:
            for beside in dict.fromkeys((_few(kernel), copies(kernel), ())):
                yield (opt("UPCAST", site_name(rows), vectors * lanes), *row, *beside, outer)


def _turns(kernel: Kernel, target: Target, along: Sequence[Node], lanes: int) -> bool:
    """Whether lanes over the rows take fewer instructions than lanes along them. Blocks are turned when they are loaded, once for all
    reductions. Lanes along rows are folded together for each reduction, by two shuffles a row, and what a reduction reads of one before
    is brought to all lanes of its row."""
    if any(a.arg.family == b.arg.family for n in nests(kernel) if n.kind == "store" for a in n.axes for b in along):
        return False  # elements of rows are stored too: what is computed of them is shared with that, which has lanes along rows
    folded, size = 0, max(map(extent, along))
    if any(extent(a) % GROUP_ROW for a in along):
        return False
    for n in nests(kernel):
        reduce = None if n.value is None else n.value.expr
        if not isinstance(reduce, Reduce):
            continue
        folded += lanes * (2 + len({x for x in n.nodes if x.op == "ref"}))
        if n.expr.dtype.is_float and reduce.combine in ("max", "min") and not target.keeps_nan:
            folded += 2 * lanes  # what is no number is handed on by two instructions more
        if any(x.op == "cast" and x.src[0] in n.reduce_axes for x in n.nodes):
            folded += 2 * size  # a place: lanes that did not reach the extreme are left out
    return folded > size * (lanes.bit_length() - 1)


def _few(kernel: Kernel) -> Opts:
    """The few results of each row that lie side by side, in registers: they are woven."""
    stored = [a for n in nests(kernel) if n.kind == "store" for a in contiguous(kernel, n)[:1] if 1 < extent(a) <= TINY]
    return tuple(opt("UPCAST", family_name(kernel, a), extent(a)) for a in dict.fromkeys(stored))


def short_sums(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Guesses where every reduction is short, and so are the rows of results (products of small matrices, transforms of blocks):
    lanes along what the stores have consecutive, and all that a result is made of in registers. Perhaps illegal."""
    reducing = [n for n in nests(kernel) if n.kind == "reduce"]
    along = list(dict.fromkeys(a for n in reducing for a in n.reduce_axes if extent(a) > 1))
    if not along or any(extent(a) > SPELLED for a in along) or any(n.kind == "scan" for n in nests(kernel)):
        return
    stored = [a for n in nests(kernel) if n.kind == "store" for a in contiguous(kernel, n)[:1]]
    wide = [a for a in stored if FEW <= extent(a) <= SHORT]
    if not wide:
        return
    whole = tuple(opt("UPCAST", name, n) for name, n in {family_name(kernel, a): extent(a) for a in along}.items())
    outer = tuple(opt("PARALLEL", site_name(a)) for a in shared_axes(kernel)[:1] if a is not wide[0])
    for vectors in (1, 2):
        yield (opt("UPCAST", family_name(kernel, wide[0]), fit(extent(wide[0]), vectors * lanes)), *whole, *outer)
