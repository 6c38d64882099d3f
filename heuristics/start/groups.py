"""Start schedules for groups of two to four neighbours: pairs of a rotation, complex numbers, pixels, points in space. Lanes go over
the groups, and the neighbours are register copies, so that they are picked from whole vectors and woven into them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.access import accesses, deinterleavable
from ...opts.analysis.neighbours import factors
from ...opts.analysis.pages import buffer_bytes
from ...opts.analysis.structure import extent, nests, shared_axes
from ...opts.defaults import family_name, fit, rows, site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.cache import STREAM
from ...targets import Target
from .legal import Trials
from .streamed import far_bytes

SHORT = 16
"""Steps of the longest reduction that is spelled out."""
ROWS = 16
"""Rows of long sums that are a work item."""
STEPS = 4
"""Vectors of a sum from which on lanes along it pay, where neighbours are joined: adding them up in the end costs as much as a few steps."""
SPELLED = 32
"""Steps of a sum that are spelled out where few results lie side by side."""
ITEM = 512
"""Places that are a work item then."""
ITEMS = 64
"""Work items that are enough for any number of threads."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The axis `over` groups of neighbours, and that of the neighbours, where they have one."""

    over: Node
    near: Node | None


def grouped(kernel: Kernel) -> Groups | None:
    """The groups that the first stores are made of, or else those that a store's loads pick from; None where there are none,
    and where reductions are what counts."""
    if any(n.kind == "reduce" and prod(map(extent, n.reduce_axes)) > SHORT for n in nests(kernel)):
        return None
    found = [g for n in nests(kernel) if n.kind == "store" for g in (_of(kernel, n),) if g is not None]
    return next((g for g in found if g.near is not None), found[0] if found else None)


def _of(kernel: Kernel, nest: Nest) -> Groups | None:
    for x in sorted(accesses(kernel, nest), key=lambda x: not x.store):
        near = next((a for a, step in x.strides.items() if step == 1 and deinterleavable(extent(a)) and a in nest.axes), None)
        over = next((a for a, step in x.strides.items() if near is not None and step == extent(near) and a in nest.axes), None)
        if over is not None:
            return Groups(over, near)
    store = next(x for x in accesses(kernel, nest) if x.store)
    over = next((a for a, step in store.strides.items() if step == 1 and a in nest.axes), None)
    steps = [x.stride(over) for x in accesses(kernel, nest)] if over is not None else []
    if (
        over is None
        or any(step is None or not (step in (0, 1) or deinterleavable(step)) for step in steps)
        or not any(map(deinterleavable, filter(None, steps)))
    ):
        return None
    return Groups(over, None)


def group_schedule(kernel: Kernel, found: Groups, width: int) -> Opts:
    """The schedule with so many groups in registers, all neighbours of each; reductions are spelled out."""
    out = [] if found.near is None else [opt("UPCAST", site_name(found.near), extent(found.near))]
    if (amount := fit(extent(found.over), width)) > 1:
        out.append(opt("UPCAST", site_name(found.over), amount))
    steps = [a for n in nests(kernel) if n.kind == "reduce" for a in n.reduce_axes if extent(a) > 1]
    out += [opt("UNROLL", site_name(a), extent(a)) for a in dict.fromkeys(steps)]
    shared = [a for a in shared_axes(kernel) if a is not found.near]
    return (*out, *(opt("PARALLEL", site_name(a)) for a in shared[:1]))


def groups(trials: Trials, lanes: int) -> Iterator[Opts]:
    """Legal schedules whose lanes are over groups, the likeliest first. Two vectors of each neighbour: with one, what is computed once
    for a step (addresses, the loop, a long formula's chain) weighs as much as what is computed for its elements."""
    kernel = trials.kernel
    found = grouped(kernel)
    past = _past_caches(kernel, trials.target)
    for vectors in (2, 4, 1):
        opts = None if found is None else trials.legal((*group_schedule(kernel, found, vectors * lanes), *past))
        if found is None or opts is None:
            return
        s = trials.apply(opts)
        if any(lane is not None and lane.axis is found.over for n in s.nests for lane in (s.lanes(n).lane,)):
            yield opts


def _past_caches(kernel: Kernel, target: Target) -> Opts:
    """Stores past the caches, where all outputs together will not stay there: a line that is written whole need not be read first."""
    total = sum(buffer_bytes(b.shape, b.dtype.size) for b in kernel.outputs)
    return tuple(opt("CACHE", b.name, policy=STREAM) for b in kernel.outputs) if total >= far_bytes(kernel, target) else ()


