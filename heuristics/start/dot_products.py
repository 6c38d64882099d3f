"""Start rules for sums of products that have lanes along the sum: where both operands lie along it, where one instruction adds up neighbours,
and where something is the same for a group of neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from math import gcd, lcm, prod

from ...ir.buffer import Buffer, load_parts, loads
from ...ir.dtypes import index, int32
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...opts.access import accesses, strides_of
from ...opts.analysis.dot_instructions import GROUP, factors, scaled_dot, scaled_sum
from ...opts.analysis.dot_instructions import NARROW as NARROW_TYPES
from ...opts.analysis.extremes import combine_of
from ...opts.analysis.structure import extent
from ...opts.defaults import fit, one_by_one, site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.cache import with_rows as fetched_rows
from ...opts.options.fuse import with_rows
from ...targets import Target
from ..machine import DEFAULT
from ..model.loads import lanes_in_groups
from .start_rule import Numbers, StartFacts, StartRule

# rows against rows ----------------------------------------------------------------------------------------------------
WIDE = ((8, 3), (6, 4), (8, 2), (4, 4))
"""Results of one axis by those of the other that are in registers at once, where there are 32 of these, the likeliest first."""
HEIGHTS = (4, 6, 3, 5, 2)
"""Results of the outer axis that are in registers at once, where there are 16 of these, the likeliest first."""
LEAST = 4
"""Vectors of a sum from which on its lanes may be added up in the end."""
RAGGED = 0.25
"""Share of a sum's vectors that may be idle."""
FEW = 12
"""Rows up to which panels of the other matrix cost more than they save."""


class RowsAgainstRows(StartRule):
    """Both operands lie along the sum: weights as layers have them, a row for each result; rows of two matrices, each against each. Lanes along
    the sum and a few results of both axes in registers: nothing is packed, and what is computed of an operand (a weight's bits, and its
    scale) is computed once for all results that share it. Where each is used for one result only, nothing is gained."""

    name = "rows against rows"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        target, lanes = f.target, f.lanes
        if target.kind == "gpu":
            return
        for n in f.reductions:
            along = next((a for a in n.reduce_axes if _lies_along(n, a, lanes)), None)
            if along is None or extent(along) < LEAST * lanes or waste(extent(along), lanes) > RAGGED:
                continue
            if _are_packed(f, n, along) and all(extent(a) > FEW for a in _two_axes(n, along)):
                continue
            grid = max((a for a in f.shared if a in n.axes), key=extent, default=None)
            outer = () if grid is None else (opt("PARALLEL", site_name(grid)),)
            for amounts in _tiles_of_results(target, _two_axes(n, along)):
                tile = [opt("UPCAST", site_name(a), k) for a, k in amounts.items() if k > 1]
                yield (opt("UPCAST", site_name(along), lanes), *tile, *outer)


