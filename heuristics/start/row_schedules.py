"""Start rules for what is no contraction: lanes along the axis that is consecutive in memory, independent partials for reductions, rows in
parallel. Where reductions run across rows, whole rows or strips of them; and lanes along each axis in turn, wherever it leads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product, zip_longest

from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...opts.access import accesses
from ...opts.analysis.extremes import combine_of
from ...opts.analysis.structure import contiguous, extent, joins, lane_axis, stageable_values
from ...opts.analysis.write_order import scatter_ordered
from ...opts.defaults import family_name, fit, rows, site_name, waste
from ...opts.memory_limits import buffer_bytes
from ...opts.nests import Nest, build
from ...opts.opt import Opt, Opts, opt
from ...opts.options.cache import PREFETCH, STREAM, prefetching
from ...opts.options.fuse import by_family, with_rows
from ..machine import SLOW, machine_of
from ..model.shared_work import slow_work
from .start_rule import Numbers, StartFacts, StartRule, Template
from .trials import Trials

POINTS = 64
"""Points of scatters that are unrolled, over all of a kernel."""
SLOW_BODY = 32
"""Instructions of functions from which on four vectors are as fast as eight, in half the code."""


class Rows(StartRule):
    """Lanes along rows, several rows at a time, and what is computed of a row kept."""

    name = "rows"

    def applies(self, f: StartFacts) -> Iterable[Kernel]:
        return (f.kernel,)

    def sample(self, f: StartFacts, where: Kernel) -> Iterable[Numbers]:
        # two rows at once read two streams from memory, where a row is worked through several times
        shapes = [(v, 1) for v in (4, 2, 8, 1)] + [(v, 2) for v in (4, 2) if len(f.nests) > 1]
        written = sum(by_points(n) for n in f.nests)
        if written:  # each point is written by itself: no more of them than code stays short for
            shapes = [(v, c) for v, c in shapes if v * f.lanes * written <= POINTS] or [(1, 1)]
        elif f.has("init"):
            shapes += [(16, 1), (32, 1)]  # rows that are scattered: longer pieces of each
        most = _most_vectors(f)
        shapes = list(dict.fromkeys((min(v, most), c) for v, c in shapes))
        if any(gathers(n) for n in f.nests):
            # rows from anywhere: the prefetchers follow several, but do not know where the next one starts
            shapes += _whole_gathered(f) or [(8, 4), (8, 8), (2, 4), (1, 4)]
        return ({"vectors": v, "copies": c, "stage": stage} for v, c in shapes for stage in (1, 0))

    def schedule(self, f: StartFacts, where: Kernel, p: Numbers) -> Opts:
        return rows(f.kernel, f.target, f.threads, p["vectors"] * f.lanes, bool(p["stage"]), p["copies"])

    def quick(self, f: StartFacts) -> list[Opts]:
        def row(vectors: int, copies: int = 1) -> Opts:
            return self.schedule(f, f.kernel, {"vectors": min(vectors, most), "copies": copies, "stage": 1})

        most = _most_vectors(f)
        out = [row(*shape) for shape in _whole_gathered(f) or [(8, 8), (8, 4)]] if any(gathers(n) for n in f.nests) else []
        if any(o.op == "FUSE" for o in row(1)):  # more accumulators
            out += [row(2), row(4), row(1)]
        return [*out, *([row(4, 2)] if len(f.nests) > 1 else []), row(8), *([row(4)] if most > 4 else [])]

    def templates(self, f: StartFacts) -> Iterator[Template]:
        shared = [a.arg.name for a in f.shared]
        fetched = [b.name for b in f.kernel.buffers if prefetching(build(f.kernel, {}), b) is not None]

        def make(p: Numbers) -> Opts:
            opts = tuple(o for o in rows(f.kernel, f.target, f.threads, p["vectors"] * f.result_lanes, bool(p["stage"])) if o.op != "CACHE")
            if p["copies"] > 1 and shared:
                opts = (opt("UPCAST", shared[0], p["copies"]), *(o for o in opts if not (o.op == "UPCAST" and o.on == shared[0])))
            if p["nt"]:
                opts = (*opts, *(opt("CACHE", b.name, policy=STREAM) for b in f.kernel.outputs))
            return (*opts, *(opt("CACHE", name, policy=PREFETCH) for name in fetched)) if p.get("fetch") and not p["nt"] else opts

        sizes: dict[str, tuple[int, ...]] = {"vectors": (1, 2, 4, 8, 16), "stage": (0, 1), "copies": (1, 2, 4, 8), "nt": (0, 1)}
        yield Template(self.name, {**sizes, "fetch": (0, 1)} if fetched else sizes, make)


def _whole_gathered(f: StartFacts) -> list[tuple[int, int]]:
    """(vectors of short gathered rows, rows at once): what chooses one is read once for all of them. Rows that are stored or added up are taken
    alone. Of those that are summed along, the vectors of several are folded together."""
    widths: dict[int, tuple[int, ...]] = {}
    for n in f.nests:
        for a in contiguous(f.kernel, n)[:1] if gathers(n) else ():
            if f.lanes < extent(a) <= 8 * f.lanes and waste(extent(a), f.lanes) <= 0.25:
                widths[-(-extent(a) // f.lanes)] = FOLDED if a in n.reduce_axes else (1,)
    return [(vectors, rows) for vectors, at_once in widths.items() for rows in at_once]


def _most_vectors(f: StartFacts) -> int:
    """Copies of a vector at most: fewer where each takes functions of many instructions."""
    core, most = machine_of(f.target.cpu).core, 0.0
    for n in f.nests:
        lane = set(contiguous(f.kernel, n)[:1])
        each = [slow_work(x, f.target, core) or 0 for x in walk(n.expr) if x.op in SLOW and x.dtype.is_float and lane & axes_of(x)]
        most = max(most, sum(each))
    return 4 if most > SLOW_BODY else 8


def by_points(n: Nest) -> bool:
    """Whether points are scattered, and not rows of them."""
    if n.kind != "store" or n.store is None or n.store.combine is None:
        return False
    return not n.axes or n.axes[-1] in scatter_ordered(n.store)


# rows that are gathered -----------------------------------------------------------------------------------------------
# A row begins anywhere, so lanes along what chooses it would gather every element; within a row elements lie side by side.


SPARE = 4
"""Registers that are not for a row's sums."""
FOLDED = (8, 4)
"""Rows whose sums are folded together, the likeliest first."""