def paired_sums(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Long sums over groups (of products of complex numbers, of distances of points): lanes over the groups, whose components are picked
    from whole vectors, and what `rows` takes along. Perhaps illegal; none where nothing lies in groups."""
    along = dict.fromkeys(
        a for n in nests(kernel) if n.kind == "reduce" for a in n.reduce_axes if extent(a) > SHORT and _pairs(kernel, n, a)
    )
    names = dict.fromkeys(family_name(kernel, a) for a in along)
    if not names:
        return
    rest = tuple(o for o in rows(kernel, target, threads, 1, False) if o.op in ("PARALLEL", "FUSE"))
    fused = tuple(opt("FUSE", name) for name in names if not any(o.op == "FUSE" for o in rest))
    outer = next((a for a in shared_axes(kernel) if extent(a) >= ITEMS * ROWS), None)
    if outer is not None:  # short rows are no work items of their own
        rest = (opt("TILE", site_name(outer), ROWS), *rest)
    for vectors in (1, 2, 4):
        wide = tuple(opt("UPCAST", name, fit(min(extent(a) for a in along), vectors * lanes)) for name in names)
        yield (*wide, *rest, *fused)
        yield (*wide, *rest)


def paired_results(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Long sums whose results are what groups are read for (a filter of complex samples): lanes over the results, and the sums of
    the components in one loop. Perhaps illegal; none where nothing lies in groups along results."""
    long = [n for n in nests(kernel) if n.kind == "reduce" and prod(map(extent, n.reduce_axes)) > SHORT]
    along = next((a for a in shared_axes(kernel) if extent(a) >= lanes and long and all(_pairs(kernel, n, a) for n in long)), None)
    if along is None or any(_slides_inside(kernel, n, along) for n in long):
        return
    rest = tuple(o for o in rows(kernel, target, threads, 1, False) if o.op in ("PARALLEL", "FUSE"))
    for vectors in (2, 4, 1):
        yield (opt("UPCAST", site_name(along), fit(extent(along), vectors * lanes)), *rest)


def woven_sums(kernel: Kernel, target: Target, lanes: int) -> Iterator[Opts]:
    """Long sums of which a few lie side by side for every place (the phases of a filter that resamples): lanes over the places, the few in
    registers, so that what is read along the places is read once for all of them. Perhaps illegal; none where results lie otherwise, nor
    of whole numbers whose neighbours one instruction multiplies and adds, in sums of some steps (`narrow_sums`)."""
    long = [n for n in nests(kernel) if n.kind == "reduce" and prod(map(extent, n.reduce_axes)) > SHORT]
    groups = [g for n in nests(kernel) if n.kind == "store" for g in (_of(kernel, n),) if g is not None and g.near is not None]
    if not long or not groups or any(g != groups[0] for g in groups):
        return
    over, near = groups[0].over, groups[0].near
    assert near is not None
    reads = [x for n in long for x in accesses(kernel, n) if not x.store]
    side_by_side = all(x.stride(over) in (0, 1) for x in reads) and any(x.stride(over) == 1 and not x.stride(near) for x in reads)
    joined = all(factors(n, target) is not None and extent(n.reduce_axes[-1]) >= STEPS * lanes for n in long)
    if joined or not side_by_side or extent(over) < lanes or any(near not in n.axes for n in long):
        return
    steps = tuple(opt("UNROLL", site_name(a), extent(a)) for n in long for a in n.reduce_axes[-1:] if extent(a) <= SPELLED)
    block = (opt("TILE", site_name(over), ITEM),) if extent(over) >= ITEMS * ITEM else ()
    outer = tuple(opt("PARALLEL", site_name(a)) for a in shared_axes(kernel)[:1])
    for vectors in (2, 4, 1):
        cut = (opt("UPCAST", site_name(over), fit(extent(over), vectors * lanes)), opt("UPCAST", site_name(near), extent(near)))
        yield from ((*cut, *more, *block, *outer) for more in dict.fromkeys((steps, ())))


def _slides_inside(kernel: Kernel, nest: Nest, axis: Node) -> bool:
    """Whether the steps of a sum go from one component of a group to the next, so that each would pick another one from as many vectors."""
    grouped_reads = [x for x in accesses(kernel, nest) if not x.store and deinterleavable(x.stride(axis) or 0)]
    return any((x.stride(a) or 0) % (x.stride(axis) or 1) for x in grouped_reads for a in nest.reduce_axes)


def _pairs(kernel: Kernel, nest: Nest, axis: Node) -> bool:
    """Whether a nest reads components of groups along an axis, and nothing further apart."""
    steps = [x.stride(axis) for x in accesses(kernel, nest) if not x.store]
    return all(s is not None and (s in (0, 1) or deinterleavable(s)) for s in steps) and any(
        s is not None and deinterleavable(s) for s in steps
    )
