"""Start rules for register tiles of what is no product: results side by side that share what they read or compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from ...ir import index as ix
from ...ir.body import Fold
from ...ir.buffer import load_parts
from ...ir.dtypes import index
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...opts.access import LONGEST_GROUP, accesses
from ...opts.analysis.interior import interior
from ...opts.analysis.structure import contiguous, contractions, extent, joins, lane_axis, nests
from ...opts.defaults import family_name, fit, rows, site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.fuse import with_rows
from .start_rule import Numbers, StartFacts, StartRule, Template

# tiny axes ------------------------------------------------------------------------------------------------------------
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


def tiny_copies(kernel: Kernel) -> Opts:
    """Tiny axes in registers."""
    return tuple(opt("UPCAST", f, extent(a)) for f, a in {family_name(kernel, a): a for a in tiny_axes(kernel)}.items())


class TinyAxes(StartRule):
    """A tiny axis, such as the three components of a vector, in registers, with lanes along the last long axis beside it, or along the last
    one that is reduced; the outer long axis in parallel."""

    name = "tiny axes"

    def applies(self, f: StartFacts) -> Iterable[list[Node]]:
        tiny = tiny_axes(f.kernel)
        long = [a for a in f.shared if a not in tiny]
        return (tiny,) if tiny and not (long and joins(f.kernel, long[-1])) else ()

    def parameters(self, f: StartFacts, where: list[Node]) -> dict[str, tuple[int, ...]]:
        return {"reduced": (0, 1), "vectors": (2, 4, 1)}

    def quick(self, f: StartFacts) -> list[Opts]:
        """Lanes along points; before them along the sum where its points lie closer together in all that it reads."""
        first = ({"reduced": 1, "vectors": 2},) if _closer_along_sums(f) else ()
        wishes = (*first, {"reduced": 0, "vectors": 2}, {"reduced": 0, "vectors": 4})
        return [o for tiny in self.applies(f) for p in wishes if (o := self.schedule(f, tiny, p)) is not None]

    def schedule(self, f: StartFacts, where: list[Node], p: Numbers) -> Opts | None:
        return self._in_registers(f, where, f.lanes, p) or None

    def _in_registers(self, f: StartFacts, tiny: list[Node], lanes: int, p: Numbers) -> Opts:
        long = [a for a in f.shared if a not in tiny and extent(a) >= 2]
        found = [a for n in f.nests for a in n.reduce_axes] if p["reduced"] else long
        amount = fit(extent(found[-1]), p["vectors"] * lanes) if found else 1
        if amount < 2:
            return ()
        grid = tuple(opt("PARALLEL", site_name(a)) for a in long[: 1 if long and extent(long[0]) >= 8 * f.threads else 2])
        return (opt("UPCAST", family_name(f.kernel, found[-1]), amount), *tiny_copies(f.kernel), *grid, *with_rows(f.kernel, f.target))

    def templates(self, f: StartFacts) -> Iterator[Template]:
        for tiny in self.applies(f):
            numbers = {"vectors": (1, 2, 4, 8), "reduced": (0, 1)}
            yield Template(self.name, numbers, partial(self._in_registers, f, tiny, f.result_lanes))


def _closer_along_sums(f: StartFacts) -> bool:
    """Whether all that a sum reads of each of its points and results lies closer together along its own axis."""
    both = [
        (x.stride(n.reduce_axes[-1]) or 0, x.stride(a) or 0)
        for n in f.reductions
        if extent(n.reduce_axes[-1]) > TINY
        for a in [a for a in n.axes if extent(a) > TINY][-1:]
        for x in accesses(f.kernel, n)
        if not x.store
    ]
    return all(along <= across for along, across in both) and any(0 < along < across for along, across in both)


# reused reads ---------------------------------------------------------------------------------------------------------
FREE = 6
"""Registers that are not accumulators: what is read, what is compared with it, and what is on its way."""
PADDED = 0.5
"""Work beside the results that several vectors side by side may be worth."""


PIECE = 32
"""Bytes of a row that one vector stores. Less, in the turns of many rows, took 1.1 to 1.4 times as long as row by row (bytes and halves, AVX2)."""
SMALL = 100
"""Expressions of a kernel that may be computed for several results at once without spilling their values."""


class ReusedReads(StartRule):
    """Results that share what they read: how many of each column lie below each of some thresholds, a column's sums at each of some scales, how
    much each of some boxes overlaps each of others. A register tile of a few vectors along what is consecutive, by several results, loads each
    element, and computes what is of it alone, once for several of them. None of a sum of products, which has tiles of its own."""

    name = "reused reads"
    quick_places = (4, 0)

    def quick(self, f: StartFacts) -> list[Opts]:
        """Tiles of two vectors by four results and of one by eight, of a kernel whose values leave registers for them; not where it does little
        beside its stores, which would be small pieces of many rows."""
        pieces = [f.lanes * x.buffer.dtype.size for n in f.nests for x in accesses(f.kernel, n) if x.store]
        small = sum(len(n.all_nodes) for n in f.nests) <= SMALL
        return super().quick(f) if small and (f.reductions or min(pieces, default=0) >= PIECE) else []

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        kernel, target, lanes = f.kernel, f.target, f.lanes
        if contractions(kernel) or target.kind == "gpu":
            return
        map_only = all(n.kind == "store" for n in f.nests)
        for n in f.nests:
            lane = lane_axis(kernel, n) if n.kind == "reduce" or map_only else None
            if lane is None:
                continue
            for a in _mapped(kernel, n, lane) if map_only else _sharing(kernel, n, lane):
                for vectors in (1, 2, 4):
                    idle = waste(extent(lane), vectors * lanes)
                    if idle > PADDED:
                        continue
                    pad = (opt("PADTO", family_name(kernel, lane), vectors * lanes),) if idle > 0.25 else ()
                    for copies in (8, 4, 2):
                        if vectors * copies <= target.registers - FREE and extent(a) >= copies and waste(extent(a), copies) <= 0.25:
                            tile = (
                                opt("UPCAST", family_name(kernel, lane), vectors * lanes),
                                opt("UPCAST", family_name(kernel, a), copies),
                            )
                            yield (*pad, *tile, *f.parallel(), *with_rows(kernel, target))


def _sharing(kernel: Kernel, n: Nest, lane: Node) -> list[Node]:
    """The axes of a reduction's results that do not change something of a point that it reads, or computes for each lane; what it reads along
    the lanes is whole vectors."""
    along = [x for x in accesses(kernel, n) if not x.store and lane in x.strides]
    if any(x.strides[lane] != 1 for x in along):
        return []
    points = [frozenset(x.strides) for x in along]
    points += [axes_of(x) for x in n.nodes if lane in axes_of(x) and x.dtype is not index and x.op not in ("load", "const")]
    points = [axes for axes in points if axes & frozenset(n.reduce_axes)]
    return [a for a in n.axes if a is not lane and extent(a) >= 4 and any(a not in axes for axes in points)]


def _mapped(kernel: Kernel, n: Nest, lane: Node) -> list[Node]:
    """The axes of a map's results that several of its reads along the lanes do not vary with. (One alone costs little beside the store.)"""
    along = [x for x in accesses(kernel, n) if not x.store and x.stride(lane)]
    return [a for a in n.axes if a is not lane and extent(a) >= 4 and sum(x.stride(a) == 0 for x in along) >= 2]


