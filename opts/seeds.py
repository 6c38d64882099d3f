"""Seed schedules: a good answer with no search, from the kernel's structure and the target.

Read `structure.py` first. A contraction gets a register tile, packed panels and blocks sized by the caches (the five loops
of Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008); everything else gets lanes along the
axis that is consecutive in memory, independent partials for reductions, and rows in parallel."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

from ..ir.kernel import Kernel
from ..ir.node import Node
from ..targets import Target
from .dots import fitting
from .gpu_seeds import gpu_candidates
from .model import estimate
from .nests import Nest
from .opt import Opt, Opts, opt
from .plan_axis import MAX_EXTRA_WORK
from .schedule import apply
from .seeding import legal_prefix
from .structure import Contraction, accesses, contiguous, contractions, extent, lane_axis, nests, shared_axes, stageable_values

KEPT = 12
"""Seeds of a GPU."""


def seeds(kernel: Kernel, target: Target, threads: int = 1) -> list[Opts]:
    """Legal seed schedules, best guess first; never empty."""
    found: dict[Opts, None] = {}
    if target.kind == "gpu":
        found |= dict.fromkeys(gpu_candidates(kernel, target)[:KEPT])
        return list(found | {(): None})
    for opts in _candidates(kernel, target, threads):
        legal = legal_prefix(kernel, opts, target)
        if legal is not None:
            found.setdefault(legal)
    if target.simt:
        found |= dict.fromkeys(gpu_candidates(kernel, target)[:4])
    found.setdefault(())
    return list(found)


def _candidates(kernel: Kernel, target: Target, threads: int) -> Iterable[Opts]:
    found = contractions(kernel)
    if found:
        yield from _best_contractions(kernel, target, threads, max(found, key=lambda c: _work(c.nest)))
    lanes = _lanes(kernel, target)
    plain: dict[Opts, float] = {}
    # two rows at once read two streams from memory, where a row is worked through several times
    shapes = [(v, 1) for v in (4, 2, 8, 1)] + [(v, 2) for v in (4, 2) if len(nests(kernel)) > 1]
    for vectors, copies in shapes:
        for stage in (True, False):
            opts = legal_prefix(kernel, rows(kernel, target, threads, vectors * lanes, stage, copies), target)
            if opts is not None and opts not in plain:
                plain[opts] = estimate(apply(kernel, opts, target), threads)
    for opts in transposed(kernel, lanes):
        plain[opts] = 0.0  # tiles in scratch beat strided accesses whatever the width
    yield from sorted(plain, key=plain.__getitem__)


def _best_contractions(kernel: Kernel, target: Target, threads: int, c: Contraction, keep: int = 8) -> list[Opts]:
    """The guesses that the model ranks first, at most two of each register tile."""
    ranked: dict[str, tuple[float, tuple[int, int, int], Opts]] = {}
    for p in contraction_guesses(c, target, threads):
        opts = legal_prefix(kernel, contraction(kernel, target, threads, c, **p), target)
        if opts is None:
            continue
        s = apply(kernel, opts, target)
        if s.hash not in ranked:
            ranked[s.hash] = (estimate(s, threads), (p["mr"], p["nv"], len(s.dots)), opts)
    out: list[Opts] = []
    seen: dict[tuple[int, int, int], int] = {}
    for _, tile, opts in sorted(ranked.values(), key=lambda r: (r[0], str(r[2]))):
        seen[tile] = seen.get(tile, 0) + 1
        if seen[tile] <= 2:
            out.append(opts)
    return out[:keep]


def _work(n: Nest) -> int:
    out = 1
    for a in n.all_axes:
        out *= extent(a)
    return out


def _lanes(kernel: Kernel, target: Target) -> int:
    return max(1, min(target.lanes(n.expr.dtype.compute) for n in nests(kernel)))


# contractions -----------------------------------------------------------------------------------------------------
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
    tiles = [(8, 3), (6, 4), (8, 2), (12, 2), (14, 2), (9, 3), (4, 4)] if target.registers >= 32 else [(6, 2), (4, 3), (4, 2), (8, 1)]
    tiles.sort(key=lambda t: _waste(tall, t[0]) + _waste(width, t[1] * lanes))
    out: dict[tuple[tuple[str, int], ...], None] = {}
    unroll = 2 if depth >= 64 else 1
    # signed bytes get their offset where they are packed; groups that are not consecutive are put together there
    ways = [(0, 0, c.nest.expr.dtype.size)]
    if fit is not None:
        ways.append((1, int(fit.shifted or not fit.grouped), fit.row.b.size))
    for (mr, nv), (tc, pack_tall, size) in product(tiles[:4], ways):
        nr = nv * lanes
        for kc in (0, 256, 512):
            if kc and depth <= kc * 1.5:
                continue
            for want in (128, 256, 512):
                nb = min(-(-want // nr), -(-width // nr)) * nr
                if (kc or depth) * nb * size > target.l2 and nb > nr:
                    continue
                for rows_ in (0, 1):
                    mc = -(-tall // threads // mr) * mr if rows_ else 0
                    guess = {"mr": mr, "nv": nv, "nb": nb, "kc": kc, "rows": rows_, "mc": mc, "pack": 1, "pack_tall": pack_tall, "unroll": unroll}
                    if fit is not None:
                        guess["tc"] = tc
                    out.setdefault(tuple(guess.items()))
    return [dict(g) for g in out]


def _waste(size: int, n: int) -> float:
    return -(-size // n) * n / max(1, size) - 1


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
) -> Opts:
    """A contraction's schedule: mr rows × nv vectors in registers, the lane axis in blocks of nb, the reduce axis in blocks of
    kc (0: whole); parallel over lane blocks, or with `rows` over blocks of mc rows; `pack` and `pack_tall` stage the operands; `tc`: by a
    matrix instruction."""
    lanes = target.lanes(c.nest.expr.dtype)
    lane, k = _name(c.lane), _name(max(c.reduce, key=extent))
    row_axis = max(c.rows, key=extent, default=None)
    row = _name(row_axis) if row_axis is not None and extent(row_axis) > 1 else ""
    out: list[Opt] = []
    nr = min(nv * lanes, 1 << extent(c.lane).bit_length())
    if row and mr > 1:
        out.append(opt("UPCAST", row, min(mr, extent(row_axis))) if row_axis is not None else opt("UPCAST", row, mr))
    fit = fitting(target, c.nest, c.lane) if tc else None
    if fit is not None and _waste(extent(c.lane), nr) > MAX_EXTRA_WORK - 1:
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
    elif blocked and row:  # batches or image rows are work items enough
        out.append(opt("MOVE", lane, before=row))
        at = lane
    if unroll > 1:
        out.append(opt("UNROLL", k, unroll))
    if kc and kc < extent(max(c.reduce, key=extent)):
        out.append(opt("TILE", k, kc))
        if inner_row and inner_row != at:
            out.append(opt("MOVE", k, before=inner_row))
            at = k
    if pack and at and row:  # with one row nothing is reused, and a copy costs as much as the work
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


# everything else --------------------------------------------------------------------------------------------------
def rows(kernel: Kernel, target: Target, threads: int, width: int, stage: bool, copies: int = 1) -> Opts:
    """Lanes along consecutive axes (spatial, or as independent partials of a reduction), outer axes in parallel, `copies` of
    the innermost shared one at once."""
    out: list[Opt] = []
    cut: set[str] = set()
    for n in nests(kernel):
        if n.kind == "scan":
            continue
        lane = lane_axis(kernel, n) if n.kind == "reduce" else None
        choices = contiguous(kernel, n)
        if lane is not None and lane in choices:
            choices = [lane]
        if not choices:
            continue
        a = choices[0]
        family = a.arg.family
        if family in cut or a.arg.name in cut or _widens_reduction(kernel, a, cut):
            continue
        amount = _fit(extent(a), width)
        if amount > 1:
            out.append(opt("UPCAST", _family_name(kernel, a), amount))
            cut |= {family, a.arg.name}
    out += _row_copies(kernel, threads, cut)
    shared = shared_axes(kernel)
    whole = [a for n in nests(kernel) for a in n.reduce_axes if n.kind == "reduce" and extent(a) >= 1 << 15]
    if threads > 1 and whole and not any(extent(a) >= threads for a in shared):
        # nothing to spread but the reduction itself: chunks of it, several streams for each thread
        name, chunks = _name(whole[0]), _chunks(extent(whole[0]), threads, width)
        out += [opt("SPLITK", name, chunks), opt("UPCAST", f"{name}.s", 4)]
    if shared:
        best = [a for a in shared if extent(a) >= threads] or shared
        if copies > 1 and extent(best[-1]) >= 4 * copies and best[-1].arg.family not in cut:
            out.append(opt("UPCAST", _name(best[-1]), copies))
        out += [opt("PARALLEL", _name(a)) for a in best[: 1 if extent(best[0]) >= 8 * threads else 2]]
        if stage:
            at = _name(best[0])
            out += [opt("STAGE", v, at=at) for v in stageable_values(kernel)]
    return tuple(out)


def _chunks(size: int, threads: int, width: int) -> int:
    """How many chunks to split a long reduction into: a few for each thread, without a ragged end where possible."""
    for n in (64, 48, 80, 96, 32, 128, 16):
        if n % (4 * threads) == 0 and size % (n * width) == 0:
            return n
    return 16 * threads


def _widens_reduction(kernel: Kernel, a: Node, cut: set[str]) -> bool:
    """Whether copies along `a` would multiply a reduction that has its lanes along its own axis already."""
    return any(n.kind == "reduce" and a in n.axes and any(r.arg.family in cut for r in n.reduce_axes) for n in nests(kernel))


def transposed(kernel: Kernel, lanes: int) -> list[Opts]:
    """Where a store is consecutive along one axis and its load along another: square tiles through scratch."""
    out: list[Opts] = []
    for n in nests(kernel):
        if n.store is None or n.kind != "store" or len(nests(kernel)) > 1:
            continue
        into = next((a for x in accesses(kernel, n) if x.store for a, st in x.strides.items() if st == 1), None)
        along = next((a for x in accesses(kernel, n) if not x.store for a, st in x.strides.items() if st == 1), None)
        if into is None or along is None or into is along or min(extent(into), extent(along)) < lanes:
            continue
        cuts = (opt("UPCAST", _name(into), lanes), opt("UPCAST", _name(along), lanes))
        free = [a for a in shared_axes(kernel) if a not in (into, along)]
        grid = tuple(opt("PARALLEL", _name(a)) for a in (*free, along))
        out.append((*cuts, *grid, opt("PARALLEL", _name(into)), opt("STAGE", n.store.buffer.name, at=_name(into))))
        if extent(into) >= 8 * lanes:
            out.append((*cuts, opt("TILE", _name(into), 4 * lanes), *grid, opt("STAGE", n.store.buffer.name, at=_name(into))))
    return out


def _row_copies(kernel: Kernel, threads: int, cut: set[str]) -> list[Opt]:
    """Several rows at once where they share what is read (matvec): fewer loads, and more chains to hide latency."""
    out: list[Opt] = []
    for n in nests(kernel):
        along = contiguous(kernel, n)[:1]
        if n.kind != "reduce" or not along or along[0] not in n.reduce_axes or len(nests(kernel)) > 2:
            continue
        loaded = [a for a in accesses(kernel, n) if not a.store and a.strides]
        for a in n.axes:
            if a.arg.family not in cut and extent(a) >= 4 * max(1, threads) and any(x.stride(a) == 0 for x in loaded):
                out.append(opt("UPCAST", _name(a), 4))
                cut.add(a.arg.family)
    return out


def _family_name(kernel: Kernel, a: Node) -> str:
    family = kernel.families.get(a.arg.family, (a,))
    return str(a.arg.family) if len(family) > 1 else _name(a)


def _fit(size: int, width: int) -> int:
    """The widest power of two up to `width` that wastes at most a quarter of `size`."""
    while width > 1 and _waste(size, width) > 0.25:
        width //= 2
    return width
