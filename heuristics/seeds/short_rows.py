"""Seeds for many short rows, of which each is reduced: lanes over the rows, and all elements of a row in registers. And seeds
for short sums.

Lanes along a row would be combined by horizontal steps for every row, which is most of the work where a row is a vector or
two. Blocks of rows are turned in registers instead."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.analysis.structure import accesses, contiguous, extent, nests, shared_axes
from ...opts.defaults import family_name, fit, site_name
from ...opts.opt import Opts, opt
from .tiny_axes import copies

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


def short_rows(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Guesses where `reduced_rows` finds some, the likeliest first. Perhaps illegal."""
    found = reduced_rows(kernel)
    if found is None or extent(found[0]) < MANY * lanes:
        return
    rows, along = found
    outer = opt("PARALLEL", site_name(shared_axes(kernel)[0]))
    whole = tuple(opt("UPCAST", name, n) for name, n in {family_name(kernel, a): extent(a) for a in along}.items())
    for vectors in (2, 1):
        for beside in dict.fromkeys((copies(kernel), ())):
            yield (opt("UPCAST", site_name(rows), vectors * lanes), *whole, *beside, outer)


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
