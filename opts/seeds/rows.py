"""Seeds for everything that is no contraction: lanes along the axis that is consecutive in memory, independent partials for reductions, rows in parallel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ...ir.kernel import Buffer, Kernel
from ...ir.node import Node
from ...targets import Target
from ..fetch import fetching
from ..model.pages import is_far
from ..nests import build
from ..opt import Opt, Opts, opt
from ..structure import accesses, contiguous, extent, lane_axis, nests, scanned_axes, shared_axes, stageable_values
from .legal import waste


def rows(kernel: Kernel, target: Target, threads: int, width: int, stage: bool, copies: int = 1) -> Opts:
    """Lanes along consecutive axes (spatial, or as independent partials of a reduction), outer axes in parallel, `copies` of
    the innermost shared one at once."""
    out: list[Opt] = []
    cut: set[str] = set()
    for n in nests(kernel):
        if n.kind == "scan":
            continue
        lane = lane_axis(kernel, n) if n.kind == "reduce" else None
        choices = contiguous(kernel, n)
        if lane is not None and lane in choices:
            choices = [lane]
        if not choices:
            continue
        a = choices[0]
        family = a.arg.family
        if family in cut or a.arg.name in cut or _widens_reduction(kernel, a, cut):
            continue
        amount = _fit(extent(a), width)
        if amount > 1:
            out.append(opt("UPCAST", _family_name(kernel, a), amount))
            cut |= {family, a.arg.name}
    out += _row_copies(kernel, threads, cut)
    shared = shared_axes(kernel)
    whole = [a for n in nests(kernel) for a in n.reduce_axes if n.kind == "reduce" and extent(a) >= 1 << 15]
    if threads > 1 and whole and not any(extent(a) >= threads for a in shared):
        # nothing to spread but the reduction itself: chunks of it, several streams for each thread
        name, chunks = _name(whole[0]), _chunks(extent(whole[0]), threads, width)
        out += [opt("SPLITK", name, chunks), opt("UPCAST", f"{name}.s", 4)]
    if shared:
        best = [a for a in shared if extent(a) >= threads] or shared
        whole = [a for a in best if a.arg.family not in cut and a.arg.name not in cut]
        if copies > 1 and whole and extent(whole[-1]) >= 4 * copies:
            out.append(opt("UPCAST", _name(whole[-1]), copies))
        out += [opt("PARALLEL", _name(a)) for a in best[: 1 if extent(best[0]) >= 8 * threads else 2]]
        if stage:
            at = _name(best[0])
            out += [opt("STAGE", v, at=at) for v in stageable_values(kernel)]
    worth = [b for b in kernel.outputs if _worth_fetching(kernel, b, target)] or [b for b in kernel.inputs if _worth_fetching(kernel, b, target)]
    return (*out, *(opt("FETCH", b.name) for b in worth))


def _worth_fetching(kernel: Kernel, b: Buffer, target: Target) -> bool:
    """Whether rows of a buffer in memory can be asked for before they are used: what one pass asks for stays in the second cache until the next, beside what both
    read. (Where an output is asked for, the prefetchers have time enough for the inputs.)"""
    found = fetching(build(kernel, {}), b) if target.kind != "gpu" and is_far(target, b.shape, b.dtype.size) else None
    return found is not None and 4 * extent(found.nest.reduce_axes[0]) * b.dtype.size <= target.l2


def _chunks(size: int, threads: int, width: int) -> int:
    """How many chunks to split a long reduction into: a few for each thread, without a ragged end where possible."""
    for n in (64, 48, 80, 96, 32, 128, 16):
        if n % (4 * threads) == 0 and size % (n * width) == 0:
            return n
    return 16 * threads


def _widens_reduction(kernel: Kernel, a: Node, cut: set[str]) -> bool:
    """Whether copies along `a` would multiply a reduction that has its lanes along its own axis already."""
    return any(n.kind == "reduce" and a in n.axes and any(r.arg.family in cut for r in n.reduce_axes) for n in nests(kernel))


NARROW = 24
"""Vectors of sums across rows that are all kept in registers."""
STEPS = 7
"""Steps of a window that are spelled out."""
ITEMS = 64
"""Work items that are enough for any number of threads."""


def columns(kernel: Kernel, lanes: int, threads: int) -> Iterator[Opts]:
    """Where a reduction runs across the rows of what it reads: a few rows side by side over a strip whose results stay in scratch, so that memory is read in long
    runs."""
    found = [n for n in nests(kernel) if n.kind == "reduce"]
    lane = lane_axis(kernel, found[0]) if len(found) == 1 else None
    if lane is None or (lane.arg.family in kernel.families and len(kernel.families[lane.arg.family]) > 1):
        return
    along = [
        a
        for a in found[0].reduce_axes
        if all(x.strides.get(lane) == 1 and (x.stride(a) or 0) > extent(lane) // 2 for x in accesses(kernel, found[0]) if not x.store)
    ]
    width = min(-(-extent(lane) // lanes) * lanes, 1 << (extent(lane) - 1).bit_length())
    for a in along[:1]:
        if width <= NARROW * lanes and len(found[0].axes) == 1 and extent(a) >= 16 * extent(lane):
            # all results in registers, chunks of the rows side by side
            pad = (opt("PADTO", _name(lane), width),) if waste(extent(lane), width) > 0.25 else ()
            for chunks in (8 * threads, 2 * threads):
                yield (opt("SPLITK", _name(a), chunks), *pad, opt("UPCAST", _name(lane), width), opt("UNROLL", _name(a), 4 if width <= 8 * lanes else 2))
    for a, strip in product(along[:1], (1024, 2048)):
        strip = min(strip, -(-extent(lane) // threads))  # a strip for each thread at least
        strip -= strip % (4 * lanes)
        if 4 * lanes < strip < extent(lane):
            cut = (opt("UPCAST", _name(lane), 4 * lanes), opt("TILE", _name(lane), strip), opt("PARALLEL", _name(lane)))
            yield (*cut, opt("UNROLL", _name(a), 8), opt("MOVE", _name(a), before=f"{_name(lane)}.t"))


def windows(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Where a reduction slides over what it reads (pooling): the rows under it are staged once, bounds and all, and the steps of a row are spelled out."""
    for n in nests(kernel):
        lane = lane_axis(kernel, n) if n.kind == "reduce" else None
        slid = [x for x in accesses(kernel, n) if lane is not None and lane in x.strides and not x.store and any(x.stride(a) == 1 for a in n.reduce_axes)]
        free = [a for a in shared_axes(kernel) if a is not lane]
        if lane is None or not slid or len(free) < 2:
            continue
        steps = [opt("UNROLL", _name(a), extent(a)) for a in n.reduce_axes[-1:] if 1 < extent(a) <= STEPS]
        outer = free[:1] if extent(free[0]) >= ITEMS else free[:-1]
        grid = [opt("PARALLEL", _name(a)) for a in outer]
        for vectors in (4, 2, 1):
            width = _fit(extent(lane), vectors * lanes)
            if width > 1:
                yield (opt("UPCAST", _name(lane), width), *steps, *grid, opt("STAGE", slid[0].buffer.name, at=_name(free[-1]), order="row"))
                # several rows of results share the rows they slide over
                copies = [opt("UPCAST", _name(free[-1]), 4)] if vectors < 4 and waste(extent(free[-1]), 4) <= 0.25 else []
                yield (opt("UPCAST", _name(lane), width), *copies, *steps, *grid, opt("STAGE", slid[0].buffer.name, at=_name(outer[-1]), order="row"))


