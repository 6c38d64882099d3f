"""Start schedules for folds whose block multiplies twice, as attention does: scores of a row against the folded axis, then a
sum over it weighted by them.

Lanes go along the rows (a spatial axis that the whole block shares and that the operand of the folded axis does not
depend on), so that maxima, sums and rescaling are plain vector operations without a horizontal step; both products
have register tiles of rows times a few elements broadcast from memory; a tile of the folded axis keeps its scores in
the L1."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir.body import Fold, Reduce
from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...opts.access import accesses
from ...opts.analysis.structure import extent, shared_axes, stageable_values
from ...opts.defaults import waste
from ...opts.nests import FoldItem, Nest, build
from ...opts.opt import Opt, Opts, opt
from ...targets import Target
from .lone_rows import ROUNDED, lone_rows

TILES = (64, 32, 16, 128, 256)
"""Elements of the folded axis in a tile: short tiles fit narrow windows, and long ones are merged less often."""


def fold_starts(kernel: Kernel, target: Target, threads: int) -> Iterator[Opts]:
    """Guesses for every such fold; some may be illegal."""
    for item in build(kernel, {}):
        if isinstance(item, FoldItem):
            yield from _fold(kernel, target, threads, item)


def weighted(fold: Fold) -> bool:
    """Whether a fold has a sum of products over the folded axis, for each element of another one."""
    over = (v for v in fold.block if isinstance(v.expr, Reduce) and v.expr.combine == "add" and v.body.op == "mul")
    return any(a.arg.family == fold.axis.arg.family for v in over if len(v.axes) > 1 for a in v.reduce_axes)


def _fold(kernel: Kernel, target: Target, threads: int, item: FoldItem) -> Iterator[Opts]:
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
            yield from lone_rows(kernel, target, item, shared, [v for v in stageable_values(kernel) if v in inside], row)
        return
    free = [a for a in shared if a is not row]
    grid = [opt("PARALLEL", a.arg.name) for a in (*free, row)]
    at = row.arg.name
    staged = [opt("STAGE", b, at=at) for b in dict.fromkeys(_strided(kernel, scores, row))]
    # steps of both products, spelled out: fewer loops, and what lies across the lanes is read and turned several elements at a time
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
