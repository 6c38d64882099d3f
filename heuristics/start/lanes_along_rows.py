"""Start schedules for contractions with lanes along the other operand's rows, as along a convolution's output channels.

The axis that is consecutive in the output slides over one operand, bounds and all, or fills lanes badly (images of 14 by 14 and 7 by 7). Lanes
go along the other operand's rows instead: its panel is packed once for each worker, while elements of the image are broadcast, each to as many
products as the window has steps. The register tile then follows the output's shape without waste (Georganas et al., "Anatomy of
High-Performance Deep Learning Convolutions on SIMD Architectures", 2018). Results are transposed in registers where they are stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product, takewhile, zip_longest

from ...ir import index as ix
from ...ir.buffer import Buffer, loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...opts.access import strides_of
from ...opts.analysis.dot_instructions import fitting
from ...opts.analysis.interior import interior
from ...opts.analysis.structure import Contraction, extent, shared_axes
from ...opts.axis_plan import MAX_EXTRA_WORK
from ...opts.defaults import waste
from ...opts.opt import Opt, Opts, opt
from ...targets import Target
from ..machine import DEFAULT

UNROLLED = 4
"""Steps of a window that are unrolled."""
SHORT_WINDOW = 7
"""Elements of an axis that slides which are no register tile alone."""
NEAR = 0.1
"""The share of the second cache that the panel of a worker's lanes may take without blocks of what slides beside it."""
SUMS, SPARED = 0.75, 0.15
"""The share of the registers for accumulators beside such an axis, and the work that its tile may waste."""
NEAR_IMAGE = 0.5
"""The share of the second cache that an image may take which is read anew for each block of rows."""
NEAR_POINTS = 0.8
"""The share of it that a copy of points may take: it is read once for each block of rows, in order."""
NEAR_BAND = 0.125
"""The share of it that a band of an image may take which stays near while all lanes pass over it."""
FAR_WEIGHTS = 2
"""Second caches that weights may take which are read anew for each band, where the image is far as well."""
STEPS = 64
"""Steps of an axis in a band at most."""
TILES, BESIDE = 3, 4
"""Register tiles that are asked about, and how many results along another axis they have at most."""
REPACKED, COPIED = 96, 512
"""Results of each row for which its weights may be packed anew; rows for which points of an image that is near are copied."""
BLOCK = 512
"""Terms of a sum between which its accumulators may be stored and loaded."""
NEAR_SUMS = 4
"""Second caches that all accumulators may fill which are stored and loaded again: their lanes lie far apart in memory."""
FEW_VECTORS = 16
"""Vectors up to which a row whose last one is not whole fills lanes badly."""

STORED_APART = 3.0
"""Cycles of a result that is stored by itself, where lanes are far apart in memory."""
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


@dataclass(frozen=True)
class RegisterTile:
    """`vectors` of lanes by `copies` of what slides, and by `beside` results along another axis."""

    vectors: int
    copies: int
    beside: Node | None = None
    amount: int = 1

    def times(self, a: Node) -> int:
        """How many of an axis, other than those of lanes and of what slides, are in registers."""
        return self.amount if a is self.beside else 1