def scans(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Where a scan runs along what is consecutive in memory: a vector of prefixes at a time, and rows side by side for more chains."""
    for n in nests(kernel):
        if n.kind != "scan":
            continue
        axis = next(a for a in n.axes if a in scanned_axes(kernel))
        if not any(x.strides.get(axis) == 1 for x in accesses(kernel, n)):
            continue
        free = shared_axes(kernel)
        for vectors, copies in ((1, 2), (2, 2), (1, 4), (1, 1), (4, 1)):
            width = _fit(extent(axis), vectors * lanes)
            side = (opt("UPCAST", _name(free[-1]), copies),) if free and copies > 1 and extent(free[-1]) >= 4 * copies else ()
            yield (opt("UPCAST", _family_name(kernel, axis), width), *side, *(opt("PARALLEL", _name(a)) for a in free[:1]))


def transposed(kernel: Kernel, target: Target, lanes: int) -> list[Opts]:
    """Where a store is consecutive along one axis and its load along another: square blocks turned in registers, or tiles through scratch."""
    out: list[Opts] = []
    for n in nests(kernel):
        if n.store is None or n.kind != "store" or len(nests(kernel)) > 1:
            continue
        into = next((a for x in accesses(kernel, n) if x.store for a, st in x.strides.items() if st == 1), None)
        # (what does not vary along the store, such as a row's number, is read once for many)
        along = next((a for x in accesses(kernel, n) if not x.store and into in x.strides for a, st in x.strides.items() if st == 1), None)
        if into is None or along is None or into is along or min(extent(into), extent(along)) < lanes:
            continue
        cuts = (opt("UPCAST", _name(into), lanes), opt("UPCAST", _name(along), lanes))
        free = [a for a in shared_axes(kernel) if a not in (into, along)]
        if n.store.buffer.dtype.size >= 4:  # turned in registers; pieces of whole lines are written past the caches where the output will not stay there
            block, outer = 4 * lanes, tuple(opt("PARALLEL", _name(a)) for a in free)
            past = (opt("NT", n.store.buffer.name),) if is_far(target, n.store.buffer.shape, n.store.buffer.dtype.size) else ()
            if extent(along) >= 2048:  # strips of the output's rows, all of them by one item: fewer pages at a time
                out.append((*cuts, *outer, opt("PARALLEL", _name(into)), opt("TILE", _name(along), 1024), opt("PARALLEL", _name(along)), *past))
            if extent(into) >= 2 * block:
                wide = (opt("TILE", _name(into), block), opt("PARALLEL", _name(into)), opt("MOVE", _name(along), before=f"{_name(into)}.t"))
                out.append((*cuts, *outer, *wide, *past))
            out.append((*cuts, *outer, opt("PARALLEL", _name(into))))
        grid = tuple(opt("PARALLEL", _name(a)) for a in (*free, along))
        out.append((*cuts, *grid, opt("PARALLEL", _name(into)), opt("STAGE", n.store.buffer.name, at=_name(into))))
        if extent(into) >= 8 * lanes:
            out.append((*cuts, opt("TILE", _name(into), 4 * lanes), *grid, opt("STAGE", n.store.buffer.name, at=_name(into))))
    return out


def _row_copies(kernel: Kernel, threads: int, cut: set[str]) -> list[Opt]:
    """Several rows at once where they share what is read (matvec): fewer loads, and more chains to hide latency."""
    out: list[Opt] = []
    for n in nests(kernel):
        along = contiguous(kernel, n)[:1]
        if n.kind != "reduce" or not along or along[0] not in n.reduce_axes or len(nests(kernel)) > 2:
            continue
        loaded = [a for a in accesses(kernel, n) if not a.store and a.strides]
        for a in n.axes:
            if a.arg.family not in cut and extent(a) >= 4 * max(1, threads) and any(x.stride(a) == 0 for x in loaded):
                out.append(opt("UPCAST", _name(a), 4))
                cut.add(a.arg.family)
    return out


def _family_name(kernel: Kernel, a: Node) -> str:
    family = kernel.families.get(a.arg.family, (a,))
    return str(a.arg.family) if len(family) > 1 else _name(a)


def _fit(size: int, width: int) -> int:
    """The widest power of two up to `width` that wastes at most a quarter of `size`."""
    while width > 1 and waste(size, width) > 0.25:
        width //= 2
    return width


def _name(a: Node) -> str:
    return str(a.arg.name)