# neighbouring rows ----------------------------------------------------------------------------------------------------
LINE = 64
"""Bytes of a cache line. Rows side by side are stored in turns, which takes long where that is in pieces of lines: half as long again as
rows one after the other, measured on 32-byte stores and on rows of other lengths."""
IN_PIECES = 2.0
"""Loads that rows side by side must save where their only store is in pieces of lines. (Several outputs are never stored so: two in four
rows took twice as long as row by row, whatever they shared.)"""


class NeighbouringRows(StartRule):
    """Rows side by side along each axis of which neighbours are read; none where nothing is read twice, or too little for stores in pieces of
    lines. A row of a stencil reads the rows beside it, which the next rows read again. A register tile of a few rows loads each of them once,
    and brings a plane from memory once where it would be brought for each of its neighbours (register tiling of stencils, as in G. Rivera
    and C.-W. Tseng, "Tiling Optimizations for 3D Scientific Computations", 2000)."""

    name = "neighbouring rows"
    quick_places = (0, 1)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        kernel, target = f.kernel, f.target
        places = [p for n in f.nests for p in _places(n, [*f.shared]).items() if p[0][0] not in contiguous(kernel, n)[:1]]
        found = dict.fromkeys(key[0] for key, at in places if len(at) > 1)
        stored = [x for n in f.nests for x in accesses(kernel, n) if x.store]
        # vectors of a line, and no more accumulators than half the registers
        vectors = max(1, LINE // (f.lanes * min((x.buffer.dtype.size for x in stored), default=1)))
        vectors = min(vectors, max(1, target.registers // 4))
        for a in found:
            pieces = sum((x.stride(a) or 0) * x.buffer.dtype.size % LINE > 0 for x in stored)
            for copies in (4, 2):
                if pieces > 1 or (pieces and _saved((at for key, at in places if key[0] is a), copies) < IN_PIECES):
                    continue
                if extent(a) >= 4 * copies and vectors * copies <= target.registers // 2:
                    first, *rest = rows(kernel, target, f.threads, vectors * f.lanes, False) or (None,)
                    if first is not None:
                        yield (first, opt("UPCAST", str(a.arg.name), copies), *rest)


def _saved(places: Iterable[set[int]], copies: int) -> float:
    """Loads of a point that are another's as well where so many points are side by side; `places`: the constants by which
    those of each array differ."""
    return sum(len(at) - len({c + k for c in at for k in range(copies)}) / copies for at in places)


def _places(n: Nest, axes: list[Node]) -> dict[tuple[Node, *tuple[object, ...]], set[int]]:
    """The constants by which places differ at which a nest reads an array: by one of some axes, and all else of the place."""
    places: dict[tuple[Node, *tuple[object, ...]], set[int]] = {}
    for load in n.loads:
        buffer, indices, _ = load_parts(load)
        split = [ix.parts(interior(i)) for i in indices]
        for d, (terms, c) in enumerate(split):
            mine = [a for a in terms if a in axes]
            rest = tuple((j, t, k) for j, (each, _) in enumerate(split) for t, k in each.items())
            others = tuple(k for j, (_, k) in enumerate(split) if j != d)
            if len(mine) == 1:
                places.setdefault((mine[0], buffer.name, d, rest, others), set()).add(c)
    return places
