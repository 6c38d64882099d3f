"""Start schedules for contractions with lanes along the other operand's rows, as along a convolution's output channels.

The axis that is consecutive in the output slides over one operand, bounds and all, or fills lanes badly (images of 14 by 14 and 7 by 7). Lanes
go along the other operand's rows instead: its panel is packed once for each worker, while elements of the image are broadcast, each to as many
products as the window has steps. The register tile then follows the output's shape without waste (Georganas et al., "Anatomy of
High-Performance Deep Learning Convolutions on SIMD Architectures", 2018). Results are transposed in registers where they are stored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...ir import index as ix
from ...ir.buffer import Buffer, loads
from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.analysis.dot_instructions import fitting
from ...opts.analysis.structure import Contraction, extent, shared_axes
from ...opts.axis_plan import MAX_EXTRA_WORK
from ...opts.defaults import waste
from ...opts.opt import Opt, Opts, opt
from ...targets import Target

UNROLLED = 4
"""Steps of a window that are unrolled."""
SHORT_WINDOW = 7
"""Elements of an axis that slides which are no register tile alone."""
NEAR = 0.1
"""The share of the second cache that the panel of a worker's lanes may take without blocks of what slides beside it."""
SUMS, SPARED = 0.75, 0.15
"""The share of the registers for accumulators beside such an axis, and the work that its tile may waste."""
NEAR_IMAGE = 1.0
"""The share of the second cache that an image may take which is read anew for each block of rows."""
BLOCK = 512
"""Terms of a sum between which its accumulators may be stored and loaded."""
NEAR_SUMS = 4
"""Second caches that all accumulators may fill which are stored and loaded again: their lanes lie far apart in memory."""
FEW_VECTORS = 16
"""Vectors up to which a row whose last one is not whole fills lanes badly."""

DEEP = 128
"""Terms of a sum beside which it takes little to transpose its results."""


@dataclass(frozen=True)
class LanesAlongRows:
    """`rows`: along which lanes go; `free`: the axes beside them and those of the lanes that are consecutive in the output."""

    rows: Node
    free: list[Node]


def lanes_along_rows(kernel: Kernel, target: Target, c: Contraction) -> LanesAlongRows | None:
    """None where nothing slides and whole vectors lie along the output, and on GPUs."""
    rows, lanes, width = max(c.rows, key=extent, default=None), target.lanes(c.nest.expr.dtype), extent(c.lane)
    if rows is None or 2 * extent(rows) < lanes or not width or target.kind == "gpu":
        return None
    if c.plain:
        ragged = lanes <= width <= FEW_VECTORS * lanes and waste(width, lanes) > 0
        if not ragged or depth_of(c) < DEEP or c.wide_value or c.tall_value or fitting(target, c.nest, c.lane) is not None:
            return None
    return LanesAlongRows(rows, [a for a in shared_axes(kernel) if a is not c.lane and a is not rows])


