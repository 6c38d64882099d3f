"""Start schedules for contractions: a register tile, packed panels and blocks sized by the caches, the five loops of Goto & van
de Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008).

The ranked choice asks the model about every combination of a sample. The quick choice begins with a closed form of the register tile, and
asks about one change at a time. Contractions over windows, as convolutions are, have lanes along the other operand's rows as well, and
constant operands are packed once, before the first call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product

from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...opts.access import accesses, strides_of
from ...opts.analysis.dot_instructions import Fit, fitting
from ...opts.analysis.structure import Contraction, contractions, extent, shared_axes, stepped
from ...opts.axis_plan import MAX_EXTRA_WORK
from ...opts.defaults import waste
from ...opts.opt import Opt, Opts, opt
from ...opts.plans import ONCE
from ...targets import Target
from ..machine import DEFAULT
from ..model.shared_work import is_noted
from .lanes_along_rows import (
    LanesAlongRows,
    depth_of,
    masked,
    read_bytes,
    row_lane_guesses,
    short_window_guesses,
    slides,
    strided_points,
    window_grid,
)
from .start_rule import Numbers, StartFacts, StartRule, Template
from .trials import Trials


class Contractions(StartRule):
    """The largest sum of products of two operands."""

    name = "contraction"

    def applies(self, f: StartFacts) -> Iterable[Contraction]:
        return () if f.main is None else (f.main,)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return (o for c in self.applies(f) for o in best_contractions(f.trials, c))

    def templates(self, f: StartFacts) -> Iterator[Template]:
        return (contraction_template(f.kernel, f.target, f.threads, c) for c in self.applies(f))


def contraction_template(kernel: Kernel, target: Target, threads: int, c: Contraction, first: Opts = ()) -> Template:
    """The template of a contraction of `kernel`, which the options `first` made of another one."""
    width, rows_ = extent(c.lane), max((extent(a) for a in c.rows), default=1)
    depth = max(extent(a) for a in c.reduce)
    params: dict[str, tuple[int, ...]] = {
        "mr": tuple(n for n in (1, 2, 4, 6, 8, 10, 12, 14, 16) if n <= max(1, rows_)),
        "nv": (1, 2, 3, 4, 6),
        "nb": tuple(n for n in (32, 64, 96, 128, 192, 256, 384, 512, 1024, 4096) if n < 2 * width) or (width,),
        "kc": (0, *(n for n in (64, 128, 192, 256, 384, 512, 1024) if n < depth)),
        "rows": (0, 1),
        "mc": tuple(n for n in (0, 48, 96, 192, 384) if n < max(1, rows_)),
        "pack": (0, 1),
        "pack_tall": (0, 1),
        "unroll": (1, 2, 4),
    }
    if fitting(target, c.nest, c.lane) is not None:
        params["tc"] = (0, 1)
    if c.wide.constant or c.tall.constant:
        params["once"] = (0, 1)

    def make(p: Numbers) -> Opts:
        lanes = target.lanes(c.nest.expr.dtype)
        nr = p["nv"] * lanes
        sizes = {k: v for k, v in p.items() if k != "once"} | {"nb": max(nr, p["nb"] // nr * nr), "mc": p["mc"] // p["mr"] * p["mr"]}
        opts = (*first, *contraction(kernel, target, threads, c, Blocks(**sizes)))
        return packed_once(kernel, opts, target) if p.get("once") else opts

    return Template("operands" if first else "contraction", params, make)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The numbers of a contraction's schedule. Sizes are elements of the axis they cut."""

    mr: int
    """Rows in registers."""
    nv: int
    """Vectors of the lane axis in registers."""
    nb: int
    """Block of the lane axis."""
    kc: int = 0
    """Block of the reduce axis; 0: all of it."""
    rows: int = 0
    """1: parallel over blocks of rows instead of blocks of lanes."""
    mc: int = 0
    """Block of rows, with `rows`."""
    pack: int = 1
    """1: the wide operand is staged."""
    pack_tall: int = 0
    """1: the tall operand is staged."""
    unroll: int = 1
    """Steps of the reduce axis that are unrolled."""
    tc: int = 0
    """1: by a matrix instruction."""
    stream: int = 0
    """1: the reduce axis outside all loops of a block, so that `unroll` whole rows of it are read side by side."""
    along: int = 0
    """Which of several axes the rows in registers lie along, by its place in `row_axes`; 0: the longest."""
    image: int = 0
    """1: the tall operand is an image under windows, staged with its borders; the wide one is packed for many rows of it."""


