"""Start rules for folds whose block multiplies twice, as attention does: scores of a row against the folded axis, then a
sum over it weighted by them.

Lanes go along the rows (a spatial axis that the whole block shares and that the operand of the folded axis does not
depend on), so that maxima, sums and rescaling are plain vector operations without a horizontal step; both products
have register tiles of rows times a few elements broadcast from memory; a tile of the folded axis keeps its scores in
the L1. Where the scores have no axis that their keys do not depend on, such as attention of a single query a head, nothing is read for many
rows of results, so each nest has the lanes that lie in memory for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...ir.body import Fold, Reduce
from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...ir.skipped_tiles import skip_conditions
from ...opts.access import accesses
from ...opts.analysis.structure import contiguous, extent, shared_axes, stageable_values
from ...opts.defaults import fit, waste
from ...opts.nests import FoldItem, Nest, build
from ...opts.opt import Opt, Opts, opt
from ...targets import Target
from .start_rule import StartFacts, StartRule

TILES = (64, 32, 16, 128, 256)
"""Elements of the folded axis in a tile: short tiles fit narrow windows, and long ones are merged less often."""


class WeightedFolds(StartRule):
    """Every such fold."""

    name = "folds"

    def applies(self, f: StartFacts) -> Iterable[FoldItem]:
        return (item for item in build(f.kernel, {}) if isinstance(item, FoldItem))

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return (o for item in self.applies(f) for o in _fold(f.kernel, f.target, item))

    def quick(self, f: StartFacts) -> list[Opts]:
        """The short tile of the second register tile, of the first, then all."""
        found = list(self.guesses(f))
        return [found[i] for i in (len(TILES), 0, *range(len(found))) if i < len(found)]


def weighted(fold: Fold) -> bool:
    """Whether a fold has a sum of products over the folded axis, for each element of another one."""
    over = (v for v in fold.block if isinstance(v.expr, Reduce) and v.expr.combine == "add" and v.body.op == "mul")
    return any(a.arg.family == fold.axis.arg.family for v in over if len(v.axes) > 1 for a in v.reduce_axes)


def _fold(kernel: Kernel, target: Target, item: FoldItem) -> Iterator[Opts]:
    family = item.fold.axis.arg.family
    products = [n for n in item.nests if n.kind == "reduce" and n.expr.op == "mul" and n.expr.dtype.is_float]
    scores = [n for n in products if any(a.arg.family == family for a in n.axes)]
    sums = [n for n in products if any(a.arg.family == family for a in n.reduce_axes) and len(n.axes) > 1]
    shared = [a for a in shared_axes(kernel) if all(a in n.axes for n in item.nests)]
    row = _row(item.fold, scores, shared)
    if not scores:
        return
    lanes = target.lanes(scores[0].expr.dtype)
    if row is None or (not target.groups and (extent(row) < lanes or waste(extent(row), lanes) > ROUNDED)):
        inside = {b.name for b in item.fold.block}
        if sums and not target.groups:
            yield from _single_rows(kernel, target, item, shared, [v for v in stageable_values(kernel) if v in inside], row)
        return
    free = [a for a in shared if a is not row]
    grid = [opt("PARALLEL", a.arg.name) for a in (*free, row)]
    at = row.arg.name
    staged = [opt("STAGE", b, at=at) for b in dict.fromkeys(_strided(kernel, scores, row))]
    # steps of both products, unrolled: fewer loops, and what lies across the lanes is read and turned several elements at a time
    # (where a ragged last step has code of its own, it need not divide)
    along = [n.reduce_axes[-1] for n in (*scores, *sums)]
    apart = not target.groups
    steps = [
        opt("UNROLL", a.arg.name, 4) for a in along if extent(a) % 4 == 0 or (apart and isinstance(a.arg.extent, int) and extent(a) >= 64)
    ]
    for vectors, copies in (
        (2, 8),
        (4, 4),
        (2, 12),
        (1, 16),
        (3, 8),
        (3, 4),
        (2, 4),
        *(((1, 8),) if waste(extent(row), 2 * lanes) > ROUNDED else ()),
    ):
        wide = vectors * lanes if vectors > 1 else min(lanes, extent(row))
        if vectors * copies + vectors + 1 > target.registers or waste(extent(row), wide) > ROUNDED:
            continue
        out: list[Opt] = [opt("UPCAST", row.arg.name, wide)] if wide > 1 else []
        for n in scores:
            site = next(a for a in n.axes if a.arg.family == family)
            out.append(opt("UPCAST", site.arg.name, copies))
        for n in sums:
            other = [a for a in n.axes if a is not row and a not in free]
            out += [opt("UPCAST", a.arg.name, _even(extent(a), copies)) for a in other[-1:] if extent(a) > 1]
        for tile in TILES:
            block = math.lcm(tile, copies)
            cut = (opt("TILE", family, block),) if block < extent(item.fold.axis) else ()
            kept = tuple(
                opt("STAGE", v, at=family if cut else at) for v in stageable_values(kernel) if any(v == b.name for b in item.fold.block)
            )
            yield tuple(dict.fromkeys((*cut, *out, *steps, *grid, *staged, *kept)))  # (two products may share an axis)


def _row(fold: Fold, scores: list[Nest], shared: list[Node]) -> Node | None:
    """The longest axis of the block's scores on which one of their operands does not depend, while it depends on the folded axis."""
    found: dict[Node, None] = {}
    for n in scores:
        for side in n.expr.src:
            inside = axes_of(side)
            if any(a.arg.family == fold.axis.arg.family for a in inside):
                found |= dict.fromkeys(a for a in shared if a not in inside)
    return max(found, key=extent, default=None)


