"""Seeds for contractions: a register tile, packed panels and blocks sized by the caches, the five loops of Goto & van de Geijn ("Anatomy of High-Performance
Matrix Multiplication", 2008), ranked by the analytic model."""

from __future__ import annotations

import math
from itertools import product

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.apply_options import apply
from ...opts.axis_plan import MAX_EXTRA_WORK
from ...opts.defaults import waste
from ...opts.dots import fitting
from ...opts.opt import Opt, Opts, opt
from ...opts.structure import Contraction, extent, shared_axes
from ...targets import Target
from ..model import estimate
from .legal import legal_prefix
from .windows import window_guesses


def best_contractions(kernel: Kernel, target: Target, threads: int, c: Contraction, keep: int = 8) -> list[Opts]:
    """The guesses that the model ranks first, at most two of each register tile."""
    ranked: dict[str, tuple[float, tuple[int, int, int], Opts]] = {}
    guesses = [(contraction(kernel, target, threads, c, **p), (p["mr"], p["nv"])) for p in contraction_guesses(c, target, threads)]
    guesses += [(opts, (0, i)) for i, opts in enumerate(window_guesses(kernel, target, threads, c))]
    for wish, tile in guesses:
        opts = legal_prefix(kernel, wish, target)
        if opts is None:
            continue
        s = apply(kernel, opts, target)
        if s.hash not in ranked:
            ranked[s.hash] = (estimate(s, threads), (tile[0], tile[1], len(s.dots)), opts)
    out: list[Opts] = []
    seen: dict[tuple[int, int, int], int] = {}
    for _, kind, opts in sorted(ranked.values(), key=lambda r: (r[0], str(r[2]))):
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= 2:
            out.append(opts)
    return out[:keep]