def best_contractions(trials: Trials, c: Contraction, keep: int = 8) -> list[Opts]:
    """The guesses that the model ranks first, at most two of each register tile."""
    kernel, target, threads = trials.kernel, trials.target, trials.threads
    ranked: dict[str, tuple[float, tuple[int, int, int], Opts]] = {}
    blocks = contraction_guesses(c, target, threads)
    blocks += [replace(p, along=place) for place in range(1, len(row_axes(c))) for p in blocks if not p.rows]
    guesses = [(contraction(kernel, target, threads, c, p), (p.mr, p.nv)) for p in blocks]
    slid = (*short_window_guesses(kernel, target, threads, c), *chain.from_iterable(row_lane_guesses(kernel, target, threads, c)))
    guesses += [(opts, (0, i)) for i, opts in enumerate(slid)]
    for wish, tile in guesses:
        opts = trials.legal(wish)
        if opts is None:
            continue
        s = trials.apply(opts)
        if s.hash not in ranked:
            ranked[s.hash] = (trials.seconds(opts), (tile[0], tile[1], len(s.dots)), opts)
    out: list[Opts] = []
    seen: dict[tuple[int, int, int], int] = {}
    for _, kind, opts in sorted(ranked.values(), key=lambda r: (r[0], str(r[2]))):
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= 2:
            out.append(opts)
    return out[:keep]