def _tiles_of_results(target: Target, axes: list[Node]) -> Iterator[dict[Node, int]]:
    """How many results of each of two axes, the outer one first, are in registers at once, the likeliest first."""
    if len(axes) < 2:
        return
    if target.registers >= 32:
        for a, b in sorted(permutations(axes), key=lambda p: -extent(p[0])):  # (few rows are columns of the tile)
            yield from ({a: fit(extent(a), rows), b: fit(extent(b), columns)} for rows, columns in WIDE)
        return
    # beside the sums, a vector of each inner result is held, one of an outer result, and a product that is not part of its addition
    (outer, inner), room = axes, target.registers - (1 if "fma" in target.features else 2)
    tiles = ((k, fit(extent(inner), room // (k + 1))) for k in HEIGHTS if waste(extent(outer), k) <= RAGGED)
    yield from ({outer: k, inner: n} for k, n in sorted(tiles, key=lambda t: waste(extent(outer), t[0])))


def few_against_rows(f: StartFacts) -> bool:
    """Whether the largest sum is of products of rows against few rows, both of numbers as they are and not known before, and lanes along the
    sum are quicker than panels and than rows that are transposed in registers."""
    if f.main is None or f.main.wide.constant or f.main.tall.constant:
        return False
    n = f.main.nest
    along = next((a for a in n.reduce_axes if _lies_along(n, a, f.lanes)), None)
    if along is None or len(n.reduce_axes) > 1 or extent(along) < LEAST * f.lanes or waste(extent(along), f.lanes) > RAGGED:
        return False
    axes = _two_axes(n, along)
    return len(axes) == 2 and min(map(extent, axes)) <= FEW and all(b.dtype is n.expr.dtype for b, _ in _reads(n, along))


def _are_packed(f: StartFacts, nest: Nest, along: Node) -> bool:
    """Whether panels of one matrix are quicker for all but few rows: two matrices of numbers as they are whose rows are no halves of lines
    long, so that almost every vector lies in two lines."""
    read, line = _reads(nest, along), DEFAULT.caches.line
    if f.main is None or f.main.nest is not nest or any(b.dtype is not nest.expr.dtype for b, _ in read):
        return False
    pitches = [k * b.dtype.size for b, i in read for a, k in strides_of(b, i).items() if a is not along and isinstance(k, int)]
    return f.target.vector_bytes == line and all(p % (line // 2) for p in pitches)


def _lies_along(nest: Nest, axis: Node, lanes: int) -> bool:
    """Whether at least two reads vary with a reduced axis, and lanes along it find what they read side by side."""
    found = [(b, i, strides_of(b, i).get(axis)) for b, i in _reads(nest, axis)]
    return len(found) > 1 and all(step == 1 or (step is None and lanes_in_groups(b, i, axis, lanes) is not None) for b, i, step in found)


def _two_axes(nest: Nest, along: Node) -> list[Node]:
    """Two axes of results, each of which some reads along the sum vary with and others do not; fewer where there are none."""
    read = [axes_of(*i) for _, i in _reads(nest, along)]
    return [a for a in nest.axes if extent(a) > 1 and any(a in r for r in read) and any(a not in r for r in read)][-2:]


def _reads(nest: Nest, along: Node) -> list[tuple[Buffer, tuple[Node, ...]]]:
    """The loads that vary with an axis."""
    return [(b, i) for b, i, _ in loads(*nest.roots) if along in axes_of(*i)]


# narrow integers ------------------------------------------------------------------------------------------------------
ITEM = 512
"""Results of a work item where they have one axis."""


class NarrowIntegers(StartRule):
    """Sums of products of narrow integers where neighbours are added by one instruction: one or two double vectors of the reduction, for a few
    results at a time. `near`, `far`: results along the last axis, and along the one before."""

    name = "narrow integers"
    quick_places = (1, 3)

    def applies(self, f: StartFacts) -> Iterable[tuple[Nest, Node]]:
        for n in f.reductions:
            if factors(n, f.target) is not None or _of_narrow(n):
                along = next((a for a in n.reduce_axes if _consecutive(f.kernel, n, a)), None)
                if along is not None and extent(along) > f.lanes:
                    yield n, along

    def sample(self, f: StartFacts, where: tuple[Nest, Node]) -> Iterable[Numbers]:
        found = ((2, 4, 2), (2, 8, 1), (4, 4, 1), (2, 4, 1), (2, 8, 2))
        return ({"vectors": v, "near": near, "far": far} for v, near, far in found)

    def schedule(self, f: StartFacts, where: tuple[Nest, Node], p: Numbers) -> Opts:
        n, along = where
        few = [a for a in n.axes if extent(a) > 1][-2:]
        outer = f.parallel()
        last = prod(extent(a) for a in few[1:])
        if few and few[:1] == f.shared[:1] and extent(few[0]) * last > ITEM > last:  # a work item is more than a few results
            outer = (opt("TILE", site_name(few[0]), ITEM // last), *outer)
        tile, left = [], 1
        for a, k in zip(few[::-1], (p["near"], p["far"])):  # what a short axis leaves goes to the next
            c = fit(extent(a), k * left)
            left = k * left // c
            tile += [opt("UPCAST", site_name(a), c)] if c > 1 else []
        width = p["vectors"] * f.lanes
        wide = [opt("UPCAST", site_name(along), width)]
        if waste(extent(along), width) > 0.25:  # (zeros are added: less work than half vectors, of which none are joined)
            wide.insert(0, opt("PADTO", site_name(along), -(-extent(along) // width) * width))
        return (*wide, *tile, *outer)


def _of_narrow(n: Nest) -> bool:
    """Whether a nest sums in whole numbers what is computed of narrow ones (bytes less their zero points, perhaps)."""
    over = frozenset(n.reduce_axes)
    read = [load_parts(x)[0] for x in n.loads if axes_of(*load_parts(x)[1]) & over]
    return combine_of(n) == "add" and n.expr.dtype is int32 and len(read) > 1 and all(b.dtype in NARROW_TYPES for b in read)


def _consecutive(kernel: Kernel, n: Nest, a: Node) -> bool:
    """Whether a nest reads something along an axis, and all of that is consecutive there."""
    read = [x.strides for x in accesses(kernel, n) if not x.store and x.strides.get(a, 0) != 0]
    return bool(read) and all(s[a] == 1 for s in read)


# bytes with scales ----------------------------------------------------------------------------------------------------
SHARED = ((4, 4), (2, 4), (4, 2), (2, 2))
"""Rows of weights by rows of activations whose sums are in registers at once, where there are 32 of these, the likeliest first."""
SHARED_FEW = ((2, 4), (2, 2), (1, 4))
"""The same with 16."""
ROWS = (4, 2, 1)
"""Rows of weights for one of activations."""
SCALES = 8
"""Groups whose scales are computed at once: as many as a vector of 256 bits holds."""


class ScaledBytes(StartRule):
    """Weights of few bits by activations of eight, whose products one instruction adds in fours (`analysis/dot_instructions.py`): lanes along a
    group, and rows of both in registers. A weight's bytes are then made once for all rows of activations."""

    name = "scaled bytes"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        fetched = fetched_rows(f.kernel, f.target)
        for n in f.reductions:
            for along in n.reduce_axes:
                found = scaled_dot(f.target, n, along)
                if found is None or not isinstance(along.arg.extent, int) or along.arg.extent % GROUP:
                    continue
                rows = [a for a in f.shared if a in axes_of(found.a) and extent(a) > 1]
                others = [a for a in f.shared if a in axes_of(found.b) and extent(a) > 1]
                alone = bool(rows) and one_by_one(f.kernel, f.target, n, rows[-1])
                few = tuple((r, 1) for r in (ROWS[::-1] if alone else ROWS))
                tiles = (SHARED if f.target.registers >= 32 else SHARED_FEW) if others else few
                outer = [opt("PARALLEL", site_name(a)) for a in (rows or others)[:1]]
                if rows and not others and (block := _block(f, extent(rows[-1]))) > 1:
                    outer.insert(0, opt("TILE", site_name(rows[-1]), block))
                at_once = gcd(SCALES, along.arg.extent // GROUP)
                groups = [opt("UNROLL", site_name(along), at_once)] if at_once > 1 else []
                for tile in tiles:
                    pairs = ((axes[-1], k) for axes, most in zip((rows, others), tile) if axes for k in (fit(extent(axes[-1]), most),))
                    several = [opt("UPCAST", site_name(a), k) for a, k in pairs if k > 1]
                    yield (opt("UPCAST", site_name(along), GROUP), *groups, *several, *outer, *fetched, *with_rows(f.kernel, f.target))


BLOCKS = (32, 16, 8)
"""Rows of a work item, which share what is computed of the activations, the likeliest first."""
ITEMS = 4
"""Work items of a thread at least."""


def _block(f: StartFacts, rows: int) -> int:
    """Rows of a work item: a divisor of their number, so that all items are alike; 1 where there is none."""
    return next((b for b in BLOCKS if rows % b == 0 and rows >= ITEMS * f.threads * b), 1)


# groups with a scale --------------------------------------------------------------------------------------------------
MOST = 8
"""Vectors of a group at most: more are cut."""
LONGEST = 512
"""Elements after which the steps of a sum must be alike again: so many are written out."""


@dataclass(frozen=True)
class _ScaledGroup:
    """`size` neighbours along a reduced axis have one place in some array, and what is computed is alike in steps of `period`."""

    nest: Nest
    axis: Node
    size: int
    period: int


class ScaledGroups(StartRule):
    """Something is the same for a group of neighbours along a sum: weights with a scale and a zero point for each 64. Lanes over the elements
    of a group, so that what is read once a group is read once, in one of the vectors that a group has. Where elements are computed by where they
    are (the low or the high halves of bytes), steps until that is as before: each vector is computed in one way. A few rows at once, but where
    they come from memory."""

    name = "scaled groups"
    quick_places = (0,)

    def applies(self, f: StartFacts) -> Iterable[_ScaledGroup]:
        for n in f.reductions:
            found = _group(n)
            if found is None:
                continue
            axis, size = found.axis, found.size
            while size > MOST * f.lanes and size % 2 == 0:
                size //= 2
            size = max(size, f.lanes)  # (of narrower groups a vector has several, whose scales are loaded together and spread)
            if extent(axis) >= size and not (extent(axis) % size and size > f.lanes):
                if found.period % (2 * size) == 0 and found.size == f.lanes:  # two chains of sums
                    size *= 2
                yield replace(found, size=size)

    def parameters(self, f: StartFacts, where: _ScaledGroup) -> Mapping[str, tuple[int, ...]]:
        rows = [a for a in f.shared if a in where.nest.axes]
        alone = bool(rows) and one_by_one(f.kernel, f.target, where.nest, rows[-1])
        most = max(1, f.target.registers * f.lanes // (2 * where.size))  # (half of the registers are sums)
        return {"rows": tuple(c for c in (ROWS[::-1] if alone else ROWS) if c <= most)}

    def schedule(self, f: StartFacts, where: _ScaledGroup, p: Numbers) -> Opts:
        n, axis, size = where.nest, where.axis, where.size
        rows, copies = [a for a in f.shared if a in n.axes], p["rows"]
        parallel = [opt("PARALLEL", a.arg.name) for a in rows[:1] if extent(a) >= f.threads]
        at_once = [opt("UPCAST", a.arg.name, copies) for a in rows[-1:] if copies > 1 and extent(a) % copies == 0]
        steps = where.period // size if where.period % size == 0 and extent(axis) % where.period == 0 else 1
        if scaled_sum(n, axis, size) is not None:
            steps = max(steps, gcd(SCALES, extent(axis) // size))
        alike = [opt("UNROLL", axis.arg.name, steps)] if steps > 1 else []
        return (
            opt("UPCAST", axis.arg.name, size),
            *alike,
            *at_once,
            *parallel,
            *fetched_rows(f.kernel, f.target),
            *with_rows(f.kernel, f.target),
        )


def _group(n: Nest) -> _ScaledGroup | None:
    """The first reduced axis along which neighbours share a place: the common divisor of all that its number is divided by; None where there
    is no such axis."""
    for axis in n.reduce_axes:
        sizes = [
            int(x.arg)
            for _, indices, _ in loads(*n.roots)
            for i in indices
            for x in walk(i)
            if x.op == "div" and x.dtype is index and x.src[0] is axis
        ]
        if sizes and (common := gcd(*sizes)) > 1:
            return _ScaledGroup(n, axis, common, _period(n, axis))
    return None


def _period(n: Nest, axis: Node) -> int:
    """After how many elements along an axis conditions and numbers that are computed of its place are as before; 1 where there are none, or
    where that is never."""
    found = 1
    asked = [s for x in n.nodes if x.dtype is not index and x.op != "load" for s in x.src if s.dtype is index and axis in axes_of(s)]
    for x in walk(*asked):
        if x.op == "mod" and (x.src[0] is axis or (x.src[0].op == "div" and x.src[0].src[0] is axis)):
            found = lcm(found, x.arg if x.src[0] is axis else x.arg * x.src[0].arg)
    return found if found <= LONGEST else 1
