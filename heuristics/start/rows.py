"""Start schedules for everything that is no contraction: lanes along the axis that is consecutive in memory, independent
partials for reductions, rows in parallel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...opts.access import accesses
from ...opts.analysis.pages import buffer_bytes
from ...opts.analysis.places import combine_of
from ...opts.analysis.structure import extent, lane_axis, nests, scanned_axes, shared_axes, stageable_values
from ...opts.defaults import family_name, fit, site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opt, Opts, opt
from ...opts.options.fuse import by_family
from ...opts.options.split import scan_name
from ...targets import Target
from ..machine import SLOW

NARROW = 24
"""Vectors of sums across rows that are all kept in registers."""
STEPS = 7
"""Steps of a window that are spelled out."""
SPELLED = 16
"""Steps of the window of a signal that are spelled out."""
SPELLED_WINDOW = 100
"""Steps of windows over rows that are spelled out."""
RUN = 1024
"""Results of short windows that are a work item."""
RESULTS = 256
"""Results of long windows that are a work item."""
LINE = 64
"""Bytes of a cache line."""
ROW = 4096
"""Columns whose results stay in the first cache while rows go by."""
ITEMS = 64
"""Work items that are enough for any number of threads."""


def columns(kernel: Kernel, target: Target, lanes: int, threads: int) -> Iterator[Opts]:
    """Where a reduction runs across the rows of what it reads: a few rows side by side over a strip whose results
    stay in scratch, so that memory is read in long runs."""
    found = [n for n in nests(kernel) if n.kind == "reduce"]
    lane = next((a for n in found for a in (lane_axis(kernel, n),) if a is not None), None)
    if lane is None or (lane.arg.family in kernel.families and len(kernel.families[lane.arg.family]) > 1):
        return
    along = [next((a for a in n.reduce_axes if _down(kernel, n, a, lane)), None) for n in found]
    down = list(dict.fromkeys(a for a in along if a is not None))
    if None in along:
        return
    yield from _whole_rows(kernel, target, lane, lanes, threads)
    width = min(-(-extent(lane) // lanes) * lanes, 1 << (extent(lane) - 1).bit_length())
    for a in down if len(found) == 1 else ():
        if width <= NARROW * lanes and len(found[0].axes) == 1 and extent(a) >= 16 * extent(lane):
            # all results in registers, chunks of the rows side by side
            pad = (opt("PADTO", site_name(lane), width),) if waste(extent(lane), width) > 0.25 else ()
            for chunks in (8 * threads, 2 * threads):
                yield (
                    opt("SPLIT", site_name(a), chunks),
                    *pad,
                    opt("UPCAST", site_name(lane), width),
                    opt("UNROLL", site_name(a), 4 if width <= 8 * lanes else 2),
                )
    if threads == 1 and extent(lane) <= ROW:
        return
    for strip in (1024, 2048) if len(found) == 1 else (512, 1024, 2048):  # (what one reduction reads the next one reads again)
        strip = min(strip, -(-extent(lane) // threads))  # a strip for each thread at least
        strip -= strip % (4 * lanes)
        if 4 * lanes < strip < extent(lane):
            cut = (opt("UPCAST", site_name(lane), 4 * lanes), opt("TILE", site_name(lane), strip), opt("PARALLEL", site_name(lane)))
            moves = tuple(opt("MOVE", site_name(a), before=f"{site_name(lane)}.t") for a in down)
            slow = {a for n in found if _is_slow(n) for a in n.reduce_axes}
            yield (*cut, *(opt("UNROLL", site_name(a), 2 if a in slow else 8) for a in down), *moves)


def few_columns(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Where reductions run down few columns, which other loops go along as well (statistics of channels, and what is made with them):
    the results of all columns in registers, so that each reduction reads whole rows. Those that may share a loop do."""
    found = [n for n in nests(kernel) if n.kind == "reduce"]
    beside = [next((b for b in n.axes for a in n.reduce_axes if _down(kernel, n, a, b)), None) for n in found]
    if not found or len({b.arg.family if b is not None else None for b in beside}) != 1:
        return
    lane = beside[0]
    if lane is None or len(kernel.families.get(lane.arg.family, ())) < 2:
        return
    families = [a.arg.family for n in found for a in n.reduce_axes]
    fused = tuple(opt("FUSE", f) for f in dict.fromkeys(families) if families.count(f) > 1)
    width = -(-extent(lane) // lanes) * lanes
    if width <= NARROW * lanes:
        pad = (opt("PADTO", family_name(kernel, lane), width),) if waste(extent(lane), width) > 0.25 else ()
        yield (*pad, opt("UPCAST", family_name(kernel, lane), width), *fused)


def _whole_rows(kernel: Kernel, target: Target, lane: Node, lanes: int, threads: int) -> Iterator[Opts]:
    """Everything that goes down the columns, stores too, row by row: each row whole, or a strip of it for each thread, in the order in
    which memory has it. The columns' results stay in the first cache meanwhile."""
    over = [(n, next((a for a in (*n.reduce_axes, *reversed(n.axes)) if _down(kernel, n, a, lane)), None)) for n in nests(kernel)]
    if any(lane not in n.axes or (a is None and n.all_axes != (lane,)) for n, a in over):
        return
    outer = [a for a in shared_axes(kernel) if a is not lane]
    name, strip = site_name(lane), min(ROW, extent(lane) if outer else -(-extent(lane) // threads))
    width = fit(extent(lane), 8 * lanes)
    strip = -(-strip // width) * width
    cut: list[Opt] = [opt("UPCAST", name, width)]
    if strip < extent(lane):
        cut += [opt("TILE", name, strip)]
    loop = f"{name}.t" if len(cut) > 1 else name
    cut += [opt("PARALLEL", site_name(outer[0]))] if outer else [opt("PARALLEL", name)] if len(cut) > 1 else []
    moves = [opt("MOVE", site_name(a), before=loop) for _, a in over if a is not None]
    kept = [opt("STAGE", v, at=site_name(outer[0]) if outer else name) for v in stageable_values(kernel)]
    spelled = [
        opt("UNROLL", site_name(a), 4) for n, a in over if a in n.reduce_axes and not _is_slow(n) and not _in_order(kernel, n, target)
    ]
    yield (*cut, *spelled, *moves)
    if kept:
        yield (*cut, *spelled, *moves, *kept)
    families = {a.arg.family for n, a in over if a in n.reduce_axes}
    yield from ((*cut, *spelled, *moves, opt("FUSE", f)) for f in by_family(kernel, target) if f in families)


def _in_order(kernel: Kernel, n: Nest, target: Target) -> bool:
    """Whether a nest waits for what it reads, so that one row after the other is best: a plain sum of more than the second cache holds.
    (What is computed beside an extreme's place takes longer than the rows take to come.)"""
    items = math.prod(extent(a) for a in shared_axes(kernel) if a is not n.axes[-1])
    reads = [x.buffer for x in accesses(kernel, n) if not x.store]
    return combine_of(n) == "add" and any(buffer_bytes(b.shape, b.dtype.size) > target.l2 * items for b in reads)


def _is_slow(n: Nest) -> bool:
    """Whether a nest computes what takes many instructions."""
    return any(x.op in SLOW for x in walk(n.expr))


def _down(kernel: Kernel, n: Nest, a: Node, lane: Node) -> bool:
    """Whether a step along an axis is one down the columns that lie side by side along `lane`, in all that a nest reads over it."""
    mine = [x for x in accesses(kernel, n) if not x.store and a in x.strides]
    return bool(mine) and all(x.strides.get(lane) == 1 and (x.stride(a) or 0) > extent(lane) // 2 for x in mine)


def windows(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Where a reduction slides over what it reads (pooling): the rows under it are staged once, bounds and all, or read where they are,
    and the steps of a row are spelled out."""
    for n in nests(kernel):
        lane = lane_axis(kernel, n) if n.kind == "reduce" else None
        slid = [
            x
            for x in accesses(kernel, n)
            if lane is not None and lane in x.strides and not x.store and any(x.stride(a) == 1 for a in n.reduce_axes)
        ]
        free = [a for a in shared_axes(kernel) if a is not lane]
        if lane is not None and slid and not free:  # a signal's: all steps are spelled out
            every = [a for m in nests(kernel) if m.kind == "reduce" for a in m.reduce_axes if extent(a) > 1]
            near = next((a for a in every if slid[0].stride(a) == 1), None)
            step = slid[0].stride(lane) or 0
            if near is None or step >= extent(near):  # rows, and no windows that overlap
                continue
            if step > 1 and extent(near) > SPELLED and len(every) == 1:
                # every so manieth result: lanes along the window, a few results side by side, many to a work item
                cut = (
                    opt("UPCAST", site_name(near), fit(extent(near), 2 * lanes)),
                    opt("UPCAST", site_name(lane), 4),
                    opt("TILE", site_name(lane), RESULTS),
                )
                yield (*cut, opt("PARALLEL", site_name(lane)))
            if all(extent(a) <= SPELLED or (extent(a) <= SPELLED_WINDOW and combine_of(n) in ("max", "min")) for a in every):
                steps = [opt("UNROLL", site_name(a), extent(a)) for a in dict.fromkeys(every)]
                families = [a.arg.family for a in dict.fromkeys(every)]
                steps += [opt("FUSE", f) for f in dict.fromkeys(families) if families.count(f) > 1]
                block = [opt("TILE", site_name(lane), RUN)] if extent(lane) >= 16 * RUN else []
                for vectors in (4, 2):
                    wide = opt("UPCAST", site_name(lane), fit(extent(lane), vectors * lanes))
                    yield (wide, *steps, opt("PARALLEL", site_name(lane)))
                    yield (wide, *block, *steps, opt("PARALLEL", site_name(lane)))
        if lane is None or not slid or len(free) < 2:
            continue
        steps = [opt("UNROLL", site_name(a), extent(a)) for a in n.reduce_axes[-1:] if 1 < extent(a) <= STEPS]
        outer = free[:1] if extent(free[0]) >= ITEMS else free[:-1]
        grid = [opt("PARALLEL", site_name(a)) for a in outer]
        for vectors in (4, 2, 1):
            width = fit(extent(lane), vectors * lanes)
            if width > 1:
                yield (
                    opt("UPCAST", site_name(lane), width),
                    *steps,
                    *grid,
                    opt("STAGE", slid[0].buffer.name, at=site_name(free[-1]), order="row"),
                )
                # several rows of results share the rows they slide over
                copies = [opt("UPCAST", site_name(free[-1]), 4)] if vectors < 4 and waste(extent(free[-1]), 4) <= 0.25 else []
                yield (
                    opt("UPCAST", site_name(lane), width),
                    *copies,
                    *steps,
                    *grid,
                    opt("STAGE", slid[0].buffer.name, at=site_name(outer[-1]), order="row"),
                )
                if copies:  # or read where they are
                    yield (opt("UPCAST", site_name(lane), width), *copies, *steps, *grid[:1])


def slid_windows(kernel: Kernel, lanes: int) -> Iterator[Opts]:
    """Reductions of windows that slide over rows: all steps are spelled out, and rows of results side by side share what they read, and of
    extremes what they compute too."""
    n = next((n for n in nests(kernel) if n.kind == "reduce"), None)
    lane = lane_axis(kernel, n) if n is not None else None
    if n is None or lane is None:
        return
    free = [a for a in shared_axes(kernel) if a is not lane]
    read = [(x, a) for x in accesses(kernel, n) if lane in x.strides and not x.store for a in n.reduce_axes if x.stride(a) == 1]
    # (what is longer than a vector and does not overlap is a row)
    slides = any(extent(a) <= lanes or (x.stride(lane) or 0) < extent(a) for x, a in read)
    every = list(dict.fromkeys(a for m in nests(kernel) if m.kind == "reduce" for a in m.reduce_axes if extent(a) > 1))
    if not free or not slides or math.prod(extent(a) for a in every) > SPELLED_WINDOW:
        return
    steps = [opt("UNROLL", site_name(a), extent(a)) for a in every]
    for vectors, copies in ((2, 4), (1, 4), (4, 2), (1, 8)):
        side = [opt("UPCAST", site_name(free[-1]), copies)] if waste(extent(free[-1]), copies) <= 0.25 else []
        yield (opt("UPCAST", site_name(lane), fit(extent(lane), vectors * lanes)), *side, *steps, opt("PARALLEL", site_name(free[0])))


def scans(kernel: Kernel, lanes: int, threads: int) -> Iterator[Opts]:
    """Where a scan runs along what is consecutive in memory: a vector of prefixes at a time, and rows side by side for more chains.
    Where it runs across that, whole rows in the order in which they lie in memory, a few of them at a time, in strips for the threads."""
    scanned = scanned_axes(kernel)
    for n in nests(kernel):
        if n.kind != "scan":
            continue
        along = _consecutive(kernel, n)
        if along is None:
            continue
        free = [a for a in shared_axes(kernel) if a is not along]
        outer = tuple(opt("PARALLEL", site_name(a)) for a in free[:1])
        if along in scanned:
            across = [a for a in n.axes if a is not along and extent(a) >= 8]
            for vectors, copies in ((1, 2), (2, 2), (1, 4), (1, 1), (4, 1)):
                side = (opt("UPCAST", site_name(across[-1]), copies),) if across and copies > 1 else ()
                wide = opt("UPCAST", family_name(kernel, along), fit(extent(along), vectors * lanes))
                yield (wide, *side, *outer)
                chunks = 4 * threads if extent(along) >= 4 * CHUNK * threads else threads
                if not outer and threads > 1 and extent(along) >= CHUNK * chunks:
                    yield (opt("SPLIT", scan_name(kernel, along), chunks), wide, *side)
            if across and extent(across[-1]) >= 4 * lanes and extent(along) % TURNED == 0:
                steps = opt("UPCAST", family_name(kernel, along), TURNED)  # where a step is long, a row to each lane
                yield (steps, opt("UPCAST", site_name(across[-1]), lanes), *outer)
        elif axes := [a for a in n.axes if a in scanned]:
            others = [a for a in scanned if a not in n.axes and a.arg.family == axes[-1].arg.family]
            yield from _down_columns((axes[-1], *others), along, lanes, threads, outer)


def _consecutive(kernel: Kernel, n: Nest) -> Node | None:
    """The axis of a nest that is consecutive in what most of its axes go through, read by it or, where it reads what is kept, by others: a
    factor of each step lies in an order of its own."""
    for which in ([n], nests(kernel)):
        found = [x for m in which for x in accesses(kernel, m) if sum(a in x.strides for a in n.axes) == len(n.axes)]
        near = next((a for x in found for a in n.axes if x.strides.get(a) == 1), None)
        if near is not None:
            return near
    return next((a for x in accesses(kernel, n) for a in n.axes if x.strides.get(a) == 1), None)


TURNED = 4
"""Steps of rows that are turned in registers, so that each lane has a row."""
CHUNK = 512
"""Elements of a chunk of a scan that is worth a work item."""
COLUMNS = (8192, 2048, 512)
"""Columns that are scanned at once: their states are to stay in the first cache, with a few rows of what is read and stored, and what one
scan hands on to another one that goes the other way in the second."""


def _down_columns(axes: Sequence[Node], along: Node, lanes: int, threads: int, outer: Opts) -> Iterator[Opts]:
    """A scan along the first of `axes`, of columns that lie next to each other along another one; the others are those of further scans of
    the same columns, such as one that goes up again."""
    # (a state is read and written once for the steps that are taken at once, but each of them reads and writes a row of its own)
    for most, (vectors, copies) in product(COLUMNS, ((2, 4), (4, 4), (4, 2), (8, 1), (16, 1))):
        strip = most if outer else min(most, -(-extent(along) // threads))
        width = fit(extent(along), vectors * lanes)
        strip = -(-strip // width) * width
        steps = ((a, min(copies, extent(a))) for a in axes)
        cut = tuple(opt("UPCAST", site_name(a), n) for a, n in ((along, width), *steps) if n > 1)
        name = site_name(along)
        if 0 < strip < extent(along):
            cut += (opt("TILE", name, strip), *(opt("MOVE", site_name(a), before=f"{name}.t") for a in axes))
            cut += () if outer else (opt("PARALLEL", name),)
        else:
            cut += tuple(opt("MOVE", site_name(a), before=name) for a in axes[1:])
        yield (*cut, *outer)
