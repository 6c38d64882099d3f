"""Seed schedules: a good answer with no search, from the kernel's structure and the target.

Read `structure.py` first. A contraction gets a register tile, packed panels and blocks sized by the caches (the five loops
of Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008); everything else gets lanes along the
axis that is consecutive in memory, independent partials for reductions, and rows in parallel."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..targets import Target
from .nests import Nest
from .opt import Opt, Opts, opt
from .schedule import apply
from .structure import Contraction, accesses, contiguous, contractions, extent, lane_axis, nests, shared_axes, stageable_values


def seeds(kernel: Kernel, target: Target, threads: int = 1) -> list[Opts]:
    """Legal seed schedules, best guess first; never empty."""
    found: dict[Opts, None] = {}
    for opts in _candidates(kernel, target, threads):
        legal = legal_prefix(kernel, opts, target)
        if legal is not None:
            found.setdefault(legal)
    found.setdefault(())
    return list(found)


def legal_prefix(kernel: Kernel, opts: Opts, target: Target) -> Opts | None:
    """`opts`, or the longest list left after dropping what is illegal (a seed is a wish, not a demand)."""
    kept: Opts = opts
    for _ in range(len(opts) + 1):
        try:
            apply(kernel, kept, target)
            return kept
        except OptError:
            pass
        # drop the first option whose prefix fails
        for i in range(len(kept)):
            try:
                apply(kernel, kept[: i + 1], target)
            except OptError:
                kept = kept[:i] + kept[i + 1 :]
                break
        else:
            return None
    return None


def _candidates(kernel: Kernel, target: Target, threads: int) -> Iterable[Opts]:
    found = contractions(kernel)
    if found:
        c = max(found, key=lambda c: _work(c.nest))
        for p in contraction_guesses(c, target, threads):
            yield contraction(kernel, target, threads, c, **p)
    lanes = _lanes(kernel, target)
    for vectors in (4, 2, 8, 1):
        for stage in (True, False):
            yield rows(kernel, target, threads, vectors * lanes, stage)


def _work(n: Nest) -> int:
    out = 1
    for a in n.all_axes:
        out *= extent(a)
    return out


def _lanes(kernel: Kernel, target: Target) -> int:
    return max(1, min(target.lanes(n.expr.dtype.compute) for n in nests(kernel)))


# contractions -----------------------------------------------------------------------------------------------------
def contraction_guesses(c: Contraction, target: Target, threads: int) -> list[dict[str, int]]:
    """Parameter guesses for `contraction`, best first."""
    lanes = target.lanes(c.nest.expr.dtype)
    size = c.nest.expr.dtype.size
    width = extent(c.lane)
    rows = max((extent(a) for a in c.rows), default=1)
    depth = 1
    for a in c.reduce:
        depth *= extent(a)
    shapes = [(8, 2), (12, 2), (6, 4), (14, 2), (4, 4)] if target.registers >= 32 else [(6, 2), (4, 2), (4, 3), (8, 1)]
    out = []
    for mr, nv in sorted(shapes, key=lambda s: _waste(rows, s[0]) + _waste(width, s[1] * lanes)):
        nr = nv * lanes
        for nb, kc in ((128, 0), (256, 256), (128, 512), (512, 256)):
            if kc and depth <= kc * 1.5:
                continue
            if not kc and depth * nb * size > target.l2:
                continue
            nb = max(nr, nb // nr * nr)
            for by_rows in (0, 1):
                out.append({"mr": mr, "nv": nv, "nb": nb, "kc": kc, "rows": by_rows, "pack": 1, "pack_tall": 0})
    out.sort(key=lambda p: (p["nv"] * lanes > width, _split_waste(width, p["nb"], threads) if not p["rows"] else _split_waste(rows, 64, threads)))
    return out[:12]


def _waste(extent_: int, n: int) -> float:
    return -(-extent_ // n) * n / max(1, extent_) - 1


def _split_waste(extent_: int, block: int, threads: int) -> float:
    tasks = -(-extent_ // block)
    return round(-(-tasks // threads) * threads / tasks - 1, 2)


def contraction(
    kernel: Kernel,
    target: Target,
    threads: int,
    c: Contraction,
    mr: int,
    nv: int,
    nb: int,
    kc: int,
    rows: int,
    pack: int,
    pack_tall: int,
    unroll: int = 1,
    mc: int = 0,
) -> Opts:
    """A contraction's schedule: mr rows × nv vectors in registers, the lane axis in blocks of nb, the reduce axis in blocks
    of kc (0: whole), parallel over rows (in blocks of mc) or lane blocks, panels packed."""
    lanes = target.lanes(c.nest.expr.dtype)
    name = _name
    out: list[Opt] = []
    row = max(c.rows, key=extent, default=None)
    k = max(c.reduce, key=extent)
    nr = min(nv * lanes, 1 << max(0, extent(c.lane).bit_length()))
    if row is not None and mr > 1 and extent(row) > 1:
        out.append(opt("UPCAST", name(row), min(mr, extent(row))))
    if nr > 1:
        out.append(opt("UPCAST", name(c.lane), nr))
    blocked = nb < extent(c.lane)
    if blocked:
        out.append(opt("TILE", name(c.lane), nb))
    free = [a for a in shared_axes(kernel) if a is not c.lane and a is not row]
    outer: Node = row if rows and row is not None else c.lane
    if rows and row is not None and mc:
        out.append(opt("TILE", name(row), mc))
    free = [a for a in free if extent(a) > 1]
    tasks = 1
    for a in free:
        tasks *= extent(a)
    if tasks >= 8 * threads:  # batches, image rows: enough work items without cutting the tile's own axes
        out += [opt("PARALLEL", name(a)) for a in free]
        outer = free[-1]
    else:
        out += [opt("PARALLEL", name(a)) for a in free]
        out.append(opt("PARALLEL", name(outer)))
    if unroll > 1:
        out.append(opt("UNROLL", name(k), unroll))
    at = name(outer)
    if kc and kc < extent(k):
        out.append(opt("TILE", name(k), kc))
        first = next((a for a in c.nest.axes if a is not outer and a not in free and (a is not c.lane or blocked)), None)
        target_loop = name(first) if first is not None else ""
        if first is c.lane and outer is c.lane:
            target_loop = f"{name(c.lane)}.t"
        if target_loop and target_loop != name(outer):
            out.append(opt("MOVE", name(k), before=target_loop))
            at = name(k)
    if pack:
        out.append(opt("STAGE", c.wide.name, at=at, order="panel" if c.plain else "row"))
    if pack_tall and row is not None:
        out.append(opt("STAGE", c.tall.name, at=name(row) if not rows else at))
    return tuple(out)


def _name(a: Node) -> str:
    return str(a.arg.name)


# everything else --------------------------------------------------------------------------------------------------
def rows(kernel: Kernel, target: Target, threads: int, width: int, stage: bool) -> Opts:
    """Lanes along consecutive axes (spatial, or as independent partials of a reduction), outer axes in parallel."""
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
        if family in cut or a.arg.name in cut:
            continue
        amount = _fit(extent(a), width)
        if amount > 1:
            out.append(opt("UPCAST", _family_name(kernel, a), amount))
            cut |= {family, a.arg.name}
    out += _row_copies(kernel, threads, cut)
    shared = shared_axes(kernel)
    whole = [a for n in nests(kernel) for a in n.reduce_axes if n.kind == "reduce" and extent(a) >= 1 << 15]
    if threads > 1 and whole and not any(extent(a) >= threads for a in shared):
        # nothing to spread but the reduction itself: chunks of it, several for each thread
        out.append(opt("SPLITK", _name(whole[0]), min(64, 8 * threads)))
    if shared:
        best = [a for a in shared if extent(a) >= threads] or shared
        out += [opt("PARALLEL", _name(a)) for a in best[: 1 if extent(best[0]) >= 8 * threads else 2]]
        if stage:
            at = _name(best[0])
            out += [opt("STAGE", v, at=at) for v in stageable_values(kernel)]
    return tuple(out)


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
