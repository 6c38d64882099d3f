"""Start rules for sums of products by matrix instructions of a GPU (`opts/tensor_cores.py`), and for folds made of them.

A tile of the output for each group is made by warps of 64 × 64 where there is enough of it, operands in a few slots of shared memory whose
chunks change places, groups in bands. The shapes are those that libraries use: 128 × 128 and 128 × 256 by warps of 64 × 64 (CUTLASS's defaults
for sm_80; a warp that makes 64 × 64 is what took a ladder of kernels from 78 to 106 % of cuBLAS), smaller ones where the output is small or
thin, and chunks of the reduction where there are fewer tiles than multiprocessors.

Hopper's warpgroups take one more that copies operands by TMA (`opts/options/grid.py`). Their shapes are CUTLASS's and DeepGEMM's: 128 × 256
by two warpgroups of 64 × 256 in four slots of 128 bytes of the reduction where the output is large, 128 × 128 in more slots where it is not, and
64 rows where it is thin; a grid of one group a multiprocessor, in bands.

Of folds (attention), a warp has 16 rows, and what one product makes goes to the next in registers (Dao, "FlashAttention-2", 2023)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import prod, sqrt

from ....ir import index as ix
from ....ir.body import Fold
from ....ir.buffer import Buffer, load_parts
from ....ir.errors import KernelError
from ....ir.kernel import Kernel
from ....ir.node import Node, axes_of
from ....opts.analysis.structure import extent, lane_axis, nests, shared_axes, stageable_values, stepped
from ....opts.defaults import family_name
from ....opts.nests import Nest
from ....opts.opt import Opt, Opts, opt
from ....opts.options.grid import CLUSTER, REGISTERS
from ....opts.options.tc import fitting_rows, product_axes
from ....opts.tensor_cores import products, sides, source, takes
from ....targets import Target
from ....targets.tensor_rows import WGMMA_TYPES, TensorRow, wgmma_columns, wgmma_row
from ..start_rule import Numbers, StartFacts, StartRule, Template

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
        for place, (m, n, k) in enumerate(product_axes(nest)):
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


def warps(p: TensorProduct, target: Target, kept: int = KEPT) -> Iterator[Warps]:
    """Numbers for `tensor_product`, the likeliest first."""
    size, deep = p.row.a.size, extent(p.k)
    shapes = sorted((s for s in SHAPES if _fits(s, p)), key=lambda s: shape_cost(s, p, target))
    for shape in shapes[:kept]:
        tiles = _tiles(shape, p)
        rings = ((max(p.row.k, bytes_ // size), depth) for bytes_, depth in RINGS)
        least = max(p.row.k, 1 << deep.bit_length() - 1)  # tiles are not longer than the reduction
        for kt, depth in dict.fromkeys((min(kt, least), depth) for kt, depth in rings):
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
    at = k if deep > w.kt else _taps(p)
    if w.kt and at:
        out.append(opt("TILE", at, w.kt if at == k else 1))
        steps = min(deep, w.kt) // p.row.k
        out += [opt("UNROLL", k, steps)] * (steps > 1)
        sizes = {p.m: w.wm * w.um, p.n: w.wn * w.un, p.k: min(deep, w.kt)}
        out += [staged(b, indices, at, sizes, w.depth) for b, indices in operands(p)]
    rows = -(-extent(p.m) // (w.wm * w.um))
    band = next((b for b in BANDS if b <= w.band and rows % b == 0), 0)
    if band and -(-extent(p.n) // (w.wn * w.un)) > 1:
        out.append(opt("SWIZZLE", "grid", band))
    return tuple(out)


def _taps(p: TensorProduct) -> str:
    """The innermost axis of a window: where a tile holds all of k, one tap after the other is brought. Else none."""
    whole = extent(p.k) % p.row.k == 0
    return next((str(a.arg.name) for a in reversed(p.nest.reduce_axes) if whole and a is not p.k), "")


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
    chunk = CHUNK_BYTES // b.dtype.size
    terms, fixed = ix.parts(indices[-1])
    inside = {t for t in terms if axes_of(t) & sizes.keys()}
    if any(c % chunk for c in (fixed, *(terms[t] for t in terms.keys() - inside))):  # windows begin anywhere
        return opt("STAGE", b.name, at=at, order="row")
    # (several numbers may lie in one element)
    last = sum((ix.bounds(t)[1] + 1) * sizes[a] // extent(a) for t in inside for a in axes_of(t) & sizes.keys())
    chunks = last // chunk
    layout = {"swizzle": ROWS} if chunks >= ROWS and chunks & (chunks - 1) == 0 else {"pad": chunk}
    return opt("STAGE", b.name, at=at, order="row", depth=depth, **layout)


# warpgroups -----------------------------------------------------------------------------------------------------------
GROUP_SHAPES = ((2, 256), (2, 192), (2, 128), (1, 256), (1, 128), (1, 64), (1, 32), (1, 16))
"""(warpgroups along m, columns of each)."""
COLUMNS = (16, 32, 64, 96, 128, 160, 192, 224, 256)
"""Columns of a warpgroup that a search tries."""
SLOTS = (6, 4, 3, 2)
SLOT_BYTES, GROUP_ROWS = 128, 64
"""Bytes of the reduction in a slot, and rows of a warpgroup's tile."""
RESERVED = 1 << 10
"""Bytes of shared memory for barriers."""
IDLE = 1.25
"""How much of a tile may lie outside the output."""


