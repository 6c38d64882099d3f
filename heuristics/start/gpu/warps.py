"""Start schedules of sums of products by matrix instructions of a GPU (`opts/tensor_cores.py`): a tile of the output for each
group, made by warps of 64 × 64 where there is enough of it, operands in a few slots of shared memory whose chunks
change places, groups in bands.

The shapes are those that libraries use: 128 × 128 and 128 × 256 by warps of 64 × 64 (CUTLASS's defaults for sm_80; a
warp that makes 64 × 64 is what took a ladder of kernels from 78 to 106 % of cuBLAS), smaller ones where the output is
small or thin, and chunks of the reduction where there are fewer tiles than multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from math import prod, sqrt

from ....ir.buffer import Buffer, load_parts
from ....ir.kernel import Kernel
from ....ir.node import Node, axes_of
from ....opts.analysis.structure import extent, lane_axis, nests, stepped
from ....opts.defaults import family_name
from ....opts.nests import Nest
from ....opts.opt import Opt, Opts, opt
from ....opts.options.tensor_moves import fitting_rows, places
from ....opts.tensor_cores import products, sides, takes
from ....targets import Target
from ....targets.tensor_rows import TensorRow

ANY = frozenset({"REASSOC", "DOWNCONVERT"})
"""Effects that a matrix instruction may have."""
SHAPES = (
    (2, 2, 64, 64), (2, 4, 64, 64), (4, 2, 64, 64), (4, 2, 32, 64), (2, 4, 64, 32), (2, 2, 64, 32), (2, 2, 32, 64), (2, 2, 32, 32),
    (1, 4, 32, 32), (4, 1, 32, 32), (1, 4, 16, 64), (1, 4, 16, 32), (1, 8, 16, 16), (4, 1, 16, 64), (4, 1, 16, 16), (2, 2, 16, 16),
)  # fmt: skip
"""(warps along m, warps along n, rows of each, columns of each)."""
RINGS = ((64, 4), (128, 3), (128, 4), (64, 3), (128, 2), (64, 1))
"""(bytes of the reduction in a tile, slots)."""
QUICK = (128, 3)
"""The ring of a start schedule that is chosen among few."""
BANDS = (8, 4, 2)
CHUNK_BYTES, ROWS = 16, 8
"""Bytes of a chunk that is copied at once, and rows that are read together."""
PLACES = 1 << 10
"""More places than a sum of products can be made along; among equals the first is taken, whose k is the longest."""
CHUNK = 4
"""Tiles of the reduction that a chunk has at least."""
KEPT = 6
"""Shapes that are tried with every ring."""


@dataclass(frozen=True, slots=True)
class Warps:
    """The numbers of such a schedule."""

    wm: int
    wn: int
    um: int
    un: int
    kt: int
    """Elements of the reduction in a staged tile; 0: operands are read from memory."""
    depth: int = 3
    band: int = 8
    sk: int = 1
    """Chunks of the reduction that a second phase adds up."""


@dataclass(frozen=True, eq=False)
class TensorProduct:
    """A sum of products, the instruction that can make it, and the axes along which it does."""

    nest: Nest
    row: TensorRow
    exact: bool
    m: Node
    n: Node
    k: Node


def find_products(kernel: Kernel, target: Target, allowed: Set[str] = ANY) -> list[TensorProduct]:
    """The sums of a kernel that matrix instructions could make, each by the first row that fits (its operands' own type
    before wider ones), along the largest axes; those that lose digits only where DOWNCONVERT is allowed."""
    out = []
    for nest in nests(kernel):
        lane = lane_axis(kernel, nest) if nest.kind == "reduce" else None
        best: tuple[float, TensorProduct] | None = None
        for place, (m, n, k) in enumerate(places(nest)):
            if lane in (m, n) and n is not lane:
                continue  # neighbouring threads store neighbours along n
            found = next(iter(fitting_rows(target, nest, m)), None)
            exact = found is not None and takes(found, nest.expr.dtype, sides(products(nest.expr)[0], m), target)
            if found is None or (not exact and "DOWNCONVERT" not in allowed):
                continue
            size = prod(extent(a) for a in (m, n, k)) + (0.5 if n is lane else 0.0) + 0.25 * _rows_along(nest, k) - place / PLACES
            if best is None or size > best[0]:
                best = (size, TensorProduct(nest, found, bool(exact), m, n, k))
        out += [best[1]] if best is not None else []
    return out


def _rows_along(nest: Nest, k: Node) -> bool:
    """Whether every input that is read along `k` is consecutive along it."""
    found = [load_parts(x)[1] for x in nest.loads if k in axes_of(*load_parts(x)[1])]
    return all(k in axes_of(i[-1]) for i in found)


def tensor_starts(kernel: Kernel, target: Target, allowed: Set[str] = ANY) -> Iterator[Opts]:
    """Guesses, perhaps illegal, for the largest sum of products."""
    found = find_products(kernel, target, allowed)
    if found:
        p = max(found, key=lambda p: prod(extent(a) for a in p.nest.all_axes))
        yield from (tensor_product(kernel, p, w) for w in warps(p, target))


def quick_tensor(kernel: Kernel, target: Target, allowed: Set[str]) -> Iterator[Opts]:
    """The likeliest of `tensor_starts`, best first, without asking the model: the cheapest shapes in three slots of 128
    bytes, the reduction in chunks where tiles are few."""
    found = find_products(kernel, target, allowed)
    if not found:
        return
    p = max(found, key=lambda p: prod(extent(a) for a in p.nest.all_axes))
    kt, depth = (max(p.row.k, QUICK[0] // p.row.a.size), QUICK[1])
    while kt > max(p.row.k, extent(p.k) // 2):
        kt //= 2
    for shape in sorted((s for s in SHAPES if _fits(s, p)), key=lambda s: shape_cost(s, p, target))[:KEPT]:
        tiles = _tiles(shape, p)
        # a second phase costs a launch: only where most of the machine would be idle without
        split = chunks(tiles, extent(p.k) // (CHUNK * kt), target) if 4 * tiles <= target.cores else []
        yield tensor_product(kernel, p, Warps(*shape, kt, depth, sk=split[0] if split else 1))


def warps(p: TensorProduct, target: Target, kept: int = KEPT) -> Iterator[Warps]:
    """Numbers for `tensor_product`, the likeliest first."""
    size, deep = p.row.a.size, extent(p.k)
    shapes = sorted((s for s in SHAPES if _fits(s, p)), key=lambda s: shape_cost(s, p, target))
    for shape in shapes[:kept]:
        tiles = _tiles(shape, p)
        for bytes_, depth in RINGS:
            kt = max(p.row.k, bytes_ // size)
            if kt > max(deep, p.row.k):
                continue
            guess = Warps(*shape, kt, depth)
            yield guess
            yield from (replace(guess, sk=sk) for sk in chunks(tiles, deep // (CHUNK * kt), target))


def chunks(tiles: int, most: int, target: Target) -> list[int]:
    """Into how many chunks to cut a reduction so that `tiles` groups become enough for a machine: about one for each
    multiprocessor, or two."""
    if tiles >= target.cores:
        return []
    least = 1 << (target.cores // tiles).bit_length() - 1
    return [n for n in (least, 2 * least) if 2 <= n <= most]


def _fits(shape: tuple[int, int, int, int], p: TensorProduct) -> bool:
    wm, wn, um, un = shape
    small = um == p.row.m and un == p.row.n * 2
    rows, columns = wm * max(um, p.row.m), wn * max(un, p.row.n)
    return small or (rows < 2 * max(p.row.m, extent(p.m)) and columns < 2 * max(p.row.n, extent(p.n)))


def _tiles(shape: tuple[int, int, int, int], p: TensorProduct) -> int:
    wm, wn, um, un = shape
    others = prod(extent(a) for a in p.nest.axes if a is not p.m and a is not p.n)
    return -(-extent(p.m) // (wm * um)) * -(-extent(p.n) // (wn * un)) * others


def shape_cost(shape: tuple[int, int, int, int], p: TensorProduct, target: Target) -> float:
    """Relative time of a shape: how evenly its groups fill the machine, what tiles waste, and the bytes of shared
    memory that a warp reads for each product."""
    wm, wn, um, un = shape
    tiles = _tiles(shape, p)
    per = max(1, 16 // (wm * wn))  # small groups share a multiprocessor
    rounds = -(-tiles // (target.cores * per)) * target.cores * per / tiles if tiles > target.cores else target.cores / tiles
    waste = -(-extent(p.m) // (wm * um)) * wm * um * -(-extent(p.n) // (wn * un)) * wn * un / (extent(p.m) * extent(p.n))
    read = (um + un) / (um * un) + (wm * um + wn * un) / (wm * um * wn * un)
    return sqrt(rounds) * waste * (1 + 16 * read)


def tensor_product(kernel: Kernel, p: TensorProduct, w: Warps) -> Opts:
    """wm × wn warps of um × un each; operands staged kt of the reduction at a time in `depth` slots; sk chunks of the
    reduction."""
    m, n = family_name(kernel, p.m), family_name(kernel, p.n)
    k = str(p.k.arg.name)
    out: list[Opt] = [opt("TILE", a, 1) for a in stepped(kernel, p.nest)] + [opt("SPLIT", k, w.sk)] * (w.sk > 1)
    out.append(opt("TC", p.nest.name, m=str(p.m.arg.name), n=str(p.n.arg.name), k=k, row=p.row.name))
    for axis, warps_, each, least in ((m, w.wm, w.um, p.row.m), (n, w.wn, w.un, p.row.n)):
        out += [opt("LOCAL", axis, warps_)] * (warps_ > 1) + [opt("UPCAST", axis, each)] * (each > least)
    deep = -(-extent(p.k) // w.sk)
    if w.kt and deep > w.kt:
        out.append(opt("TILE", k, w.kt))
        steps = w.kt // p.row.k
        out += [opt("UNROLL", k, steps)] * (steps > 1)
        sizes = {p.m: w.wm * w.um, p.n: w.wn * w.un, p.k: w.kt}
        out += [staged(b, indices, k, sizes, w.depth) for b, indices in operands(p)]
    rows = -(-extent(p.m) // (w.wm * w.um))
    band = next((b for b in BANDS if b <= w.band and rows % b == 0), 0)
    if band and -(-extent(p.n) // (w.wn * w.un)) > 1:
        out.append(opt("SWIZZLE", "grid", band))
    return tuple(out)


def operands(p: TensorProduct) -> list[tuple[Buffer, tuple[Node, ...]]]:
    """The buffers that the factors read, once each; scalars and what has no axis of the tile are left out."""
    out: dict[str, tuple[Buffer, tuple[Node, ...]]] = {}
    for x in p.nest.loads:
        buffer, indices, _ = load_parts(x)
        if axes_of(*indices) & {p.m, p.n} and p.k in axes_of(*indices):
            out.setdefault(buffer.name, (buffer, indices))
    return list(out.values())


def staged(b: Buffer, indices: tuple[Node, ...], at: str, sizes: dict[Node, int], depth: int) -> Opt:
    """STAGE of an operand as it lies in memory, its chunks of 16 bytes exchanged among eight rows where a row has as
    many, else with rows apart by one chunk: either way eight rows' chunks lie in different banks."""
    if any(i.op not in ("axis", "const") for i in indices):  # windows overlap, and begin anywhere
        return opt("STAGE", b.name, at=at, order="row")
    last = next((n for a, n in sizes.items() if a in axes_of(indices[-1])), 0)
    chunks = last * b.dtype.size // CHUNK_BYTES
    layout = {"swizzle": ROWS} if chunks >= ROWS and chunks & (chunks - 1) == 0 else {"pad": CHUNK_BYTES // b.dtype.size}
    return opt("STAGE", b.name, at=at, order="row", depth=depth, **layout)