def contraction_guesses(c: Contraction, target: Target, threads: int) -> list[Blocks]:
    """Guesses for `contraction`: register tiles that fit the register file, blocks that fit the caches; with a matrix
    instruction, where the target has one for the types."""
    lanes = target.lanes(c.nest.expr.dtype)
    fit = fitting(target, c.nest, c.lane)
    width = extent(c.lane)
    tall = max((extent(a) for a in c.rows), default=1)
    depth = 1
    for a in c.reduce:
        depth *= extent(a)
    tiles = [(8, 3), (6, 4), (8, 2), (12, 2), (13, 2), (4, 6), (4, 4)] if target.registers >= 32 else [(6, 2), (4, 3), (4, 2), (8, 1)]
    if is_noted(c.nest, target):
        # beside each accumulator there is a note of what is no number
        tiles = [(3, 2), (2, 3), (2, 2), (6, 1), (1, 4)] if target.registers >= 32 else [(2, 2), (4, 1), (1, 4), (5, 1)]
    if depth <= SHALLOW and target.registers < 32:  # little but stores: of whole lines, where two rows are written in turns
        tiles += [(2, 4)]
    # heights that divide the rows need no masks
    most = 0 if is_noted(c.nest, target) else 26 if target.registers >= 32 else 12
    tiles += [
        (mr, nv) for mr in range(13, 4, -1) for nv in (2, 3) if tall % mr == 0 and most // 2 <= mr * nv <= most and (mr, nv) not in tiles
    ]
    if waste(width, lanes) + 0.05 < waste(width, 2 * lanes):  # narrow, or one vector wider than an even number of them
        tiles += [(mr, 1) for mr in ((24, 16, 12) if target.registers >= 32 else (12, 8))]
        tiles += [(mr, 1) for mr in range(26, 13, -1) if tall % mr == 0 and target.registers >= 32][:1]
    if target.registers >= 32 and 4 * lanes < width <= 7 * lanes and not is_noted(c.nest, target):  # whole rows of the wide operand
        tiles += [(28 // nv, nv) for nv in (-(-width // lanes),) if (28 // nv, nv) not in tiles]
    if block := _row_block(c):  # (rows of two blocks have addresses of their own)
        tiles = [t for t in tiles if block % t[0] == 0] or tiles
    tiles.sort(key=lambda t: waste(tall, t[0]) + waste(width, t[1] * lanes))
    out: dict[Blocks, None] = {}
    # a step that does not divide the axis is masked in every one of them, where the last one is not apart
    steps = max(c.reduce, key=extent).arg.extent
    # channels of an image are far apart: in turns, the first line of each comes while the windows of the one before are multiplied
    image = _is_image(c) and fit is None
    # with few registers a tile's step is short: more of them in a row, so that the loop around them costs less
    counts = (4, 2, 3, 5) if target.registers < 32 and c.plain else (2, 3, 5)
    apart = counts[0] if isinstance(steps, int) and not target.groups else 1

    def unrolled(kc: int, dot: int) -> int:
        # whole steps in every block, the last one too: its mask would be in all of them
        pieces = (kc, steps % kc or kc) if isinstance(steps, int) and 0 < kc < steps else (steps,)
        whole = (u for u in counts if all(isinstance(n, int) and -(-n // dot) % u == 0 for n in pieces))
        return next(whole, apart if len(pieces) == 1 else 1) if depth >= 64 and not image else 1

    # signed bytes get their offset where they are packed; groups that are not consecutive are put together there
    ways = [(0, 0, c.nest.expr.dtype.size, 1)]
    if fit is not None:
        ways.append((1, int(fit.shifted or not fit.grouped), fit.row.b.size, fit.row.k))
    for (mr, nv), (tc, pack_tall, size, dot) in product(tiles[:4], ways):
        nr = nv * lanes
        for kc in (0, 256, 512):
            if kc and depth <= kc * 1.5:
                continue
            for want in (nr, 128, 256, 512) if not c.wide_value else (nr,):  # (a kept value is a panel only where it is that narrow)
                nb = min(-(-want // nr), -(-width // nr)) * nr
                if (kc or depth) * nb * size > target.l2 and nb > nr:
                    continue
                for rows_ in (0, 1):
                    mc = -(-tall // threads // mr) * mr if rows_ else 0
                    apiece = mr <= mc < tall and nr <= nb < width
                    if rows_ and not apiece and (threads == 1 or depth * width * size > target.l2):
                        continue  # (each work item would copy all of the wide operand)
                    out.setdefault(Blocks(mr, nv, nb, kc, rows_, mc, pack_tall=pack_tall, unroll=unrolled(kc, dot), tc=tc))
    streams = _streams(c, lanes, target.registers, threads) if fit is None and tall <= FEW_ROWS else []
    images = [Blocks(mr, nv, 0, image=1) for mr, nv in tiles[:4] if image]
    return (
        images
        + list(out)
        + [g for g in streams if not (g.pack and c.wide_value)]
        + _unpacked(c, tiles[: 4 if few_rows(c) else 2], target, unrolled, fit)
    )


def row_axes(c: Contraction) -> list[Node | None]:
    """The axes along which rows in registers may lie: the longest, the one along which the tall operand is consecutive in memory, and
    the one whose rows lie next to each other in the output (so that a register tile writes to one place of it, and not to several far
    apart)."""
    strides = [strides_of(b, i) for b, i, _ in loads(c.nest.expr) if b is c.tall]
    found = [a for a in c.rows if any(s.get(a) == 1 for s in strides)][:1] + [a for a in c.nest.axes if a in c.rows][-1:]
    return list(dict.fromkeys([max(c.rows, key=extent, default=None), *(a for a in found if extent(a) >= 8)]))


def _is_image(c: Contraction) -> bool:
    """Whether the tall operand is read under windows, and the wide one is not."""
    return slides(c, c.tall) and not slides(c, c.wide) and not (c.wide_value or c.tall_value)


PITCH, ROWS, SPREAD = 4096, 64, 16
"""Bytes after which lines meet the same set of the first cache; so many rows lie well in so many sets."""


def _sets(pitch: int) -> int:
    """In how many sets of the first cache rows begin that are so many bytes apart."""
    return len({i * pitch % PITCH // DEFAULT.caches.line for i in range(ROWS)})


def _unpacked(
    c: Contraction, tiles: list[tuple[int, int]], target: Target, unrolled: Callable[[int, int], int], fit: Fit | None
) -> list[Blocks]:
    """Guesses that read the wide operand where it lies, its rows apart in the sets of a cache; in blocks where a tile is as wide as it is."""
    lanes, width = target.lanes(c.nest.expr.dtype), extent(c.lane)
    if not c.plain or c.wide_value or c.tall_value or fit is not None:
        return []
    strides = next(strides_of(b, i) for b, i, _ in loads(c.nest.expr) if b is c.wide)
    pitch = strides.get(max(c.reduce, key=extent), 0)
    if strides.get(c.lane) != 1 or not isinstance(pitch, int) or _sets(pitch * c.wide.dtype.size) < SPREAD:
        return []
    depth, tall = depth_of(c), max((extent(a) for a in c.rows), default=1)
    if width < 2 * lanes and not _tall_and_narrow(c, target):
        return []
    cuts = [(mr, nv, kc) for mr, nv in tiles for kc in ((0, LONG) if nv * lanes >= width and depth > 1.5 * LONG else (0,))]
    # rows that are read again by many tiles of rows are worth a panel, unless the first cache keeps them
    size, line = c.wide.dtype.size, DEFAULT.caches.line
    between = line if pitch * size % line else 0  # rows that begin anywhere take a line more
    cuts = [(mr, nv, kc) for mr, nv, kc in cuts if tall <= REREAD * mr or (kc or depth) * (nv * lanes * size + between) <= target.l1]
    return [Blocks(mr, nv, width, kc, pack=0, unroll=unrolled(kc, 1)) for mr, nv, kc in cuts]


def _tall_and_narrow(c: Contraction, target: Target) -> bool:
    """Whether the wide operand's rows are short, and so many that a panel of them leaves the first cache before it is read again."""
    width = extent(c.lane)
    return width < 2 * target.lanes(c.nest.expr.dtype) and depth_of(c) * width * c.wide.dtype.size > target.l1


REREAD = 32
"""Tiles of rows that read the wide operand where it lies as fast as from a panel, with the copy."""
SHALLOW = 32
"""Steps of a sum up to which its results are written about as fast as they are computed."""
STREAMED_ROWS = 8
"""Rows whose sums stay in the first cache, a block of each, while the wide operand passes: they are loaded and stored for every few of its rows."""
FEW_ROWS = 32
"""Rows up to which the wide operand is read about as fast as it is multiplied, so that the order in which it is read decides."""


def _streams(c: Contraction, lanes: int, registers: int, threads: int) -> list[Blocks]:
    """Guesses that read the wide operand a few long rows at a time, with all sums in scratch, or pack panels of few long rows."""
    tall, width = max((extent(a) for a in c.rows), default=1), extent(c.lane)
    out = []
    whole = [(tall, nv) for nv in (4, 3, 2, 1) if tall * nv + nv < registers][:1]  # all rows at once
    # rows of a page and more, a line of each at a time: they are streams that the processor fetches ahead
    narrow = [(tall, 1)] if whole and width * c.nest.expr.dtype.size >= DEFAULT.jumps.page else []
    for mr, nv in dict.fromkeys([*whole, *narrow, (1, 4), (2, 4), (4, 4), *([] if whole else [(4, 3)]), (8, 2), (16, 1)]):
        if mr * nv + nv >= registers or mr > max(1, tall) or 4 * mr < min(tall, 16):
            continue
        nr = nv * lanes
        for nb in (1024, 2048, *([width + nr - 1] if threads == 1 else [])):
            nb = min(nb // nr, -(-width // nr // threads)) * nr  # a block for each thread at least
            base = Blocks(mr, nv, max(nb, nr))
            out += [replace(base, stream=1, pack=0, unroll=u) for u in (8, 16)]
            if mr < tall:
                out.append(replace(base, kc=128, unroll=2))
    return list(dict.fromkeys(out))


@dataclass(frozen=True, slots=True)
class _Plan:
    """A contraction's axes by the roles and names they have in its schedule."""

    c: Contraction
    blocks: Blocks
    row_axis: Node | None
    row: str
    lane: str
    k: str
    nr: int
    """Elements of the lane axis in registers."""
    blocked: bool
    """Whether the lane axis is cut into blocks of several register tiles."""
    fit: Fit | None
    """The matrix instruction."""


def contraction(kernel: Kernel, target: Target, threads: int, c: Contraction, blocks: Blocks) -> Opts:
    """A contraction's schedule: a register tile, blocks of the lane and reduce axes, parallel over lane blocks or
    blocks of rows, and staged operands (perhaps illegal)."""
    row_axis = row_axes(c)[blocks.along]
    row = _name(row_axis) if row_axis is not None and extent(row_axis) > 1 else ""
    nr = min(blocks.nv * target.lanes(c.nest.expr.dtype), 1 << extent(c.lane).bit_length())
    fit = fitting(target, c.nest, c.lane) if blocks.tc else None
    p = _Plan(c, blocks, row_axis, row, _name(c.lane), _name(max(c.reduce, key=extent)), nr, nr <= blocks.nb < extent(c.lane), fit)
    free = [a for a in shared_axes(kernel) if a is not c.lane and a is not row_axis]
    if row_axis is not None and extent(row_axis) <= blocks.mr and _slides_near(p):
        return (*_register_tile(p), *window_grid(LanesAlongRows(row_axis, free), blocks.mr, lambda _: 1, target, threads, c))
    if blocks.image and row_axis is not None and free:
        turned = replace(c, lane=row_axis, rows=(c.lane,), wide=c.tall, tall=c.wide, plain=False)
        return (*_register_tile(p), *window_grid(LanesAlongRows(c.lane, free), p.nr, lambda _: 1, target, threads, turned))
    grid, at, inner_row = _grid(kernel, threads, p)
    out = [*(opt("TILE", a, 1) for a in stepped(kernel, c.nest)), *_register_tile(p), *grid]
    if blocks.unroll > 1:
        out.append(opt("UNROLL", p.k, blocks.unroll))
    steps, at = _reduce_loops(p, at, inner_row)
    return tuple([*out, *steps, *_panels(p, at, inner_row)])


OFTEN = 32
"""How often each element of an image is read under a window that is worth a copy with borders, where all rows of results share it."""


def _slides_near(p: _Plan) -> bool:
    """Whether an image with borders is read so often under a window that it is copied with these first."""
    c = p.c
    if c.plain or not c.stages or c.wide_value or p.fit is not None or not masked(c):
        return False
    reads = depth_of(c) * math.prod(extent(a) for a in c.nest.axes if a not in c.rows)
    return reads * c.wide.dtype.size >= OFTEN * read_bytes(c, {})


def _register_tile(p: _Plan) -> list[Opt]:
    """Rows and lanes in registers, and blocks of lanes."""
    out: list[Opt] = []
    if p.row and p.row_axis is not None and p.blocks.mr > 1:
        out.append(opt("UPCAST", p.row, min(p.blocks.mr, extent(p.row_axis))))
    width = extent(p.c.lane)
    if waste(width, p.nr) > MAX_EXTRA_WORK - 1:
        out.append(opt("PADTO", p.lane, -(-width // p.nr) * p.nr))
    if p.nr > 1:
        out.append(opt("UPCAST", p.lane, p.nr))
    if p.blocked:
        out.append(opt("TILE", p.lane, p.blocks.nb))
    return out


def _grid(kernel: Kernel, threads: int, p: _Plan) -> tuple[list[Opt], str, str]:
    """(work items, the loop in which panels are filled, the loop over register tiles of rows)."""
    b, row, lane = p.blocks, p.row, p.lane
    free = [a for a in shared_axes(kernel) if a is not p.c.lane and a is not p.row_axis]
    out = [opt("PARALLEL", _name(a)) for a in free]
    at, inner_row = _name(free[-1]) if free else "", row
    if math.prod(extent(a) for a in free) < 8 * threads:
        if b.rows and row:
            if b.mr <= b.mc < (extent(p.row_axis) if p.row_axis is not None else 0):
                out.append(opt("TILE", row, b.mc))
                inner_row = f"{row}.t"
            out.append(opt("PARALLEL", row))
            at = row
            if p.blocked and inner_row != row:
                out.append(opt("MOVE", lane, before=inner_row))
                at = lane
        elif not b.stream or p.blocked or threads > 1:  # (alone, whole rows are read: the loop over lanes is inside)
            out.append(opt("PARALLEL", lane))
            at = lane
    elif row and (p.blocked or b.nb == p.nr < extent(p.c.lane)):  # batches or image rows are work items enough
        out.append(opt("MOVE", lane, before=row))
        at = lane
    return out, at, inner_row


def _reduce_loops(p: _Plan, at: str, inner_row: str) -> tuple[list[Opt], str]:
    """(where the reduce axis is cut and its loop goes, the loop in which panels are then filled)."""
    b, out = p.blocks, list[Opt]()
    if b.stream:
        inner = f"{p.lane}.t" if p.blocked else p.lane
        at_rows = p.row_axis is not None and p.row != "" and b.mr < extent(p.row_axis) and p.row != at
        if at_rows or inner != at:
            out.append(opt("MOVE", p.k, before=p.row if at_rows else inner))
        if at_rows and inner != at:
            out.append(opt("MOVE", inner, before=p.row))
    elif b.kc and b.kc < extent(max(p.c.reduce, key=extent)):
        out.append(opt("TILE", p.k, b.kc))
        if inner_row and inner_row != at:
            out.append(opt("MOVE", p.k, before=inner_row))
            at = p.k
    elif b.kc and (p.c.plain or strided_points(p.c)) and len(p.c.reduce) > 1 and inner_row and inner_row != at:
        # the reduce axes make the block together: the outermost one is cut, or its steps are the blocks
        outer, block = p.c.reduce[0], b.kc // math.prod(extent(a) for a in p.c.reduce[1:])
        if 1 <= block < extent(outer):
            out += [opt("TILE", _name(outer), block)] if block > 1 else []
            out.append(opt("MOVE", _name(outer), before=inner_row))
            at = _name(outer)
    return out, at


def _panels(p: _Plan, at: str, inner_row: str) -> list[Opt]:
    """Staged operands, and the matrix instruction that reads them."""
    c, b, fit, out = p.c, p.blocks, p.fit, list[Opt]()
    reused = p.row_axis is not None and (extent(p.row_axis) > b.mr or fit is not None)
    if b.pack and at and p.row and reused:  # where all rows are in registers, nothing is read twice, and a copy costs as much as the work
        if c.wide_value and at != p.row:  # (in a loop over rows it would be computed for each of them)
            out.append(opt("STAGE", c.wide_value, at=at))
        elif c.stages and not c.wide_value:
            out.append(opt("STAGE", c.wide.name, at=at, order="panel" if c.plain or fit or strided_points(c) else "row"))
    if b.pack_tall and fit is not None:
        at = p.row if b.rows else inner_row
        out.append(opt("STAGE", c.tall.name, at=at, order="row", pad=16) if fit.grouped else opt("STAGE", c.tall.name, at=at))
    elif b.pack_tall and inner_row and inner_row != at:
        # rows of a power-of-two pitch share cache sets; a padded copy does not
        out.append(opt("STAGE", c.tall.name, at=inner_row, order="row", pad=16))
    if fit is not None:  # last: without its panel it is not legal
        out.append(opt("TC", c.nest.name, m=p.row, n=p.lane, k=_name(fit.k), row=fit.row.name))
    return out


def _name(a: Node) -> str:
    return str(a.arg.name)


# the quick choice -----------------------------------------------------------------------------------------------------
LONG = 512
"""The block of a reduction whose whole panel the second cache does not hold."""
WIDE = 256
"""Elements of the lane axis in a panel that is wide enough: beyond that, items over lanes are better than over rows."""
SHORT_BLOCK = 256
"""The block of a reduction that is asked about first: its panels fit the second cache beside what passes."""
MORE_ITEMS = 8
"""Work items a thread that batches have to make, before the product itself is spread over threads."""

Change = Callable[[Blocks, list[Blocks]], Blocks | None]
"""The best guess so far and those that were not asked about → one of these that differs from it in one respect."""
Ask = Callable[[Opts], float | None]
"""Options, perhaps illegal ones → predicted seconds; None where nothing legal is left, or enough was asked."""


def ask_contractions(trials: Trials, c: Contraction, ask: Ask) -> None:
    """Ask about few schedules of `c`: windows first, then from the closed form's favourite one change at a time, each
    from the best so far."""
    kernel, target, threads = trials.kernel, trials.target, trials.threads
    guesses = contraction_guesses(c, target, threads)
    if any(g.tc for g in guesses):
        guesses = [g for g in guesses if g.tc]
    free = [extent(a) for a in shared_axes(kernel) if a is not c.lane and a is not _row(c)]
    # panels of an operand that is read across memory are better filled once where the reduction is long, though
    # that makes them narrow
    across = depth_of(c) > 4 * LONG and any(x.buffer == c.wide and x.stride(c.lane) != 1 for x in accesses(kernel, c.nest))
    order = sorted(guesses, key=lambda g: _key(g, c, target, threads, math.prod(free), across))
    first, *others = [*islice(row_lane_guesses(kernel, target, threads, c), 2)] or [[]]
    windows = [*first[: 1 if c.plain else 2], *(ways[0] for ways in others if ways)]
    if any([ask(wish) is not None for wish in islice(short_window_guesses(kernel, target, threads, c), 2)]):
        return
    for wish in windows:
        ask(wish)
    asked: dict[Blocks, float] = {}

    def best_of(g: Blocks | None) -> Blocks:
        if g is not None and g not in asked:
            found = ask(contraction(kernel, target, threads, c, g))
            asked[g] = math.inf if found is None else found
        return min(asked, key=lambda b: asked[b])

    at = best_of(next((g for g in order if g.image), order[0]))
    if at.image:
        at = best_of(next(g for g in order if not g.image))
    tall = max(map(extent, c.rows), default=1)
    few: tuple[Change, ...] = (
        () if tall > FEW_ROWS or _tall_and_narrow(c, target) else (_stream, _few) if tall <= STREAMED_ROWS else (_few,)
    )
    if few and c.plain:
        few = (_stream, _where_it_lies, _where_it_lies, _few)
    # (of windows that are strides apart, each vector is put together by shuffles, which the closed form leaves out)
    tiles = (_cut, _over_rows, _tile) if c.plain or not windows else (_tile, _tile) if _strided(c) else ()
    for change in (*few, _where_it_lies, *tiles):
        at = best_of(change(at, [g for g in order if g not in asked]))


def few_rows(c: Contraction) -> bool:
    """Whether a product has so few rows that the order in which the other operand is read decides."""
    return c.plain and all(extent(a) <= FEW_ROWS for a in c.rows)


def _strided(c: Contraction) -> bool:
    """Whether neighbours along the lane axis read elements of the wide operand that are no neighbours."""
    found = (strides_of(b, i).get(c.lane, 1) for b, i, _ in loads(c.nest.expr) if b is c.wide)
    return any(isinstance(stride, int) and abs(stride) > 1 for stride in found)


def _row(c: Contraction) -> Node | None:
    return max(c.rows, key=extent, default=None)


def _row_block(c: Contraction) -> int:
    """How many rows of the tall operand are neighbours, where it is a view that cuts their axis into blocks; 0 where they all are."""
    row = _row(c)
    places = [i for b, i, _ in loads(c.nest.expr) if b is c.tall]
    return math.gcd(*(n.arg for i in places for n in walk(*i) if n.op in ("div", "mod") and n.src[0] is row))


def _key(g: Blocks, c: Contraction, target: Target, threads: int, free: int, across: bool) -> tuple[float, bool, bool, bool, int, int, int]:
    """What guesses are sorted by: seconds by a closed form, to two digits, and what mostly is better among equals."""
    seconds = 1e-12 + _seconds(g, c, target, threads, free)
    digits = -math.floor(math.log10(seconds)) + 1
    line, room = g.nb * c.nest.expr.dtype.size, DEFAULT.caches.usable * target.l2
    whole = g.kc == (0 if across or depth_of(c) * line <= room else LONG)
    return round(seconds, digits), bool(g.stream), (g.kc or depth_of(c)) * line > room, not whole, abs(g.nb - WIDE), g.rows, -g.nb


def _seconds(g: Blocks, c: Contraction, target: Target, threads: int, free: int) -> float:
    """Arithmetic of one register tile against the ports, times tiles, shared among threads. Data is taken to be near:
    what it costs to bring is asked of the model."""
    core, caches = DEFAULT.core, DEFAULT.caches
    tall, width = max((extent(a) for a in c.rows), default=1), extent(c.lane)
    if not tall * width:
        return 0.0
    nr, sums = g.nv * target.lanes(c.nest.expr.dtype), g.mr * g.nv
    loads = g.mr + g.nv
    step = max(sums / core.ports, loads / core.load_ports, core.latency, (sums + loads + core.overhead / g.unroll) / core.issue)
    steps = depth_of(c) * math.prod(extent(a) for a in c.nest.axes) / (g.mr * nr)
    size, depth = c.nest.expr.dtype.size, g.kc or depth_of(c)
    near = depth * (nr + g.mr) * size <= caches.usable * target.l1  # else every row of tiles reads its panel from the second cache
    moved = (g.mr + (0 if near else nr)) * size / caches.l2
    step = max(step, moved) + caches.unhidden * min(step, moved)
    work = steps * (1 + waste(tall, g.mr)) * (1 + waste(width, nr)) * step / core.clock
    if free >= MORE_ITEMS * threads:
        items = free
    elif g.rows and tall > 1:
        items = free * -(-tall // max(g.mc, g.mr))
    else:
        items = free * -(-width // (g.nb if nr <= g.nb < width else nr))
    items = max(1, items)
    used = min(threads, items)
    return work * -(-items // used) / items + (caches.wake if used > 1 else 0.0) + items * caches.item


def _cut(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """The same with the reduction cut otherwise."""
    found = [g for g in left if _but(g, at, "kc", "nb", "unroll") and g.kc != at.kc]
    return next((g for g in found if g.kc == SHORT_BLOCK), found[0] if found else None)


def _over_rows(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """The same, parallel over rows instead of lanes, or the reverse."""
    return next((g for g in left if _but(g, at, "rows", "mc") and g.rows != at.rows), None)


def _tile(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """The next register tile, cut as this one where it can be."""
    others = [g for g in left if (g.mr, g.nv) != (at.mr, at.nv) and g.stream == at.stream]
    same = [g for g in others if (g.kc, g.rows) == (at.kc, at.rows)]
    return next(iter(same or others), None)


def _but(g: Blocks, at: Blocks, *fields: str) -> bool:
    """Whether two guesses differ in `fields` at most."""
    return all(getattr(g, f) == getattr(at, f) for f in Blocks.__slots__ if f not in fields)


def _stream(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """Long rows read side by side: the wide operand of few rows passes once."""
    return next((g for g in left if g.stream and g.unroll == 16), None)


def _where_it_lies(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """A tile of a wide operand that is not packed, the same where there is one."""
    found = [g for g in left if not g.pack and not g.stream]
    return next((g for g in found if (g.mr, g.nv) == (at.mr, at.nv)), found[0] if found else None)


def _few(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """Panels of a few long rows."""
    return next((g for g in left if g.kc == 128), None)


# constant operands ----------------------------------------------------------------------------------------------------
WHOLE_PANELS = ((8, 3), (6, 4), (4, 4), (8, 2), (14, 2), (4, 6))
"""Rows × vectors in registers of a schedule whose panel holds the whole reduce axis: nothing is packed in a call, so
no block has to be reused."""
LOOKED_AT = 8


def constant_starts(kernel: Kernel, target: Target, threads: int, found: Sequence[Opts]) -> list[Opts]:
    """Guesses, perhaps illegal, that pack constant inputs once: the first of `found` so changed, and sums of products over whole panels."""
    out = [packed_once(kernel, o, target) for o in found[:LOOKED_AT]]
    for c in contractions(kernel):
        if c.wide.constant:
            for mr, nv in WHOLE_PANELS:
                for rows in (0, 1):
                    whole = contraction(kernel, target, threads, c, Blocks(mr, nv, nb=0, rows=rows, pack=0, unroll=2))
                    out.append(packed_once(kernel, whole, target))
    return [o for o in out if any(x.op == "STAGE" and x.fields["at"] == ONCE for x in o)]


def packed_once(kernel: Kernel, opts: Opts, target: Target) -> Opts:
    """`opts` with every constant input of a sum of products packed before the first call; `opts` itself where that
    changes nothing. What follows may be illegal."""
    if target.lang not in ("llvm", "c") or any(o.op == "SPLIT" for o in opts):
        return opts
    names = [b.name for b in kernel.inputs if b.constant and any(b in (c.wide, c.tall) for c in contractions(kernel))]
    # instructions that take a panel come after it
    out = tuple(
        opt("STAGE", o.on, at=ONCE, **({"pad": o.fields["pad"]} if o.fields["pad"] else {})) if o.op == "STAGE" and o.on in names else o
        for o in opts
    )
    staged = {o.on for o in out if o.op == "STAGE"}
    return (*out, *(opt("STAGE", n, at=ONCE) for n in names if n not in staged))