def _strided(kernel: Kernel, scores: list[Nest], row: Node) -> Iterator[str]:
    """Inputs that are read along the rows, but do not lie so."""
    for n in scores:
        for b, indices, _ in loads(n.expr):
            if row in axes_of(*indices) and any(x.buffer == b and x.strides.get(row) != 1 for x in accesses(kernel, n)):
                yield b.name


def _even(size: int, most: int) -> int:
    """The largest divisor of `size` up to `most`, or `most` where that would be less than half of it."""
    best = max(n for n in range(1, most + 1) if size % n == 0)
    return best if 2 * best >= most else min(most, size)


# single rows ----------------------------------------------------------------------------------------------------------
#
# The scores are sums along what is consecutive in memory, a few keys side by side; their maximum and the sum of weights have lanes along the
# keys; the weighted sum has them along its results. Where several heads share keys (their number is divided in an index), those that do are
# in registers together, and what is read is read once for all of them.

ROUNDED = 0.25
"""Extra work that register copies may do."""
SHARING = 4
"""Heads that share keys which are in registers together."""
KEY_TILES = (64, 256)
"""Keys of a tile, whose rows may be read for the scores and again for the weighted sum."""
SHAPES = ((4, 1), (8, 1), (2, 1))
"""Keys side by side, and vectors along their sums, where heads share keys."""
STREAMED = ((2, 2), (1, 2))
"""The same where each key is read once: the fewer rows are read at a time, the more the memory is read in a row."""
WIDE = 8
"""Vectors of results, where they are not a whole number of them."""
STEPS = 12
"""Vectors of a query that stay in registers while keys go by."""


@dataclass(frozen=True)
class _Shape:
    """Lanes of a vector, vectors and keys of a block of scores, vectors of results of the weighted sum."""

    lanes: int
    vectors: int
    keys: int
    results: int


