"""Start rules for sums of few steps, which are unrolled or held in registers whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...ir.body import Reduce
from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...opts.access import GROUP_ROW, accesses
from ...opts.analysis.structure import arithmetic, contiguous, extent, nests, shared_axes
from ...opts.defaults import family_name, fit, site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from .register_tiles import TINY, tiny_copies
from .row_schedules import fused_families
from .start_rule import Numbers, StartFacts, StartRule

# steps that lie far apart ---------------------------------------------------------------------------------------------
STEPS = 16
"""Steps of a sum that are unrolled."""
RUNS = 32
"""The same where each has a run through memory of its own, which a processor follows by the address of an instruction."""
LOOKED_UP = 64
"""The same where a step is little more than a number that is looked up."""
FEW = 4.0
"""Operations, in additions, that are little."""
RUN = 1024
"""Results that are a work item."""
ITEMS = 64
"""Work items that are enough for any number of threads."""
LINE = 64
"""Bytes of a cache line."""


class UnrolledSteps(StartRule):
    """Short sums whose steps lie far apart in memory or are found there (tracks that are mixed, bytes that are looked up) are unrolled.

    Each step then has loads of its own, at which the processor sees one run through memory, and what does not vary with the results is
    loaded and widened once for all of them. In a loop over the steps, one load jumps from row to row."""

    name = "unrolled steps"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        kernel, summed = f.kernel, f.reductions
        along = list(dict.fromkeys(a for n in summed for a in n.reduce_axes if extent(a) > 1))
        scattered = all(looked_up(kernel, n) for n in summed)
        plain = scattered and all(arithmetic(a, n.nodes) <= FEW for n in summed for a in n.reduce_axes)
        most = LOOKED_UP if plain else STEPS if scattered else RUNS
        if not along or any(extent(a) > most for a in along) or len(summed) != len({n.reduce_axes for n in summed}):
            return
        if f.has("scan", "init") or not f.shared:
            return
        steps = tuple(opt("UNROLL", site_name(a), extent(a)) for a in along)
        rows = f.shared[-1]
        # many to a work item, which begins with what all of its results share
        outer = (*((opt("TILE", site_name(rows), RUN),) if extent(rows) >= ITEMS * RUN else ()), *f.parallel())
        if scattered:
            # (no lanes: elements from anywhere are loaded one by one)
            for copies in (4, 2, 1):
                several = (opt("UPCAST", site_name(rows), copies),) if copies > 1 else ()
                yield (*several, *steps, *outer)
        elif all(_strided(kernel, n, rows) for n in summed) and all(rows in contiguous(kernel, n) for n in f.nests):
            for vectors in (2, 4, 8, 1):
                yield (opt("UPCAST", site_name(rows), fit(extent(rows), vectors * f.lanes)), *steps, *outer, *fused_families(along))


def _strided(kernel: Kernel, nest: Nest, rows: Node) -> bool:
    """Whether each step of a sum reads another row of its own, of which results that lie side by side read what does."""
    read = [x for x in accesses(kernel, nest) if not x.store and rows in x.strides]
    return bool(read) and all(x.stride(rows) == 1 and any(_far(x.stride(a), x.buffer.dtype.size) for a in nest.reduce_axes) for x in read)


def _far(stride: int | None, size: int) -> bool:
    return stride is not None and stride * size >= LINE


def looked_up(kernel: Kernel, nest: Nest) -> bool:
    """Whether each step of a sum reads an element at a place that is read itself, and results side by side read nothing that lies so."""
    found = [indices for _, indices, _ in loads(*nest.roots) if axes_of(*indices) & set(nest.reduce_axes)]
    placed = any(x.op == "load" for indices in found for x in walk(*indices))
    return placed and not any(x.stride(a) == 1 for x in accesses(kernel, nest) for a in nest.axes)


# short rows -----------------------------------------------------------------------------------------------------------
SHORT = 32
"""Elements of a short row."""
WHOLE = 16
"""Steps of a sum that are all in registers."""
SIDE_BY_SIDE = 4
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


class ShortRows(StartRule):
    """Many short rows, of which each is reduced: lanes over the rows, and all elements of a row in registers. Lanes along a row would be
    combined by horizontal steps for every row, which is most of the work where a row is a vector or two. Blocks of rows are transposed in
    registers instead."""

    name = "short rows"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        kernel, found = f.kernel, reduced_rows(f.kernel)
        if found is None or extent(found[0]) < MANY * f.lanes:
            return
        rows, along = found
        whole = [_whole(kernel, along)]
        if _transposes(f, along):
            reduced = {a: all(b in along for b in kernel.families.get(a.arg.family, ())) for a in along}
            names = {family_name(kernel, a) if reduced[a] else site_name(a): extent(a) for a in along}
            whole.append(tuple(opt("UNROLL", name, n) for name, n in names.items()))
        stored = [a for n in f.nests if n.kind == "store" for a in contiguous(kernel, n)[:1] if 1 < extent(a) <= TINY]
        # the few results of each row that lie side by side are interleaved in registers
        few = tuple(opt("UPCAST", family_name(kernel, a), extent(a)) for a in dict.fromkeys(stored))
        for vectors in (2, 1):
            for row in whole:
                for more in dict.fromkeys((few, tiny_copies(kernel), ())):
                    yield (opt("UPCAST", site_name(rows), vectors * f.lanes), *row, *more, *f.parallel())


def _whole(kernel: Kernel, along: Sequence[Node]) -> Opts:
    """All steps of some axes in registers."""
    return tuple(opt("UPCAST", name, n) for name, n in {family_name(kernel, a): extent(a) for a in along}.items())


def _transposes(f: StartFacts, along: Sequence[Node]) -> bool:
    """Whether lanes over the rows take fewer instructions than lanes along them. Blocks are transposed when they are loaded, once for all
    reductions. Lanes along rows are folded together for each reduction, by two shuffles a row, and what a reduction reads of one before
    is brought to all lanes of its row."""
    if any(a.arg.family == b.arg.family for n in f.nests if n.kind == "store" for a in n.axes for b in along):
        return False  # elements of rows are stored too: what is computed of them is shared with that, which has lanes along rows
    folded, size = 0, max(map(extent, along))
    if any(extent(a) % GROUP_ROW for a in along):
        return False
    for n in f.nests:
        reduce = None if n.value is None else n.value.expr
        if not isinstance(reduce, Reduce):
            continue
        folded += f.lanes * (2 + len({x for x in n.nodes if x.op == "ref"}))
        if n.expr.dtype.is_float and reduce.combine in ("max", "min") and not f.target.keeps_nan:
            folded += 2 * f.lanes  # what is no number is handed on by two instructions more
        if any(x.op == "cast" and x.src[0] in n.reduce_axes for x in n.nodes):
            folded += 2 * size  # a place: lanes that did not reach the extreme are left out
    return folded > size * (f.lanes.bit_length() - 1)


class ShortSums(StartRule):
    """Every reduction is short, and so are the rows of results (products of small matrices, transforms of blocks): lanes
    along what the stores have consecutive, and all that a result is made of in registers."""

    name = "short sums"

    def applies(self, f: StartFacts) -> Iterable[tuple[Node, list[Node]]]:
        along = list(dict.fromkeys(a for n in f.reductions for a in n.reduce_axes if extent(a) > 1))
        if not along or any(extent(a) > WHOLE for a in along) or f.has("scan"):
            return
        stored = [a for n in f.nests if n.kind == "store" for a in contiguous(f.kernel, n)[:1]]
        yield from ((a, along) for a in [a for a in stored if SIDE_BY_SIDE <= extent(a) <= SHORT][:1])

    def parameters(self, f: StartFacts, where: tuple[Node, list[Node]]) -> Mapping[str, tuple[int, ...]]:
        return {"vectors": (1, 2)}

    def schedule(self, f: StartFacts, where: tuple[Node, list[Node]], p: Numbers) -> Opts:
        wide, along = where
        outer = () if f.shared[:1] == [wide] else f.parallel()
        return (
            opt("UPCAST", family_name(f.kernel, wide), fit(extent(wide), p["vectors"] * f.lanes)),
            *_whole(f.kernel, along),
            *outer,
        )
