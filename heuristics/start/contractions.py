"""Start schedules for contractions: a register tile, packed panels and blocks sized by the caches, the five loops of Goto & van
de Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008), ranked by the analytic model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

from ...ir.buffer import loads
from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.access import strides_of
from ...opts.analysis.dots import Fit, fitting
from ...opts.analysis.structure import Contraction, extent, shared_axes, stepped
from ...opts.axis_plan import MAX_EXTRA_WORK
from ...opts.defaults import waste
from ...opts.opt import Opt, Opts, opt
from ...targets import Target
from ..model import estimate
from ..model.extremes import is_noted
from .legal import Trials
from .windows import window_guesses


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
    """Steps of the reduce axis that are spelled out."""
    tc: int = 0
    """1: by a matrix instruction."""
    stream: int = 0
    """1: the reduce axis outside all loops of a block, so that `unroll` whole rows of it are read side by side."""
    along: int = 0
    """Which of several axes the rows in registers lie along, by its place in `row_axes`; 0: the longest."""


def best_contractions(trials: Trials, threads: int, c: Contraction, keep: int = 8) -> list[Opts]:
    """The guesses that the model ranks first, at most two of each register tile."""
    kernel, target = trials.kernel, trials.target
    ranked: dict[str, tuple[float, tuple[int, int, int], Opts]] = {}
    blocks = contraction_guesses(c, target, threads)
    blocks += [replace(p, along=place) for place in range(1, len(row_axes(c))) for p in blocks if not p.rows]
    guesses = [(contraction(kernel, target, threads, c, p), (p.mr, p.nv)) for p in blocks]
    guesses += [(opts, (0, i)) for i, opts in enumerate(window_guesses(kernel, target, threads, c))]
    for wish, tile in guesses:
        opts = trials.legal(wish)
        if opts is None:
            continue
        s = trials.apply(opts)
        if s.hash not in ranked:
            ranked[s.hash] = (estimate(s, threads), (tile[0], tile[1], len(s.dots)), opts)
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
    tiles.sort(key=lambda t: waste(tall, t[0]) + waste(width, t[1] * lanes))
    out: dict[Blocks, None] = {}
    # a step that does not divide the axis is masked in every one of them, where the last one is not apart
    steps = max(c.reduce, key=extent).arg.extent
    # with few registers a tile's step is short: more of them in a row, so that the loop around them costs less
    counts = (4, 2, 3, 5) if target.registers < 32 and c.plain else (2, 3, 5)
    apart = counts[0] if isinstance(steps, int) and not target.groups else 1
    unroll = next((u for u in counts if isinstance(steps, int) and steps % u == 0), apart) if depth >= 64 else 1
    # signed bytes get their offset where they are packed; groups that are not consecutive are put together there
    ways = [(0, 0, c.nest.expr.dtype.size)]
    if fit is not None:
        ways.append((1, int(fit.shifted or not fit.grouped), fit.row.b.size))
    for (mr, nv), (tc, pack_tall, size) in product(tiles[:4], ways):
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
                    out.setdefault(Blocks(mr, nv, nb, kc, rows_, mc, pack_tall=pack_tall, unroll=unroll, tc=tc))
    streams = _streams(c, lanes, target.registers, threads) if fit is None and tall <= FEW_ROWS else []
    return list(out) + [g for g in streams if not (g.pack and c.wide_value)]


def row_axes(c: Contraction) -> list[Node | None]:
    """The axes along which rows in registers may lie: the longest, the one along which the tall operand is consecutive in memory, and
    the one whose rows lie next to each other in the output (so that a register tile writes to one place of it, and not to several far
    apart)."""
    strides = [strides_of(b, i) for b, i, _ in loads(c.nest.expr) if b is c.tall]
    found = [a for a in c.rows if any(s.get(a) == 1 for s in strides)][:1] + [a for a in c.nest.axes if a in c.rows][-1:]
    return list(dict.fromkeys([max(c.rows, key=extent, default=None), *(a for a in found if extent(a) >= 8)]))


SHALLOW = 32
"""Steps of a sum up to which its results are written about as fast as they are computed."""
FEW_ROWS = 32
"""Rows up to which the wide operand is read about as fast as it is multiplied, so that the order in which it is read decides."""


def _streams(c: Contraction, lanes: int, registers: int, threads: int) -> list[Blocks]:
    """Guesses that read the wide operand a few long rows at a time, with all sums in scratch, or pack panels of few long rows."""
    tall, width = max((extent(a) for a in c.rows), default=1), extent(c.lane)
    out = []
    whole = [(tall, nv) for nv in (4, 3, 2, 1) if tall * nv + nv < registers][:1]  # all rows at once
    for mr, nv in dict.fromkeys([*whole, (1, 4), (2, 4), (4, 4), (8, 2), (16, 1)]):
        if mr * nv + nv >= registers or mr > max(1, tall) or 4 * mr < min(tall, 16):
            continue
        nr = nv * lanes
        for nb in (1024, 2048):
            nb = min(nb // nr, -(-width // nr // threads)) * nr  # a block for each thread at least
            base = Blocks(mr, nv, max(nb, nr))
            out += [replace(base, stream=1, pack=0, unroll=u) for u in (8, 16)]
            if mr < tall:
                out.append(replace(base, kc=128, unroll=2))
    return out


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
    grid, at, inner_row = _grid(kernel, threads, p)
    out = [*(opt("TILE", a, 1) for a in stepped(kernel, c.nest)), *_register_tile(p), *grid]
    if blocks.unroll > 1:
        out.append(opt("UNROLL", p.k, blocks.unroll))
    steps, at = _reduce_loops(p, at, inner_row)
    return tuple([*out, *steps, *_panels(p, at, inner_row)])


def _register_tile(p: _Plan) -> list[Opt]:
    """Rows and lanes in registers, and blocks of lanes."""
    out: list[Opt] = []
    if p.row and p.row_axis is not None and p.blocks.mr > 1:
        out.append(opt("UPCAST", p.row, min(p.blocks.mr, extent(p.row_axis))))
    width = extent(p.c.lane)
    if waste(width, p.nr) > MAX_EXTRA_WORK - 1 and (p.fit is not None or width < p.nr):
        out.append(opt("PADTO", p.lane, p.nr))
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
        else:
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
    elif b.kc and p.c.plain and len(p.c.reduce) > 1 and inner_row and inner_row != at:
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
            out.append(opt("STAGE", c.wide.name, at=at, order="panel" if c.plain or fit else "row"))
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