def row_lane_guesses(kernel: Kernel, target: Target, threads: int, c: Contraction) -> Iterator[list[Opts]]:
    """By register tile the schedules, perhaps illegal ones, the likeliest first; none where lanes lie well along the output."""
    found = lanes_along_rows(kernel, target, c)
    if found is None:
        return
    rows, lanes, width = found.rows, target.lanes(c.nest.expr.dtype), extent(c.lane)
    name, near = str(rows.arg.name), _image_bytes(c) <= NEAR_IMAGE * target.l2
    for vectors, most in ((2, 8), (2, 14), (1, 14), (1, 28)) if target.registers >= 32 else ((2, 4), (2, 6), (1, 8), (1, 13)):
        amount, copies = vectors * lanes, _equal_parts(width, most)
        left = target.registers - vectors * (copies + 1)
        if extent(rows) <= amount - lanes or left < 1:
            continue
        out = [opt("PADTO", name, -(-extent(rows) // amount) * amount)] if waste(extent(rows), amount) > MAX_EXTRA_WORK - 1 else []
        out.append(opt("UPCAST", name, amount))
        out += [opt("UPCAST", c.lane.arg.name, copies)] if copies > 1 else []
        if left > 2:  # (unrolled steps take some registers more)
            out += [opt("UNROLL", a.arg.name, extent(a)) for a in c.reduce[-1:] if 1 < extent(a) <= UNROLLED]
        ways = [(*out, *_by_rows(found, amount, threads, c))] if near or not found.free else []
        if found.free and not (near and _elements(c.tall) * c.tall.dtype.size > target.l2):  # (what is larger is best read once)
            ways.append((*out, *_window_grid(found.free, threads, name, c)))
        yield ways if near or _elements(c.tall) > _elements(c.wide) else ways[::-1]


def short_window_guesses(kernel: Kernel, target: Target, threads: int, c: Contraction) -> Iterator[Opts]:
    """Where what slides is as short as a window, as in the gradient of a convolution's weight, it makes no register tile alone: the longest
    axis beside it, whose results read the same panel, is in registers too."""
    found = lanes_along_rows(kernel, target, c)
    if found is None or c.plain or extent(c.lane) > SHORT_WINDOW or not c.stages or c.wide_value:
        return
    rows, free, lanes, width = found.rows, found.free, target.lanes(c.nest.expr.dtype), extent(c.lane)
    beside = max(free, key=extent, default=None)
    if beside is None:
        return
    vectors = 2 if target.registers >= 32 and extent(rows) >= 2 * lanes and waste(extent(rows), 2 * lanes) <= SPARED else 1
    whole = (8, 4, 2) if len(free) == 1 else (8, 6, 4, 3, 2)  # (one axis is cut in blocks)
    fit = (n for n in whole if vectors * width * n <= SUMS * target.registers and waste(extent(beside), n) <= SPARED)
    copies = next(fit, 1)
    if copies == 1 or waste(extent(rows), vectors * lanes) > 0.25:
        return
    name = str(beside.arg.name)
    tile = [opt("UPCAST", rows.arg.name, vectors * lanes), opt("UPCAST", name, copies), opt("UPCAST", c.lane.arg.name, width)]
    amounts = {rows: vectors * lanes, beside: copies, c.lane: width}
    if math.prod(map(extent, c.nest.axes)) * c.nest.expr.dtype.size <= NEAR_SUMS * target.l2:
        yield from _sums_in_blocks(tile, [a for a in c.nest.axes if extent(a) > amounts.get(a, 1)], amounts, rows, threads, c)
    plain = (*tile, opt("PARALLEL", name), opt("STAGE", c.tall.name, at=name))
    panel = depth_of(c) * vectors * lanes * c.tall.dtype.size
    if len(free) > 1 or panel > NEAR * target.l2:
        yield (*tile, *_window_grid(free, threads, rows.arg.name, c))
    yield plain


def _sums_in_blocks(
    tile: list[Opt], loops: list[Node], amounts: dict[Node, int], rows: Node, threads: int, c: Contraction
) -> Iterator[Opts]:
    """The sum in blocks outside of the loops over results, so that each part of both operands is packed for all of these: once, or once for
    each work item, which is a block of rows where there are several. `loops`: what is no single register tile."""
    outer, inner = c.reduce[0], depth_of(c) // max(1, extent(c.reduce[0]))
    block = -(-BLOCK // max(1, inner))
    if not loops or block >= extent(outer):
        return
    cut = [opt("TILE", str(outer.arg.name), block)] if block > 1 else []
    first, *rest = loops
    name = str(first.arg.name)
    if first is rows or threads > 1:
        amount = amounts.get(first, 1)
        share = -(-extent(first) // (amount * threads)) * amount
        if first is not rows and amount <= share < extent(first):
            cut.append(opt("TILE", name, share))
            before = f"{name}.t"
        elif rest:
            before = str(rest[0].arg.name)
        else:
            return
        grid = [opt("PARALLEL", name)]
    else:
        before, grid = name, []
    at = str(outer.arg.name)
    panels = [opt("STAGE", c.tall.name, at=at), opt("STAGE", c.wide.name, at=at, order="row")]
    yield (*tile, *cut, *grid, opt("MOVE", at, before=before), *panels)


def _window_grid(free: list[Node], threads: int, rows: str, c: Contraction) -> list[Opt]:
    """Work items that are few enough to pack a panel each, and where both operands are staged: the image where it has borders."""
    out: list[Opt] = []
    masked = _masked(c)
    for i, a in enumerate(free):
        name = a.arg.name
        last = i == len(free) - 1
        if not last and extent(a) >= 2 * threads:
            inner = free[i + 1].arg.name
            image = [opt("STAGE", c.wide.name, at=inner, order="row")] if masked else []
            return [*out, opt("PARALLEL", name), opt("STAGE", c.tall.name, at=name), opt("MOVE", inner, before=rows), *image]
        if last:
            block = -(-extent(a) // max(2, threads))  # each item packs a panel: few items, and a loop left to move inside them
            cut = [opt("TILE", name, block)] if 1 < block < extent(a) else []
            inner = f"{name}.t" if cut else name
            grid = [*cut, opt("PARALLEL", name), opt("STAGE", c.tall.name, at=name)]
            moved = [opt("MOVE", inner, before=rows)] if cut else []
            return [*out, *grid, *moved, *([opt("STAGE", c.wide.name, at=inner, order="row")] if masked else [])]
        out.append(opt("PARALLEL", name))
    return out


def _by_rows(found: LanesAlongRows, copies: int, threads: int, c: Contraction) -> list[Opt]:
    """Work items over the rows: each worker packs its own rows once, and all of them read the image."""
    rows, name = extent(found.rows), str(found.rows.arg.name)
    if rows <= copies and found.free:  # all of them in registers
        name = str(found.free[0].arg.name)
        image = [opt("STAGE", c.wide.name, at=name, order="row")] if _masked(c) else []
        return [opt("PARALLEL", name), opt("STAGE", c.tall.name, at=name), *image]
    if not _masked(c):
        return [opt("PARALLEL", name), opt("STAGE", c.tall.name, at=name)]
    # a copy of the image with its borders is for many rows
    block = -(-rows // (copies * max(2, threads))) * copies
    cut = [opt("TILE", name, block)] if copies < block < rows else []
    panel = f"{name}.t" if cut else name
    return [*cut, opt("PARALLEL", name), opt("STAGE", c.wide.name, at=name, order="row"), opt("STAGE", c.tall.name, at=panel)]


def _masked(c: Contraction) -> bool:
    """Whether the image has borders, beyond which it is 0."""
    return any(mask is not None for b, _, mask in loads(c.nest.expr) if b is c.wide)


def _image_bytes(c: Contraction) -> int:
    return _elements(c.wide) * c.wide.dtype.size


def _elements(buffer: Buffer) -> int:
    return math.prod(ix.upper(d) for d in buffer.shape)


def _equal_parts(size: int, most: int) -> int:
    """The number of equal parts' size, up to `most`, that wastes least."""
    return min(range(1, most + 1), key=lambda n: (-(-size // n) * n / size * (1 + 2 / n), -n))


def depth_of(c: Contraction) -> int:
    """Terms of each sum."""
    return math.prod(extent(a) for a in c.reduce)
