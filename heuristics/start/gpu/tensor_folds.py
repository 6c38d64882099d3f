"""Start schedules of folds in block form (attention) whose sums of products are made by matrix instructions: a warp has 16 rows,
and what one product makes goes to the next in registers (Dao, "FlashAttention-2", 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Set

from ....ir.body import Fold
from ....ir.buffer import load_parts
from ....ir.kernel import Kernel
from ....ir.node import Node, axes_of
from ....opts.analysis.structure import extent, nests, shared_axes, stageable_values
from ....opts.defaults import family_name
from ....opts.opt import Opt, Opts, opt
from ....opts.options.tensor_moves import fitting_rows, places
from ....opts.tensor_cores import products, sides, source, takes
from ....targets import Target
from .warps import TensorProduct, staged

TILES = (32, 64, 128)
"""Elements of the folded axis in a tile."""
WARPS = (4, 8)
DEPTHS = (2, 1)
WIDE = 128
"""Columns that a warp has at most."""


def tensor_folds(kernel: Kernel, target: Target, allowed: Set[str]) -> Iterator[Opts]:
    """Guesses, perhaps illegal, the likeliest first: warps share the rows, and the group stages what all rows read of
    one tile of the folded axis. None where a sum would lose digits that may not be lost."""
    for fold in kernel.body:
        if isinstance(fold, Fold) and shared_axes(kernel):
            found = _products(kernel, fold, target, allowed)
            for tile in TILES if found else ():
                for warps in WARPS:
                    for depth in DEPTHS:
                        yield _fold(kernel, fold, found, (tile, warps, depth), True)
                        yield _fold(kernel, fold, found, (tile, warps, depth), False)


def _products(kernel: Kernel, fold: Fold, target: Target, allowed: Set[str]) -> list[TensorProduct]:
    """The sums of a fold's block along its rows, that is the last axis which all values share; none where one of them
    would lose digits that may not be lost."""
    row, names = shared_axes(kernel)[-1], {v.name for v in fold.block}
    out = []
    for nest in nests(kernel):
        place = next(((m, n, k) for m, n, k in places(nest) if m is row), None) if nest.name in names else None
        rows = fitting_rows(target, nest, row) if place is not None else []
        if place is None or not rows:
            continue
        operands = sides(products(nest.expr)[0], row)
        # one operand was computed, the other has a type of its own, whose numbers another type may not hold
        r = next((r for r in rows if any(source(x) is r.a for x in operands)), rows[0])
        exact = takes(r, nest.expr.dtype, operands, target)
        if not exact and "DOWNCONVERT" not in allowed:
            return []  # one sum by threads beside another by warps would not fit their registers
        out.append(TensorProduct(nest, r, bool(exact), *place))
    return out


def _fold(kernel: Kernel, fold: Fold, found: list[TensorProduct], numbers: tuple[int, int, int], keep: bool) -> Opts:
    """`numbers`: tile of the folded axis, warps, slots; `keep`: values that are read twice are kept."""
    tile, warps, depth = numbers
    shared, family = shared_axes(kernel), fold.axis.arg.family
    cuts: dict[Node, Opt] = {}
    for v in fold.block:
        for a in (*v.axes, *v.reduce_axes):
            p = next((p for p in found if a is p.k), None)
            size = tile if a.arg.family == family else extent(a)
            if a in shared:
                continue
            if p is not None:
                cuts[a] = opt("UNROLL", str(a.arg.name), max(1, size // p.row.k))
            elif a.arg.family == family or any(a is q.n for q in found):
                cuts[a] = opt("UPCAST", str(a.arg.name), max(1, min(WIDE, size)))
    at = str(fold.axis.arg.name)
    tiles: dict[str, Opt] = {}
    for p in found:
        for b, indices, _ in map(load_parts, p.nest.loads):
            last = list(axes_of(indices[-1]))
            if any(a.arg.family == family for a in axes_of(*indices)) and len(last) == 1:
                size = tile if last[0].arg.family == family else extent(last[0])
                tiles.setdefault(b.name, staged(b, indices, at, {last[0]: size}, depth))
    kept = [opt("STAGE", v, at=str(shared[-1].arg.name)) for v in stageable_values(kernel)] if keep else []
    first = [opt("TC", p.nest.name, m=str(p.m.arg.name), n=str(p.n.arg.name), k=str(p.k.arg.name), row=p.row.name) for p in found]
    first += [opt("TILE", at, tile), opt("LOCAL", family_name(kernel, shared[-1]), warps)]
    return (*first, *(o for o in cuts.values() if o.amount > 1), *kept, *tiles.values())
