"""Start schedules: a good answer with no search, from the kernel's structure and the target.

Read `opts/analysis/structure.py` first. Contractions have their start schedules in `contractions.py`, folds that multiply (attention) in
`folds.py`, everything else in `rows.py`; GPUs in `gpu.py`. Here they are gathered, the model's favourites first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Set
from itertools import chain, islice

from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...log import logger
from ...opts.access import accesses
from ...opts.analysis.computed import all_contractions
from ...opts.analysis.pages import is_far
from ...opts.analysis.ragged import conditions, selected, sides
from ...opts.analysis.structure import contiguous, contractions, extent, lane_axis, nests, shared_axes, stepped
from ...opts.decided_blocks import undecided
from ...opts.defaults import family_name, fit, rows, site_name, waste
from ...opts.meeting import scatter_ordered
from ...opts.nests import Nest
from ...opts.opt import Opts, opt, short
from ...opts.options.cache import STREAM
from ...opts.options.early_exit import early_exits
from ...opts.options.fuse import with_rows
from ...opts.options.own import ownable
from ...targets import Target
from ..contraction_order import much_cheaper
from ..model import estimate
from .blocked import blocked_starts
from .chains import chain_guesses
from .computed import computed_starts
from .constants import constant_starts
from .contractions import best_contractions
from .dotted_rows import dotted_rows
from .each_axis import each_axis, other_lanes
from .effects import EXACT
from .finished import finished
from .folds import fold_starts
from .gpu.candidates import gpu_candidates
from .groups import groups, paired_results, paired_sums, woven_sums
from .hoisted import hoisted
from .legal import Trials
from .narrow import narrow_sums
from .neighbours import neighbour_tiles
from .online import online_starts
from .phased import phase_starts
from .picked_rows import gathers, picked_rows, whole_picked_rows
from .placed import joined_places
from .rows import columns, few_columns, scans, slid_windows, windows
from .scaled_groups import scaled_groups
from .scatters import private_copies
from .short_rows import reduced_rows, short_rows, short_sums
from .spelled import spelled_steps
from .stamps import stamps
from .streamed import streamed
from .tiny_axes import in_registers
from .transposed import transposed

# ragged -----------------------------------------------------------------------------------------------------
# Start schedules for sums and extremes of which data says how far they go, such as those along padded rows.
#
# One row at a time: of several side by side the longest counts, and each needs a mask. Few steps are taken at once,
# since the last of them reach past the row.


RESULTS = (8, 16, 4, 2, 1)
"""Vectors of results that are summed up at once."""
STEPS = (2, 4)
"""Vectors of a row that are read in a step."""
ROWS, ITEMS = 16, 64
"""Rows of a work item, and how many of those are enough for any number of threads."""
PICKED = 4
"""Elements that are picked in a step, as many at once as cost no more than one by one."""


def ragged_rows(kernel: Kernel, lanes: int, threads: int) -> Iterator[Opts]:
    """Guesses where a reduction of the kernel ends where data says. Perhaps illegal."""
    reducing = [n for n in nests(kernel) if n.kind == "reduce" and n.axes and _by_data(n)]
    joined = dict.fromkeys(family_name(kernel, a) for n in reducing for a in n.reduce_axes if len(kernel.families[a.arg.family]) > 1)
    for wish in dict.fromkeys((*w, *more) for n in reducing for w in _lanes(kernel, n, lanes) for more in _beside(kernel, n, lanes)):
        for together in [*((opt("FUSE", name),) for name in joined), ()]:
            outer = shared_axes(kernel)[:1]
            if threads > 1 and outer and extent(outer[0]) >= ITEMS * ROWS:  # short rows are no work items of their own
                yield (*wish, opt("TILE", site_name(outer[0]), ROWS), opt("PARALLEL", site_name(outer[0])), *together)
            yield (*wish, *(opt("PARALLEL", site_name(a)) for a in outer), *together)
            if threads == 1:
                yield (*wish, *together)


def _lanes(kernel: Kernel, n: Nest, lanes: int) -> Iterator[Opts]:
    """Lanes along results, along the rows, or along what is picked."""
    for a in contiguous(kernel, n):
        size, name = extent(a), family_name(kernel, a)
        if size >= lanes:
            many = RESULTS if a in n.axes else STEPS
            yield from ((opt("UPCAST", name, fit(size, min(v * lanes, size))),) for v in many)
            if a in n.axes and size % lanes == 0 and size <= max(RESULTS) * lanes:
                yield (opt("UPCAST", name, size),)
    for a in n.reduce_axes:
        if _picked(n, a):
            yield ()
            yield (opt("UPCAST", family_name(kernel, a), min(PICKED, extent(a))),)


def _by_data(n: Nest) -> bool:
    """Whether data says how far a reduction goes, or which of the rows that it picks are there."""
    where = selected(n)
    return any(sides(c) for c in conditions(n)) or (where is not None and where.op == "where" and gathers(n))


def _beside(kernel: Kernel, n: Nest, lanes: int) -> Iterator[Opts]:
    """What else is wished: nothing, or lanes along the rows of other reductions."""
    yield ()
    others = (m for m in nests(kernel) if m.kind == "reduce" and m is not n)
    along = [a for m in others for a in contiguous(kernel, m) if a in m.reduce_axes and extent(a) >= lanes]
    if along:
        yield tuple(opt("UPCAST", site_name(a), lanes) for a in dict.fromkeys(along))


def _picked(n: Nest, axis: Node) -> bool:
    """Whether single elements lie where data says that changes along an axis."""
    return any(axis in axes_of(i) and any(x.op == "load" for x in walk(i)) for _, at, _ in loads(*n.roots) for i in at[-1:])


# reused reads -----------------------------------------------------------------------------------------------
# Start schedules of kernels that are no products, but whose results share what they read all the same: how many of each column
# lie below each of some thresholds, a column's sums at each of some scales, how much each of some boxes overlaps each
# of others. A register tile of results loads each element, and computes what is of it alone, once for several of them.


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


# left early -------------------------------------------------------------------------------------------------
# Start schedules that leave reductions early whose results are known before all elements are.


LIKELY = 8
"""Start schedules of which it is tried."""


def with_early_exits(trials: Trials, threads: int, found: Iterable[Opts]) -> Iterator[Opts]:
    """`found`, and before them the likeliest ones with early exits, where the model takes that to be faster. (How early depends
    on data; whoever asks where something holds first, or whether anything does, mostly has some for which it does.)"""
    names = _early_exits(trials.kernel) if trials.target.kind != "gpu" and not trials.target.groups else []
    if not names:
        yield from found
        return
    rest = iter(found)
    head = list(islice(rest, LIKELY))
    times: dict[Opts, float] = {}
    least = min((estimate(trials.apply(o), threads) for h in head if (o := trials.legal(h)) is not None), default=0.0)
    for h in head:
        alone = tuple(o for o in h if o.op != "FUSE")
        for wish in dict.fromkeys(((*alone, *(opt("EARLY_EXIT", n) for n in names)), *((*alone, opt("EARLY_EXIT", n)) for n in names))):
            legal = trials.legal(wish)
            if legal is not None:
                times[legal] = estimate(trials.apply(legal), threads)
    ranked = sorted(times, key=times.__getitem__)
    yield from (o for o in ranked if times[o] < least)
    yield from head
    yield from rest


def _early_exits(kernel: Kernel) -> list[str]:
    """The reductions that may be known long before the end: not the place of an extreme, which is as likely to be anywhere."""
    found = {n.name: n for n in nests(kernel)}
    return [name for name in early_exits(kernel) if not any(x.op == "eq" and "ref" in (s.op for s in x.src) for x in found[name].nodes)]


# gathered ---------------------------------------------------------------------------------------------------
POINTS = 64
"""Points of scatters that are spelled out, over all of a kernel."""
KEPT = 12
"""Start schedules of a GPU."""
log = logger("heuristics")


def starts(
    kernel: Kernel,
    target: Target,
    threads: int = 1,
    allowed: Set[str] = EXACT,
    phase: bool = False,
    part: bool = False,
    whole: Trials | None = None,
) -> list[Opts]:
    """Legal start schedules, best guess first; never empty. `allowed`: effects that they may have on GPUs; `phase`: it is one of the kernels
    of a guess, of which there are many, so fewer things are tried; `part`: of one with phases for values (`hoisted`); `whole`: the trials
    of the kernel that it is then a part of."""
    if kernel.blocks is not None:
        return blocked_starts(kernel, target, threads, starts(undecided(kernel), target, threads, allowed))
    found: dict[Opts, None] = {}
    trials = Trials(kernel, target, whole)
    if target.kind == "gpu":
        found |= dict.fromkeys(gpu_candidates(trials, allowed)[:KEPT])
        return list(found | {(): None})
    streams = streamed(trials, threads, joined_places(trials, threads, _candidates(trials, threads, phase)))
    alone = with_early_exits(trials, threads, finished(trials, threads, streams))

    def parts(k: Kernel) -> list[Opts]:
        return starts(k, target, threads, phase=phase, part=True, whole=trials)

    each = list(hoisted(trials, threads, alone, parts, part=part, counted=not phase))
    if any(b.constant for b in kernel.inputs):
        found |= dict.fromkeys(_ranked(trials, threads, constant_starts(kernel, target, threads, each))[:4])
    for opts in each:
        legal = trials.legal(opts)
        if legal is not None:
            found.setdefault(legal)
    if target.simt:
        found |= dict.fromkeys(gpu_candidates(trials)[:4])
    found.setdefault(())
    if log.listens():
        log.debug(
            "%s for %s, %d threads: %d start schedules, the first %s",
            kernel.name,
            target.name,
            threads,
            len(found),
            short(next(iter(found))),
        )
    return list(found)


def _candidates(trials: Trials, threads: int, phase: bool) -> Iterable[Opts]:
    kernel, target = trials.kernel, trials.target
    neighbours = list(groups(trials, row_lanes(kernel, target))) if reduced_rows(kernel) is None else []
    if not any(n.kind == "scan" for n in nests(kernel)):  # (along a scan its steps wait for each other: other lanes may be better)
        yield from _beside_tiles(trials, threads, neighbours)
    found = all_contractions(kernel)

    def phases(k: Kernel) -> list[Opts]:
        return starts(k, target, threads, phase=True, whole=trials)

    computed = list(phase_starts(trials, phases))
    if much_cheaper(kernel):
        yield from _ranked(trials, threads, computed)
        return
    yield from online_starts(trials, phases)
    computed += computed_starts(trials, threads, phases)
    main = max(found, key=lambda c: work(c.nest), default=None)
    lanes = row_lanes(kernel, target)
    if computed:
        computed += [*dotted_rows(kernel, target, lanes), *(best_contractions(trials, threads, main) if main is not None else ())]
    yield from _ranked(trials, threads, computed)[:8]
    if not any(stepped(kernel, c.nest) for c in found):
        yield from _ranked(trials, threads, fold_starts(kernel, target, threads))[:6]
    plain = {o: estimate(trials.apply(o), threads) for o in neighbours}
    if main is not None:
        best = best_contractions(trials, threads, main)
        if any(extent(a) > 1 for a in main.rows) and extent(main.lane) >= target.lanes(main.nest.expr.dtype):
            yield from _ranked(trials, threads, [*best, *dotted_rows(kernel, target, lanes)])[: len(best)]
        else:  # each operand is used for one row of results, or by less than a vector of them, so it is a row kernel as much
            plain |= {o: estimate(trials.apply(o), threads) for o in best}
    # two rows at once read two streams from memory, where a row is worked through several times
    shapes = [(v, 1) for v in (4, 2, 8, 1)] + [(v, 2) for v in (4, 2) if len(nests(kernel)) > 1]
    written = sum(by_points(n) for n in nests(kernel))
    if written:  # each point is written by itself: no more of them than code stays short for
        shapes = [(v, c) for v, c in shapes if v * lanes * written <= POINTS] or [(1, 1)]
    elif any(n.kind == "init" for n in nests(kernel)):
        shapes += [(16, 1), (32, 1)]  # rows that are scattered: longer pieces of each
    if any(gathers(n) for n in nests(kernel)):
        # rows from anywhere: the prefetchers follow several, but do not know where the next one starts
        shapes += [(8, 4), (8, 8), (2, 4), (1, 4)]
    across = (rows(kernel, target, threads, v * lanes, stage, copies) for v, copies in shapes for stage in (True, False))
    for wish in chain(spelled_steps(kernel, lanes), across):  # (steps first: they are taken where the model sees no difference)
        opts = trials.legal(wish)
        if opts is not None and opts not in plain:
            plain[opts] = estimate(trials.apply(opts), threads)
    for wish in _row_guesses(trials, threads, lanes):
        opts = trials.legal(wish)
        if opts is not None:
            plain[opts] = estimate(trials.apply(opts), threads)
    turned = list(transposed(kernel, target, lanes))
    if not turned and not phase:
        yield from other_lanes(trials, threads, plain, _ranked(trials, threads, each_axis(kernel, target, threads, lanes)))
    plain |= dict.fromkeys(turned, 0.0)  # tiles in scratch beat strided accesses whatever the width
    yield from sorted(plain, key=plain.__getitem__)


def _row_guesses(trials: Trials, threads: int, lanes: int) -> Iterator[Opts]:
    """Guesses by the structure of rows, columns, windows, scans and tables; perhaps illegal."""
    kernel, target = trials.kernel, trials.target
    yield from owners(kernel, target, threads, lanes)
    yield from private_copies(kernel, target, threads, lanes)
    yield from stamps(kernel, target, threads, lanes)
    yield from in_registers(kernel, target, threads, lanes)
    yield from columns(kernel, target, lanes, threads)
    yield from few_columns(kernel, lanes)
    yield from picked_rows(kernel, lanes)
    yield from short_rows(kernel, target, lanes)
    yield from short_sums(kernel, lanes)
    yield from whole_picked_rows(kernel, target, lanes)
    yield from windows(kernel, lanes)
    yield from slid_windows(kernel, lanes)
    yield from neighbour_tiles(kernel, target, threads, lanes)
    yield from reused_reads(kernel, target, lanes)
    yield from scans(kernel, lanes, threads)
    yield from ragged_rows(kernel, lanes, threads)
    yield from narrow_sums(kernel, target, lanes)
    yield from paired_sums(kernel, target, threads, lanes)
    yield from paired_results(kernel, target, threads, lanes)
    yield from woven_sums(kernel, target, lanes)
    yield from scaled_groups(kernel, target, threads, lanes)
    yield from dotted_rows(kernel, target, lanes)
    yield from chain_guesses(kernel, target, threads, lanes)


def _beside_tiles(trials: Trials, threads: int, neighbours: list[Opts]) -> Iterator[Opts]:
    """Groups of neighbours, after those tiles of results that share them which are better by the model."""
    if neighbours:
        least = min(estimate(trials.apply(o), threads) for o in neighbours)
        lanes = row_lanes(trials.kernel, trials.target)
        tiles = _ranked(trials, threads, reused_reads(trials.kernel, trials.target, lanes))[:2]
        yield from (o for o in tiles if estimate(trials.apply(o), threads) < least)
    yield from neighbours


def by_points(n: Nest) -> bool:
    """Whether points are scattered, and not rows of them."""
    if n.kind != "store" or n.store is None or n.store.combine is None:
        return False
    return not n.axes or n.axes[-1] in scatter_ordered(n.store)


def owners(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterable[Opts]:
    """Scatters whose work items own blocks of rows: as many as fit the second cache, or one block a thread."""
    found = ownable(kernel)
    if found is None:
        return
    store, d, size = found
    row = math.prod(n for i, n in enumerate(store.buffer.shape) if i != d and isinstance(n, int)) * store.buffer.dtype.size
    inner = store.axes[-1]
    for most in (target.l2 // 2 // max(1, row), size / threads):
        block = 1 << max(3, math.ceil(math.log2(max(most, 1))))
        if block < size:
            own = opt("OWN", store.buffer.name, block)
            each = [(own, opt("UPCAST", str(inner.arg.name), v * lanes)) for v in (64, 16, 4, 1) if v * lanes <= extent(inner) or v == 1]
            yield from each
            if is_far(
                target, store.buffer.shape, store.buffer.dtype.size
            ):  # where few rows are added to, the others need not pass through the caches
                yield from ((*opts, opt("CACHE", store.buffer.name, policy=STREAM)) for opts in each)


def _ranked(trials: Trials, threads: int, guesses: Iterable[Opts]) -> list[Opts]:
    """The legal ones of some guesses, best first by the model."""
    found: dict[str, tuple[float, Opts]] = {}
    for guess in guesses:
        opts = trials.legal(guess)
        if opts is not None:
            s = trials.apply(opts)
            found.setdefault(s.hash, (estimate(s, threads), opts))
    return [opts for _, opts in sorted(found.values(), key=lambda f: (f[0], str(f[1])))]


def work(n: Nest) -> int:
    """The points of a nest."""
    out = 1
    for a in n.all_axes:
        out *= extent(a)
    return out


def row_lanes(kernel: Kernel, target: Target) -> int:
    """Lanes of the widest type that some nest computes with: of its results, or of the floats on the way to them."""
    types = {n.expr.dtype.compute for n in nests(kernel)}
    made = (x for n in nests(kernel) for x in n.nodes if x.op not in ("load", "const", "ref", "cast"))
    types |= {x.dtype for x in made if x.dtype.is_float}
    return max(1, min(target.lanes(t.compute) for t in types))