def row_lane_guesses(kernel: Kernel, target: Target, threads: int, c: Contraction) -> Iterator[list[Opts]]:
    """By register tile the schedules, perhaps illegal ones, the likeliest first; none where lanes lie well along the output."""
    found = lanes_along_rows(kernel, target, c)
    if found is None:
        return
    rows, name, image, weights = found.rows, str(found.rows.arg.name), read_bytes(c, {}), _bytes(c.tall)
    most = (1 if image <= NEAR_IMAGE * target.l2 else FAR_WEIGHTS) * target.l2  # (what is larger is best read once)
    tiles = [[(n, t) for t in _tiles(found, n, target, c)[:TILES]] for n in _lanes(found, target, c)]
    for lanes, tile in (t for some in zip_longest(*tiles) for t in some if t is not None):
        amount = tile.vectors * lanes
        out = [opt("PADTO", name, -(-extent(rows) // amount) * amount)] if waste(extent(rows), amount) > MAX_EXTRA_WORK - 1 else []
        out.append(opt("UPCAST", name, amount))
        out += [opt("UPCAST", c.lane.arg.name, tile.copies)] if tile.copies > 1 else []
        out += [opt("UPCAST", tile.beside.arg.name, tile.amount)] if tile.beside is not None else []
        # steps that are unrolled share elements, which the compiler then keeps: where these are too many, it stores them beside
        sums = tile.vectors * (tile.copies * tile.amount + 1)
        for a in c.reduce[-1:]:
            if 1 < extent(a) <= UNROLLED and sums + (tile.copies + extent(a) - 1) * tile.amount <= target.registers:
                out.append(opt("UNROLL", a.arg.name, extent(a)))
        # a short step of few registers: two channels of what is copied in turns, so that the loop around them costs less
        short = tile.vectors > 1 and target.registers < DEFAULT.core.large_file and all(o.op != "UNROLL" for o in out)
        if short and extent(c.reduce[0]) % 2 == 0 and (masked(c) or strided_points(c)):
            out.append(opt("UNROLL", c.reduce[0].arg.name, 2))
        apart = found.free and extent(rows) > amount
        points = [(*out, *way) for way in _points_by_rows(found, amount, tile, target, threads, c)]
        ways = [(*out, *way) for way in _by_rows(found, amount, target, threads, c)] if apart or not found.free else []
        grid = (
            [(*out, *window_grid(found, tile.vectors * lanes, tile.times, target, threads, c))]
            if found.free and (weights <= most or not ways)
            else []
        )
        yield [*points, *ways, *grid] if weights > image else [*points, *grid, *ways]


def _lanes(found: LanesAlongRows, target: Target, c: Contraction) -> list[int]:
    """Lanes of a vector: of a part of one where the rows fill no more, which takes no longer; of half a one, too, where many less are idle,
    which takes half as long where a processor's units are as wide as that."""
    rows, whole = extent(found.rows), target.lanes(c.nest.expr.dtype)
    if rows <= whole // 2:
        return [1 << (rows - 1).bit_length()]
    return [whole] if waste(rows, whole) < waste(rows, whole // 2) + SPARED else [whole, whole // 2]


def _tiles(found: LanesAlongRows, lanes: int, target: Target, c: Contraction) -> list[RegisterTile]:
    """The register tiles that take the fewest cycles for a result, best first: each step loads a vector of weights for each vector of lanes,
    from the second cache, and broadcasts an element for each of the others."""
    core, caches, rows, width = DEFAULT.core, DEFAULT.caches, extent(found.rows), extent(c.lane)
    # what is computed on the way to a product, and a product that is not part of its addition, are in registers too
    computed = any(n.op not in ("load", "cast") for n in c.nest.expr.src) or any(n.dtype is not c.nest.expr.dtype for n in c.nest.loads)
    large = target.registers >= core.large_file
    taken = target.registers // 4 if computed and large else 0 if computed or large or "fma" in target.features else 2
    most = target.registers - taken
    # results of an odd number of places are stored element by element, which are in as many lines as there are lanes
    parts = [_equal_parts(width, n) for n in range(1, most)]
    copies = dict.fromkeys((*parts, *(n + 1 for n in parts if n % 2 and n + 1 < min(most, width + lanes))))
    apart = STORED_APART * lanes / max(1, depth_of(c))
    # among equals, results along an inner axis: they are of one image, and share its rows
    others: list[tuple[Node | None, int]] = [(None, 1), *((a, n) for a in reversed(found.free) for n in range(2, BESIDE + 1))]
    best: dict[RegisterTile, tuple[float, int, int]] = {}
    for vectors, n, (beside, amount) in product(range(1, 4), copies, others):
        sums, read, spare = vectors * n * amount, n * amount, waste(extent(beside), amount) if beside is not None else 0.0
        wide = vectors == 3 and waste(rows, 3 * lanes) >= waste(rows, 2 * lanes)  # (wider panels take more of a cache)
        if amount > n != width:  # (rows of what slides lie together, others far apart)
            continue
        if wide or rows <= (vectors - 1) * lanes or vectors * (read + 1) >= most or max(spare, waste(width, n)) > MAX_EXTRA_WORK - 1:
            continue
        issued = sums + vectors + (0 if vectors == 1 and target.broadcasts_operands else read) + core.overhead
        step = max(sums / core.ports, (read + vectors) / core.load_ports, core.latency, issued / core.issue)
        step += caches.unhidden * vectors * lanes * c.nest.expr.dtype.size / caches.l2
        best[RegisterTile(vectors, n, beside, amount)] = (
            round((step / sums + (apart if n % 2 else 0.0)) * (1 + waste(rows, vectors * lanes)) * (1 + waste(width, n)) * (1 + spare), 2),
            amount,
            -sums,
        )
    return sorted(best, key=lambda t: best[t])


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
        yield (*tile, *window_grid(found, vectors * lanes, RegisterTile(vectors, width, beside, copies).times, target, threads, c))
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


def window_grid(
    found: LanesAlongRows, amount: int, times: Callable[[Node], int], target: Target, threads: int, c: Contraction
) -> list[Opt]:
    """Work items that are few enough to pack a panel each, and where both operands are staged: of the image, where it has borders, a band of
    rows at a time that stays near while all of the other operand's rows pass over it. `amount`: how many of these are in registers; `times`:
    how many of another axis."""
    free, out = found.free, list[Opt]()
    place = next((i for i, a in enumerate(free) if extent(a) >= 2 * threads), len(free) - 1)
    out += [opt("PARALLEL", a.arg.name) for a in free[:place]]
    item, name = free[place], str(free[place].arg.name)
    step = times(item)
    block = -(-extent(item) // (step * max(2, threads))) * step
    cut = step < block < extent(item)
    out += [opt("TILE", name, block)] if cut else []
    grid = [opt("PARALLEL", name), opt("STAGE", c.tall.name, at=name)]
    loops = [(item, f"{name}.t", block)] if cut else []
    loops += [(a, str(a.arg.name), extent(a)) for a in free[place + 1 :]]
    order, moved, at, one = c.nest.axes, list[Opt](), name, dict.fromkeys(free[: place + 1], 1)
    share = NEAR_BAND if _bytes(c.tall) <= NEAR_IMAGE * target.l2 else NEAR_IMAGE
    for a, at, length in loops:
        step = times(a)
        near = takewhile(lambda n: _copied_bytes(c, {**one, a: n}) <= share * target.l2, range(step, min(length, STEPS * step) + 1, step))  # noqa: B023
        fits = [n for n in near if length % n == 0]
        inside = extent(found.rows) > amount and order.index(a) > order.index(found.rows)
        moved += [opt("MOVE", at, before=found.rows.arg.name)] if inside else []
        if fits:
            out += [opt("TILE", str(a.arg.name), fits[-1])] if step < fits[-1] < length else []
            break
        one[a] = step
    if masked(c) or (moved and _is_strided(c)):
        return [*out, *grid, *moved, _copy(c, at)]
    if not c.plain or read_bytes(c, {}) <= NEAR_IMAGE * target.l2:
        return [*out, *grid, *moved]
    lane = str(c.lane.arg.name)  # what comes from afar is put together once for all lanes, and not in pieces of lines for each of them
    return [*out, *grid, opt("MOVE", lane, before=found.rows.arg.name), opt("STAGE", c.wide.name, at=lane)]


def read_bytes(c: Contraction, taken: Mapping[Node, int]) -> int:
    """Bytes of the image that the results at so many places of some axes, and at all of the others, are made of."""
    size = c.wide.dtype.size
    for i, whole in zip(next(i for b, i, _ in loads(c.nest.expr) if b is c.wide), c.wide.shape, strict=True):
        terms = ix.parts(interior(i))[0]
        plain = all(a.op == "axis" for a in terms)
        size *= 1 + sum(abs(k) * (taken.get(a, extent(a)) - 1) for a, k in terms.items()) if plain else ix.upper(whole)
    return size


def _copied_bytes(c: Contraction, taken: Mapping[Node, int]) -> int:
    """Bytes of a copy of what `read_bytes` counts: without those that lie between points."""
    if not strided_points(c):
        return read_bytes(c, taken)
    axes = axes_of(*next(i for b, i, _ in loads(c.nest.expr) if b is c.wide))
    return c.wide.dtype.size * math.prod(taken.get(a, extent(a)) for a in axes)


def _by_rows(found: LanesAlongRows, amount: int, target: Target, threads: int, c: Contraction) -> Iterator[list[Opt]]:
    """Work items over the rows: each worker packs its own rows once, and all of them read the image where it is near, or the channels that are,
    one part of the sum at a time."""
    name, whole = str(found.rows.arg.name), read_bytes(c, {})
    near = whole <= NEAR_IMAGE * target.l2
    if not masked(c):
        if near or not found.free:
            yield [opt("PARALLEL", name), opt("STAGE", c.tall.name, at=name)]
        return
    cut = _blocks_of_rows(found, amount, threads)
    panel, grid = opt("STAGE", c.tall.name, at=f"{name}.t" if cut else name), opt("PARALLEL", name)
    if near or not found.free:
        yield [*cut, grid, _copy(c, name), panel]
        return
    first = found.free[0]
    if read_bytes(c, {first: 1}) <= NEAR_IMAGE * target.l2:  # one image at a time is near: no sum is cut
        yield [*cut, grid, opt("STAGE", c.tall.name, at=name), _copy(c, str(first.arg.name))]
    k = c.reduce[0]
    part = next((n for n in (256, 128, 64, 32, 16) if n < extent(k) and n * whole <= NEAR_BAND * target.l2 * extent(k)), 0)
    if part:
        deep = str(k.arg.name)
        blocks = [opt("TILE", deep, part), opt("MOVE", deep, before=found.free[0].arg.name)]
        yield [*cut, grid, *blocks, panel, _copy(c, deep)]


def _points_by_rows(
    found: LanesAlongRows, amount: int, tile: RegisterTile, target: Target, threads: int, c: Contraction
) -> Iterator[list[Opt]]:
    """A copy of the points that are read, where it is near, of all images or of those in a register tile. Rows of weights are packed while they
    are near, however large all of them are: once, or anew for each image."""
    name, near = str(found.rows.arg.name), NEAR_POINTS * target.l2
    if not strided_points(c):
        return
    if _copied_bytes(c, {}) <= near:
        cut = _blocks_of_rows(found, amount, threads)
        if cut and extent(found.rows) >= COPIED:
            yield [*cut, opt("PARALLEL", name), _copy(c, name), opt("STAGE", c.tall.name, at=f"{name}.t")]
        return
    for first in found.free[:1]:
        step, image = tile.times(first), str(first.arg.name)
        results = step * math.prod(map(extent, (*found.free[1:], c.lane)))
        if results >= REPACKED and _copied_bytes(c, {first: step}) <= near and extent(first) >= step * threads:
            yield [opt("PARALLEL", image), _copy(c, image), opt("STAGE", c.tall.name, at=name)]


def _blocks_of_rows(found: LanesAlongRows, amount: int, threads: int) -> list[Opt]:
    """Rows in as many blocks as there are workers, or two: a copy of the image is for many rows."""
    rows = extent(found.rows)
    block = -(-rows // (amount * max(2, threads))) * amount
    return [opt("TILE", str(found.rows.arg.name), block)] if amount < block < rows else []


def masked(c: Contraction) -> bool:
    """Whether the image has borders, beyond which it is 0."""
    return any(mask is not None for b, _, mask in loads(c.nest.expr) if b is c.wide)


def slides(c: Contraction, buffer: Buffer) -> bool:
    """Whether windows of neighbouring results share elements of an operand."""
    found = (axes_of(i) for b, indices, _ in loads(c.nest.expr) if b is buffer for i in indices)
    return any(not axes.isdisjoint(c.reduce) and not axes.isdisjoint(c.nest.axes) for axes in found)


def strided_points(c: Contraction) -> bool:
    """Whether results are made of points of the image that lie apart and that no others share, as with strides beyond the window."""
    return not c.plain and _is_strided(c) and not slides(c, c.wide)


def _copy(c: Contraction, at: str) -> Opt:
    """The copy of the image: as it lies where windows share elements, in the order in which it is read elsewhere."""
    return opt("STAGE", c.wide.name, at=at, order="row" if slides(c, c.wide) else "panel")


def _is_strided(c: Contraction) -> bool:
    """Whether the elements under a window of one step lie apart in the image, as with strides: a copy takes fewer lines of the first cache."""
    strides = next(strides_of(b, i) for b, i, _ in loads(c.nest.expr) if b is c.wide)
    return strides.get(c.lane) not in (0, 1, None) and not any(strides.get(a) == 1 for a in c.reduce)


def _bytes(buffer: Buffer) -> int:
    return math.prod(ix.upper(d) for d in buffer.shape) * buffer.dtype.size


def _equal_parts(size: int, most: int) -> int:
    """The number of equal parts' size, up to `most`, that wastes least."""
    return min(range(1, most + 1), key=lambda n: (-(-size // n) * n / size * (1 + 2 / n), -n))


def depth_of(c: Contraction) -> int:
    """Terms of each sum."""
    return math.prod(extent(a) for a in c.reduce)