@dataclass(frozen=True, slots=True)
class Warpgroups:
    """The numbers of such a schedule."""

    consumers: int
    columns: int
    depth: int
    persist: int = 1
    """Groups a multiprocessor that go through the tiles; 0: each tile has a group of its own."""
    sk: int = 1
    cluster: int = 0
    """2: pairs of groups bring what both read once."""
    band: int = 8


def warpgroups(p: TensorProduct, target: Target) -> Iterator[Warpgroups]:
    """Numbers for `warpgroup_product`."""
    deep = SLOT_BYTES // p.row.a.size
    for consumers, columns in GROUP_SHAPES:
        if columns not in wgmma_columns(str(_suffix(p))):
            continue
        rows, wide = consumers * GROUP_ROWS, extent(p.n)
        if (rows > GROUP_ROWS and rows > IDLE * extent(p.m)) or (columns > 16 and columns > IDLE * wide) or extent(p.k) < 2 * deep:
            continue
        tiles = -(-extent(p.m) // rows) * -(-wide // columns) * prod(extent(a) for a in p.nest.axes if a is not p.m and a is not p.n)
        depth = next((d for d in SLOTS if d * (rows + columns) * SLOT_BYTES + RESERVED <= target.shared), 0)
        if depth < 2:
            continue
        guess = Warpgroups(consumers, columns, depth, int(tiles > target.cores))
        yield guess
        if tiles > target.cores:
            yield replace(guess, cluster=CLUSTER)
        yield from (replace(guess, sk=sk, persist=0) for sk in chunks(tiles, extent(p.k) // (CHUNK * deep), target))


def _by_warpgroups(p: TensorProduct, f: StartFacts) -> bool:
    """Whether instructions of warpgroups make it, and lose no digits that may not be lost."""
    suffix = _suffix(p)
    if suffix is None:
        return False
    row = wgmma_row(suffix, wgmma_columns(suffix)[0])
    return "DOWNCONVERT" in f.allowed or bool(takes(row, p.nest.expr.dtype, sides(products(p.nest.expr)[0], p.m), f.target))


def _suffix(p: TensorProduct) -> str | None:
    """The kind of wgmma that multiplies what a row of mma.sync does."""
    suffix = p.row.name.rpartition(".")[2]
    return suffix if suffix in WGMMA_TYPES and p.row.c.size == 4 else None


def warpgroup_product(kernel: Kernel, p: TensorProduct, w: Warpgroups) -> Opts:
    """The options. KernelError where there is no such instruction."""
    suffix = _suffix(p)
    if suffix is None:
        raise KernelError(f"{p.row.name} has no counterpart of a warpgroup")
    row = wgmma_row(suffix, w.columns)
    m, k = family_name(kernel, p.m), str(p.k.arg.name)
    deep = SLOT_BYTES // row.a.size
    out: list[Opt] = [opt("SPLIT", k, w.sk)] * (w.sk > 1)
    out.append(opt("TC", p.nest.name, m=str(p.m.arg.name), n=str(p.n.arg.name), k=k, row=row.name))
    out += [opt("LOCAL", m, w.consumers)] * (w.consumers > 1)
    out += [opt("TILE", k, deep), opt("UNROLL", k, deep // row.k)]
    out += [opt("STAGE", b.name, at=k, order="row", depth=w.depth) for b, _ in operands(p)]
    fields = {"persist": w.persist, "cluster": w.cluster}
    out.append(opt("GRID", "grid", warpspec=w.consumers, **{name: n for name, n in fields.items() if n}))
    rows = -(-extent(p.m) // (w.consumers * GROUP_ROWS))
    band = next((b for b in BANDS if b <= w.band and rows % b == 0), 0)
    if band and -(-extent(p.n) // w.columns) > 1:
        out.append(opt("SWIZZLE", "grid", band))
    return tuple(out)


# folds ----------------------------------------------------------------------------------------------------------------
TILES = (32, 64, 128, 16)
"""Elements of the folded axis in a tile; the last where registers are short."""
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
        place = next(((m, n, k) for m, n, k in product_axes(nest) if m is row), None) if nest.name in names else None
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
    at = str(fold.axis.arg.name)
    tiles = {b.name: staged(b, indices, at, {last: size}, depth) for b, indices, last, size in _tiles_of(fold, found, tile)}
    rows = {p: p.row for p in found}
    return (*_cut(kernel, fold, rows, tile, warps), *_kept(kernel, keep), *tiles.values())


def _cut(kernel: Kernel, fold: Fold, rows: Mapping[TensorProduct, TensorRow], tile: int, units: int) -> Iterator[Opt]:
    """The sums by their instructions, tiles of the folded axis, and `units` of threads along the rows."""
    shared, family = shared_axes(kernel), fold.axis.arg.family
    for p, row in rows.items():
        yield opt("TC", p.nest.name, m=str(p.m.arg.name), n=str(p.n.arg.name), k=str(p.k.arg.name), row=row.name)
    yield opt("TILE", str(fold.axis.arg.name), tile)
    if units > 1:
        yield opt("LOCAL", family_name(kernel, shared[-1]), units)
    seen: set[Node] = set()
    for v in fold.block:
        for a in (*v.axes, *v.reduce_axes):
            if a in shared or a in seen:
                continue
            seen.add(a)
            step = next((row.k for p, row in rows.items() if a is p.k), 0)
            size = tile if a.arg.family == family else extent(a)
            amount = 1
            if step:
                amount = size // step
            elif a.arg.family == family or any(a is q.n for q in rows):
                amount = min(WIDE, size)
            if amount > 1:
                yield opt("UNROLL" if step else "UPCAST", str(a.arg.name), amount)


def _kept(kernel: Kernel, keep: bool) -> Opts:
    at = str(shared_axes(kernel)[-1].arg.name)
    return tuple(opt("STAGE", v, at=at) for v in stageable_values(kernel)) if keep else ()


def _tiles_of(fold: Fold, found: Iterable[TensorProduct], tile: int) -> Iterator[tuple[Buffer, tuple[Node, ...], Node, int]]:
    """The inputs of which all rows read the same tile: with the axis along which they are consecutive, and how much of that is read."""
    family, seen = fold.axis.arg.family, set[str]()
    for p in found:
        for b, indices, _ in map(load_parts, p.nest.loads):
            last = list(axes_of(indices[-1]))
            if b.name not in seen and any(a.arg.family == family for a in axes_of(*indices)) and len(last) == 1:
                seen.add(b.name)
                yield b, indices, last[0], tile if last[0].arg.family == family else extent(last[0])


FOLD_GROUPS = ((2, 128), (3, 128), (2, 64), (1, 128), (1, 64))
"""(warpgroups along the rows, tile of the folded axis), those of FlashAttention-3 first (Shah et al. 2024)."""


def warpgroup_folds(kernel: Kernel, target: Target, allowed: Set[str]) -> Iterator[Opts]:
    """Folds by warpgroups beside one that copies: what a product makes goes to the next as a fragment."""
    for fold in kernel.body:
        if not isinstance(fold, Fold) or not shared_axes(kernel):
            continue
        found, at = _products(kernel, fold, target, allowed), str(fold.axis.arg.name)
        for units, tile in FOLD_GROUPS if found else ():
            rows = {p: _wide_row(p, tile if p.n.arg.family == fold.axis.arg.family else extent(p.n)) for p in found}
            known = {p: row for p, row in rows.items() if row is not None}
            if len(known) == len(rows) and units * GROUP_ROWS <= IDLE * extent(found[0].m):
                boxes = [opt("STAGE", b.name, at=at, order="row", depth=DEPTHS[0]) for b, *_ in _tiles_of(fold, found, tile)]
                yield (*_cut(kernel, fold, known, tile, units), *_kept(kernel, True), *boxes, opt("GRID", "grid", warpspec=units))


def _wide_row(p: TensorProduct, columns: int) -> TensorRow | None:
    """The instruction of a warpgroup with so many columns."""
    suffix = _suffix(p)
    return wgmma_row(suffix, columns) if suffix is not None and columns in wgmma_columns(suffix) else None


# rules ----------------------------------------------------------------------------------------------------------------
QUICK_GUESSES = 3
"""Schedules with matrix instructions that the quick choice asks about."""


class WarpProducts(StartRule):
    """The largest sum of products that matrix instructions of warps can make."""

    name = "units"

    def applies(self, f: StartFacts) -> Iterable[TensorProduct]:
        return _largest(f)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return (tensor_product(f.kernel, p, w) for p in self.applies(f) for w in warps(p, f.target))

    def quick(self, f: StartFacts) -> list[Opts]:
        """The cheapest shapes in three slots of 128 bytes, the reduction in chunks where tiles are few."""
        return [tensor_product(f.kernel, p, w) for p in self.applies(f) for w in islice(_quick_warps(p, f.target), QUICK_GUESSES)]

    def templates(self, f: StartFacts) -> Iterator[Template]:
        for p in self.applies(f):
            row, deep = p.row, extent(p.k)
            choices = {
                "wm": tuple(n for n in (1, 2, 4, 8) if n * row.m < 2 * max(row.m, extent(p.m))),
                "wn": tuple(n for n in (1, 2, 4, 8) if n * row.n < 2 * max(row.n, extent(p.n))),
                "um": tuple(n for n in (16, 32, 48, 64, 96, 128) if n % row.m == 0 and n < 2 * max(row.m, extent(p.m))),
                "un": tuple(n for n in (8, 16, 32, 48, 64, 96, 128) if n % row.n == 0 and n < 2 * max(row.n, extent(p.n))),
                "kt": (0, *(n * row.k for n in (1, 2, 4, 8) if n * row.k < max(row.k + 1, deep + bool(_taps(p))))),
                "depth": (1, 2, 3, 4, 5, 6),
                "band": (0, 2, 4, 8),
                "sk": (1, *(n for n in (2, 3, 4, 6, 8, 12, 16) if deep >= 4 * n * row.k)),
            }
            yield Template(self.name, choices, partial(_made, f.kernel, p))


def _made(kernel: Kernel, p: TensorProduct, numbers: Numbers) -> Opts:
    return tensor_product(kernel, p, Warps(**numbers))


def _grouped(kernel: Kernel, p: TensorProduct, numbers: Numbers) -> Opts:
    return warpgroup_product(kernel, p, Warpgroups(**numbers))


def _largest(f: StartFacts) -> list[TensorProduct]:
    found = find_products(f.kernel, f.target, f.allowed)
    return [max(found, key=lambda p: prod(extent(a) for a in p.nest.all_axes))] if found else []


def _quick_warps(p: TensorProduct, target: Target) -> Iterator[Warps]:
    kt, depth = (max(p.row.k, QUICK[0] // p.row.a.size), QUICK[1])
    while kt > max(p.row.k, extent(p.k) // (1 if _taps(p) else 2)):
        kt //= 2
    for shape in sorted((s for s in SHAPES if _fits(s, p)), key=lambda s: shape_cost(s, p, target))[:KEPT]:
        tiles = _tiles(shape, p)
        # a second phase costs a launch: only where most of the machine would be idle without
        split = chunks(tiles, extent(p.k) // (CHUNK * kt), target) if 4 * tiles <= target.cores else []
        yield Warps(*shape, kt, depth, sk=split[0] if split else 1)


class WarpgroupProducts(StartRule):
    """The same by Hopper's warpgroups, the largest tiles first."""

    name = "warpgroups"

    def applies(self, f: StartFacts) -> Iterable[TensorProduct]:
        return [p for p in _largest(f) if _by_warpgroups(p, f)] if "sm90a" in f.target.features else []

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return (warpgroup_product(f.kernel, p, w) for p in self.applies(f) for w in warpgroups(p, f.target))

    def templates(self, f: StartFacts) -> Iterator[Template]:
        for p in self.applies(f):
            choices = {
                "consumers": tuple(REGISTERS),
                "columns": tuple(n for n in COLUMNS if n in wgmma_columns(str(_suffix(p))) and n < 2 * max(COLUMNS[0], extent(p.n))),
                "depth": (2, 3, 4, 5, 6, 8),
                "persist": (0, 1),
                "sk": (1, *(n for n in (2, 3, 4, 6, 8, 12, 16) if extent(p.k) * p.row.a.size >= 4 * n * SLOT_BYTES)),
                "cluster": (0, CLUSTER),
                "band": (0, *reversed(BANDS)),
            }
            yield Template(self.name, choices, partial(_grouped, f.kernel, p))


class WarpgroupFolds(StartRule):
    """Folds whose sums of products warpgroups make."""

    name = "folds by warpgroups"
    quick_places = tuple(range(QUICK_GUESSES))

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return warpgroup_folds(f.kernel, f.target, f.allowed) if "sm90a" in f.target.features else iter(())


class TensorFolds(StartRule):
    """Folds whose sums of products matrix instructions make."""

    name = "folds by matrix instructions"
    quick_places = tuple(2 * len(WARPS) * len(DEPTHS) * i + keep for i in range(len(TILES)) for keep in (0, 1))  # of each tile

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return tensor_folds(f.kernel, f.target, f.allowed)


def by_matrix_instructions(f: StartFacts) -> bool:
    """Whether some schedule of a kernel has matrix instructions."""
    return any(next(rule.guesses(f), None) is not None for rule in (TensorFolds(), WarpgroupProducts(), WarpProducts()))