def _single_rows(
    kernel: Kernel, target: Target, item: FoldItem, shared: Sequence[Node], kept: Sequence[str], row: Node | None = None
) -> Iterator[Opts]:
    """Guesses, perhaps illegal ones. `shared`: the axes of all nests; `kept`: values of the block that are worth keeping; `row`: an axis
    of few rows that share keys as heads do."""
    axis = item.fold.axis
    family, lanes = axis.arg.family, target.lanes(item.nests[0].expr.dtype)
    few = [k for k in range(1, SHARING + 1) if row is not None and waste(extent(row), k) <= ROUNDED]
    heads = _sharing(item.nests, shared) if row is None else _together(row, few)
    together = math.prod(n for _, n in heads)
    grid = [opt("PARALLEL", a.arg.name) for a in shared]
    tiles = [extent(axis), *(KEY_TILES if together > 1 or skip_conditions(item.fold) or _read_twice(item) else ())]
    for keys, vectors in SHAPES if together > 1 else STREAMED:
        if together * keys * vectors + keys > target.registers:
            continue
        shape = _Shape(lanes, vectors, keys, max(1, 3 * target.registers // (4 * together)))
        cut = [o for n in item.nests for o in _lanes(kernel, n, family, shared, shape)]
        sites = [a for v in item.fold.block if v.name in kept for a in v.axes if a.arg.family == family]
        cut += [opt("UPCAST", a.arg.name, fit(extent(a), lanes)) for a in sites if fit(extent(a), lanes) > 1]
        cut += [opt("UPCAST", a.arg.name, n) for a, n in heads]  # (last: what is kept lies along the keys)
        for tile in tiles:
            whole = tile >= extent(axis)
            at = family if not whole else str(shared[-1].arg.name) if shared else ""
            tiled = () if whole else (opt("TILE", family, tile),)
            stages = tuple(opt("STAGE", v, at=at) for v in kept if at)
            yield tuple(dict.fromkeys((*tiled, *cut, *grid, *stages)))


def _read_twice(item: FoldItem) -> bool:
    """Whether the scores and the weighted sum read the same array."""
    family = item.fold.axis.arg.family
    read = [{b for b, i, _ in loads(*n.roots) if any(a.arg.family == family for a in axes_of(*i))} for n in item.nests]
    large = [bs for n, bs in zip(item.nests, read, strict=True) if n.kind == "reduce" and n.expr.op == "mul"]
    return len(large) > 1 and bool(set.intersection(*large))


def _sharing(nests: Sequence[Nest], shared: Sequence[Node]) -> list[tuple[Node, int]]:
    """Axes of which an index has a quotient, each with how many neighbours have the same that fit registers."""
    found: dict[Node, int] = {}
    for n in nests:
        for x in walk(*n.roots):
            if x.op == "div" and x.src[0] in shared and isinstance(x.arg, int):
                found[x.src[0]] = x.arg
    return [pair for a, size in found.items() for pair in _together(a, [k for k in range(1, SHARING + 1) if size % k == 0])]


def _together(a: Node, fitting: Sequence[int]) -> list[tuple[Node, int]]:
    """An axis with how many neighbours along it are in registers together, of numbers that fit; none where that is one."""
    return [(a, max(fitting))] if max(fitting) > 1 else []


def _lanes(kernel: Kernel, n: Nest, family: str, shared: Sequence[Node], shape: _Shape) -> Iterator[Opt]:
    """Lanes of a nest, and what lies beside them."""
    own, lanes = [a for a in n.axes if a not in shared], shape.lanes
    if n.kind == "reduce" and not any(a.arg.family == family for a in n.reduce_axes):
        if (choices := contiguous(kernel, n)) and choices[0] in own:  # keys lie side by side
            yield opt("UPCAST", choices[0].arg.name, fit(extent(choices[0]), 2 * lanes))
            return
        along = ([a for a in contiguous(kernel, n) if a in n.reduce_axes] or list(n.reduce_axes[-1:]))[0]
        width = fit(extent(along), shape.vectors * lanes)
        yield opt("UPCAST", along.arg.name, width)
        if extent(along) % width == 0 and lanes < extent(along) <= STEPS * lanes:
            yield opt("UNROLL", along.arg.name, extent(along) // width)
        yield from (opt("UPCAST", a.arg.name, shape.keys) for a in own[-1:] if extent(a) >= shape.keys)
        return
    for a in own[-1:] or (n.reduce_axes[-1:] if n.kind == "reduce" else ()):
        room = shape.results if a in n.axes and a.arg.family != family else 1
        exact = [v for v in range(2, room + 1) if extent(a) % (v * lanes) == 0]
        width = max((fit(extent(a), min(1 << room.bit_length() - 1, WIDE) * lanes), *(v * lanes for v in exact)))
        if width > 1:
            yield opt("UPCAST", a.arg.name, width)