def gathers(n: Nest) -> bool:
    """Whether rows are read at indices that are themselves read, each from its beginning."""
    return any(
        any(x.op == "load" for i in indices[:-1] for x in walk(i)) and not any(x.op == "load" for x in walk(indices[-1]))
        for _, indices, _ in loads(*n.roots)
        if indices
    )


class SumsOfGatheredRows(StartRule):
    """Rows that are added up, whole in registers, so that what chooses them is read once for all of a row; those of an odd width are padded,
    since what is left of them would be one more sum over all rows."""

    name = "sums of gathered rows"

    def applies(self, f: StartFacts) -> Iterable[tuple[Nest, Node]]:
        for n in f.reductions:
            lane = next((a for a in contiguous(f.kernel, n) if a in n.axes), None)
            if lane is not None and len(n.axes) >= 2 and f.lanes < extent(lane) <= (f.target.registers - SPARE) * f.lanes and gathers(n):
                yield n, lane

    def schedule(self, f: StartFacts, where: tuple[Nest, Node], p: Numbers) -> Opts:
        n, lane = where
        width = -(-extent(lane) // f.lanes) * f.lanes
        pad = (opt("PADTO", site_name(lane), width),) if width != extent(lane) else ()
        return (*pad, opt("UPCAST", site_name(lane), width), opt("PARALLEL", site_name(n.axes[0])))


# reductions across rows -----------------------------------------------------------------------------------------------
NARROW = 24
"""Vectors of sums across rows that are all kept in registers."""
ROW = 4096
"""Columns whose results stay in the first cache while rows go by."""


class Columns(StartRule):
    """A reduction runs across the rows of what it reads: a few rows side by side over a strip whose results stay in scratch, so that memory
    is read in long runs."""

    name = "columns"
    quick_places = (1, 0)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        found, lanes, threads = f.reductions, f.lanes, f.threads
        lane = next((a for n in found for a in (lane_axis(f.kernel, n),) if a is not None), None)
        if lane is None or (lane.arg.family in f.kernel.families and len(f.kernel.families[lane.arg.family]) > 1):
            return
        along = [next((a for a in n.reduce_axes if _down(f.kernel, n, a, lane)), None) for n in found]
        down = list(dict.fromkeys(a for a in along if a is not None))
        if None in along:
            return
        yield from _whole_rows(f, lane)
        width = min(-(-extent(lane) // lanes) * lanes, 1 << (extent(lane) - 1).bit_length())
        for a in down if len(found) == 1 else ():
            if width <= NARROW * lanes and len(found[0].axes) == 1 and extent(a) >= 16 * extent(lane):
                # all results in registers, chunks of the rows side by side
                pad = (opt("PADTO", site_name(lane), width),) if waste(extent(lane), width) > 0.25 else ()
                wide = (*pad, opt("UPCAST", site_name(lane), width), opt("UNROLL", site_name(a), 4 if width <= 8 * lanes else 2))
                yield from ((opt("SPLIT", site_name(a), chunks), *wide) for chunks in (8 * threads, 2 * threads))
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


class FewColumns(StartRule):
    """Reductions run down few columns, which other loops go along as well (statistics of channels, and what is made with them): the results
    of all columns in registers, so that each reduction reads whole rows. Those that may share a loop do."""

    name = "few columns"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        found, kernel, lanes = f.reductions, f.kernel, f.lanes
        across = [next((b for b in n.axes for a in n.reduce_axes if _down(kernel, n, a, b)), None) for n in found]
        if not found or len({b.arg.family if b is not None else None for b in across}) != 1:
            return
        lane = across[0]
        if lane is None or len(kernel.families.get(lane.arg.family, ())) < 2:
            return
        width = -(-extent(lane) // lanes) * lanes
        if width <= NARROW * lanes:
            pad = (opt("PADTO", family_name(kernel, lane), width),) if waste(extent(lane), width) > 0.25 else ()
            yield (*pad, opt("UPCAST", family_name(kernel, lane), width), *fused_families([a for n in found for a in n.reduce_axes]))


def fused_families(axes: Iterable[Node]) -> Opts:
    """FUSE for each family that several axes are of."""
    families = [a.arg.family for a in axes]
    return tuple(opt("FUSE", f) for f in dict.fromkeys(families) if families.count(f) > 1)


def _whole_rows(f: StartFacts, lane: Node) -> Iterator[Opts]:
    """Everything that goes down the columns, stores too, row by row: each row whole, or a strip of it for each thread, in the order in
    which memory has it. The columns' results stay in the first cache meanwhile."""
    kernel = f.kernel
    over = [(n, next((a for a in (*n.reduce_axes, *reversed(n.axes)) if _down(kernel, n, a, lane)), None)) for n in f.nests]
    if any(lane not in n.axes or (a is None and n.all_axes != (lane,)) for n, a in over):
        return
    outer = [a for a in f.shared if a is not lane]
    name, strip = site_name(lane), min(ROW, extent(lane) if outer else -(-extent(lane) // f.threads))
    width = fit(extent(lane), 8 * f.lanes)
    strip = -(-strip // width) * width
    cut: list[Opt] = [opt("UPCAST", name, width)]
    if strip < extent(lane):
        cut += [opt("TILE", name, strip)]
    loop = f"{name}.t" if len(cut) > 1 else name
    cut += [opt("PARALLEL", site_name(outer[0]))] if outer else [opt("PARALLEL", name)] if len(cut) > 1 else []
    moves = [opt("MOVE", site_name(a), before=loop) for _, a in over if a is not None]
    kept = [opt("STAGE", v, at=site_name(outer[0]) if outer else name) for v in stageable_values(kernel)]
    steps = [opt("UNROLL", site_name(a), 4) for n, a in over if a in n.reduce_axes and not _is_slow(n) and not _in_order(f, n)]
    yield (*cut, *steps, *moves)
    if kept:
        yield (*cut, *steps, *moves, *kept)
    families = {a.arg.family for n, a in over if a in n.reduce_axes}
    yield from ((*cut, *steps, *moves, opt("FUSE", x)) for x in by_family(kernel, f.target) if x in families)


def _in_order(f: StartFacts, n: Nest) -> bool:
    """Whether a nest waits for what it reads, so that one row after the other is best: a plain sum of more than the second cache holds.
    (What is computed beside an extreme's place takes longer than the rows take to come.)"""
    items = math.prod(extent(a) for a in f.shared if a is not n.axes[-1])
    reads = [x.buffer for x in accesses(f.kernel, n) if not x.store]
    return combine_of(n) == "add" and any(buffer_bytes(b.shape, b.dtype.size) > f.target.l2 * items for b in reads)


def _is_slow(n: Nest) -> bool:
    """Whether a nest computes what takes many instructions."""
    return any(x.op in SLOW for x in walk(n.expr))


def _down(kernel: Kernel, n: Nest, a: Node, lane: Node) -> bool:
    """Whether a step along an axis is one down the columns that lie side by side along `lane`, in all that a nest reads over it."""
    mine = [x for x in accesses(kernel, n) if not x.store and a in x.strides]
    return bool(mine) and all(x.strides.get(lane) == 1 and (x.stride(a) or 0) > extent(lane) // 2 for x in mine)


# lanes along each axis ------------------------------------------------------------------------------------------------
FEW = 4
"""Elements of an axis that may all be in registers beside the lanes."""
SHORT = 8
"""Steps of a sum that are unrolled."""
AT_ONCE = 4
"""Points that are taken at once where their lanes are along a sum, or along an axis of a vector at most."""
ROWS = 2
"""The same of longer axes."""
PADDED = 0.4
"""The share of a vector that may be left empty."""
LIKELY, MOST = 1.5, 3
"""How much of the best start schedule's time the estimate may give such a schedule, for its Program to be counted; and how many are."""
BETTER = 0.65
"""How much of the best start schedule's time it may take to come before it: the geometric mean of what estimate and Program say."""


class EachAxis(StartRule):
    """Lanes along one axis, as a few vectors or one, for each axis that is long enough, wherever it leads in memory: which one is best the
    models say. Few components, or of sums along the lanes a few points, are in registers as well."""

    name = "each axis"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        found, kernel, lanes = f.nests, f.kernel, f.lanes
        if f.has("scan", "init"):
            return
        spatial = {family_name(kernel, a): a for n in found for a in n.axes if not joins(kernel, a)}
        summed = {family_name(kernel, a): a for n in found for a in n.reduce_axes if family_name(kernel, a) not in spatial}
        short = {family_name(kernel, n.reduce_axes[-1]) for n in found if n.reduce_axes and 1 < extent(n.reduce_axes[-1]) <= SHORT}
        fused = with_rows(kernel, f.target)

        def along(name: str, a: Node) -> Iterator[Opts]:
            few = tuple(opt("UPCAST", x, extent(b)) for x, b in spatial.items() if x != name and 1 < extent(b) <= FEW)
            lane: list[Opts] = [
                (opt("UPCAST", name, n),) for n in dict.fromkeys(fit(extent(a), v * lanes) for v in (4, 1)) if n > 1 and 2 * n >= lanes
            ]
            whole = 1 << (extent(a) - 1).bit_length()
            if name in spatial and extent(a) < whole <= lanes and waste(extent(a), whole) <= PADDED:
                lane.append((opt("PADTO", name, whole), opt("UPCAST", name, whole)))
            points = next((b for b in reversed(f.shared) if b is not a and extent(b) >= 2 * AT_ONCE and not joins(kernel, b)), None)
            more: dict[Opts, None] = {(): None, few: None}
            if points is not None:  # (rows may share what they read or compute)
                copies = AT_ONCE if name in summed or extent(a) <= lanes else ROWS
                more[(opt("UPCAST", family_name(kernel, points), copies),)] = None
            steps = tuple(opt("UNROLL", x, extent(b)) for x, b in summed.items() if x != name and x in short)
            for first, copies_ in product(lane, more):
                yield (*first, *copies_, *steps, *_items(f, a), *fused)

        turns = zip_longest(*(along(name, a) for name, a in (spatial | summed).items()))
        yield from (guess for turn in turns for guess in turn if guess is not None)


def _items(f: StartFacts, lane: Node) -> list[Opt]:
    """The outer axes in parallel."""
    free = [a for a in f.shared if a is not lane and extent(a) > FEW] or [a for a in f.shared if a is lane]
    return [opt("PARALLEL", family_name(f.kernel, a)) for a in free[: 1 if free and extent(free[0]) >= 8 * f.threads else 2]]


def better_lanes(trials: Trials, plain: Mapping[Opts, float], guesses: Iterable[Opts]) -> list[Opts]:
    """Those of some legal guesses, best first, that are far better than the best of the `plain` ones by two models. (`plain`: estimates,
    which are the less right the more schedules differ: those with other axes in registers are counted on suspicion.)"""
    if not plain:
        return []
    best = min(plain, key=plain.__getitem__)
    mine = {o.on for o in best if o.op == "UPCAST"}

    def most(guess: Opts) -> float:
        return BETTER if mine == {o.on for o in guess if o.op == "UPCAST"} else LIKELY

    likely = islice((g for g in guesses if trials.seconds(g) < most(g) * plain[best]), MOST)
    seconds = trials.ruler()
    times = {g: seconds(g) for g in likely}
    limit = BETTER * seconds(best) if times else 0.0
    return sorted((g for g in times if times[g] < limit), key=times.__getitem__)