def contraction_guesses(c: Contraction, target: Target, threads: int) -> list[dict[str, int]]:
    """Parameter guesses for `contraction`: register tiles that fit the register file, blocks that fit the caches; with a matrix
    instruction, where the target has one for the types."""
    lanes = target.lanes(c.nest.expr.dtype)
    fit = fitting(target, c.nest, c.lane)
    width = extent(c.lane)
    tall = max((extent(a) for a in c.rows), default=1)
    depth = 1
    for a in c.reduce:
        depth *= extent(a)
    tiles = [(8, 3), (6, 4), (8, 2), (12, 2), (13, 2), (4, 6), (4, 4)] if target.registers >= 32 else [(6, 2), (4, 3), (4, 2), (8, 1)]
    # heights that divide the rows need no masks
    most = 26 if target.registers >= 32 else 12
    tiles += [(mr, nv) for mr in range(13, 4, -1) for nv in (2, 3) if tall % mr == 0 and most // 2 <= mr * nv <= most and (mr, nv) not in tiles]
    if waste(width, lanes) + 0.05 < waste(width, 2 * lanes):  # narrow, or one vector wider than an even number of them
        tiles += [(mr, 1) for mr in ((24, 16, 12) if target.registers >= 32 else (12, 8))]
        tiles += [(mr, 1) for mr in range(26, 13, -1) if tall % mr == 0 and target.registers >= 32][:1]
    tiles.sort(key=lambda t: waste(tall, t[0]) + waste(width, t[1] * lanes))
    out: dict[tuple[tuple[str, int], ...], None] = {}
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
            for want in (nr, 128, 256, 512):
                nb = min(-(-want // nr), -(-width // nr)) * nr
                if (kc or depth) * nb * size > target.l2 and nb > nr:
                    continue
                for rows_ in (0, 1):
                    mc = -(-tall // threads // mr) * mr if rows_ else 0
                    guess = {"mr": mr, "nv": nv, "nb": nb, "kc": kc, "rows": rows_, "mc": mc, "pack": 1, "pack_tall": pack_tall, "unroll": unroll}
                    if fit is not None:
                        guess["tc"] = tc
                    out.setdefault(tuple(guess.items()))
    guesses = [dict(g) for g in out]
    return guesses + (_streams(c, lanes, target.registers, threads) if fit is None and tall <= FEW_ROWS else [])


FEW_ROWS = 32
"""Rows up to which the wide operand is read about as fast as it is multiplied, so that the order in which it is read decides."""


def _streams(c: Contraction, lanes: int, registers: int, threads: int) -> list[dict[str, int]]:
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
            base = {"mr": mr, "nv": nv, "nb": max(nb, nr), "pack_tall": 0, "rows": 0, "mc": 0}
            out += [{**base, "stream": 1, "pack": 0, "kc": 0, "unroll": u} for u in (8, 16)]
            if mr < tall:
                out.append({**base, "pack": 1, "kc": 128, "unroll": 2})
    return out


def contraction(
    kernel: Kernel,
    target: Target,
    threads: int,
    c: Contraction,
    *,
    mr: int,
    nv: int,
    nb: int,
    kc: int = 0,
    rows: int = 0,
    mc: int = 0,
    pack: int = 1,
    pack_tall: int = 0,
    unroll: int = 1,
    tc: int = 0,
    stream: int = 0,
) -> Opts:
    """A contraction's schedule: mr rows × nv vectors in registers, the lane axis in blocks of nb, the reduce axis in blocks of
    kc (0: whole); parallel over lane blocks, or with `rows` over blocks of mc rows; `pack` and `pack_tall` stage the operands; `tc`: by a
    matrix instruction; `stream`: the reduce axis outside all loops of a block, so that `unroll` whole rows of it are read side by side."""
    lanes = target.lanes(c.nest.expr.dtype)
    lane, k = _name(c.lane), _name(max(c.reduce, key=extent))
    row_axis = max(c.rows, key=extent, default=None)
    row = _name(row_axis) if row_axis is not None and extent(row_axis) > 1 else ""
    out: list[Opt] = []
    nr = min(nv * lanes, 1 << extent(c.lane).bit_length())
    if row and mr > 1:
        out.append(opt("UPCAST", row, min(mr, extent(row_axis))) if row_axis is not None else opt("UPCAST", row, mr))
    fit = fitting(target, c.nest, c.lane) if tc else None
    if waste(extent(c.lane), nr) > MAX_EXTRA_WORK - 1 and (fit is not None or extent(c.lane) < nr):
        out.append(opt("PADTO", lane, nr))
    if nr > 1:
        out.append(opt("UPCAST", lane, nr))
    blocked = nr <= nb < extent(c.lane)
    if blocked:
        out.append(opt("TILE", lane, nb))
    free = [a for a in shared_axes(kernel) if a is not c.lane and a is not row_axis]
    out += [opt("PARALLEL", _name(a)) for a in free]
    inner_row = row  # the loop over register tiles of rows
    at = _name(free[-1]) if free else ""
    if math.prod(extent(a) for a in free) < 8 * threads:
        if rows and row:
            if mr <= mc < (extent(row_axis) if row_axis is not None else 0):
                out.append(opt("TILE", row, mc))
                inner_row = f"{row}.t"
            out.append(opt("PARALLEL", row))
            at = row
            if blocked and inner_row != row:
                out.append(opt("MOVE", lane, before=inner_row))
                at = lane
        else:
            out.append(opt("PARALLEL", lane))
            at = lane
    elif row and (blocked or nb == nr < extent(c.lane)):  # batches or image rows are work items enough
        out.append(opt("MOVE", lane, before=row))
        at = lane
    if unroll > 1:
        out.append(opt("UNROLL", k, unroll))
    if stream:
        inner = f"{lane}.t" if blocked else lane
        at_rows = bool(row) and row_axis is not None and mr < extent(row_axis) and row != at
        if at_rows or inner != at:
            out.append(opt("MOVE", k, before=row if at_rows else inner))
        if at_rows and inner != at:
            out.append(opt("MOVE", inner, before=row))
    elif kc and kc < extent(max(c.reduce, key=extent)):
        out.append(opt("TILE", k, kc))
        if inner_row and inner_row != at:
            out.append(opt("MOVE", k, before=inner_row))
            at = k
    reused = row_axis is not None and (extent(row_axis) > mr or fit is not None)
    if pack and at and row and reused:  # where all rows are in registers, nothing is read twice, and a copy costs as much as the work
        out.append(opt("STAGE", c.wide.name, at=at, order="panel" if c.plain or fit else "row"))
    if pack_tall and fit is not None:
        packed = opt("STAGE", c.tall.name, at=row if rows else inner_row, order="row", pad=16)
        out.append(packed if fit.grouped else opt("STAGE", c.tall.name, at=row if rows else inner_row))
    elif pack_tall and inner_row and inner_row != at:
        # rows of a power-of-two pitch share cache sets; a padded copy does not
        out.append(opt("STAGE", c.tall.name, at=inner_row, order="row", pad=16))
    if fit is not None:  # last: without its panel it is not legal
        out.append(opt("TC", c.nest.name, m=row, n=lane, k=_name(fit.k), row=fit.row.name))
    return tuple(out)


def _name(a: Node) -> str:
    return str(a.arg.name)
