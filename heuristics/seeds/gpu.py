"""Seed schedules for groups of threads, from the kernel's structure: read `opts/structure.py` first, then `gathered.py`.

A contraction gets a tile of the output for each group, a register tile for each thread, and both operands staged in shared memory
a block of the reduce axis at a time (Volkov & Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", 2008). Rows get a group
each, whose threads take neighbouring words and combine their partial results; everything else a thread for a few elements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from ...ir.body import Fold
from ...ir.buffer import Buffer, loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...opts.defaults import points
from ...opts.opt import Opt, Opts, opt
from ...opts.structure import Contraction, accesses, contiguous, contractions, extent, nests, shared_axes, stageable_values
from ...targets import Target
from ..model.gpu import estimate_gpu
from .legal import Trials

LANES = 4
"""Elements of float32 in one load of a thread."""


def gpu_candidates(trials: Trials) -> list[Opts]:
    """Legal seeds, as the model ranks them."""
    kernel, target = trials.kernel, trials.target
    ranked: dict[str, tuple[float, str, Opts]] = {}
    # a driver for processors has no grid of its own accord
    grid = tuple(opt("PARALLEL", str(a.arg.name)) for a in shared_axes(kernel)) if target.kind == "cpu" else ()
    for wish in _wishes(kernel, target):
        opts = trials.legal((*grid, *wish))
        if opts is None:
            continue
        s = trials.apply(opts)
        if s.hash not in ranked:
            ranked[s.hash] = (estimate_gpu(s), str(opts), opts)
    return [opts for _, _, opts in sorted(ranked.values())]


def _wishes(kernel: Kernel, target: Target) -> Iterable[Opts]:
    found = contractions(kernel)
    if found:
        c = max(found, key=lambda c: prod(extent(a) for a in c.nest.all_axes))
        for guess in guesses(c, target):
            yield contraction(kernel, c, guess)
    for threads in (32, 64, 128, 256, 512, 1024):
        for vector in (1, 2, 4, 8, 16):
            for stage in (False, True):
                yield rows(kernel, target, threads, vector, stage)
    yield from folds(kernel)
    yield from columns(kernel)
    for threads in (64, 128, 256):
        for vector in (1, 2, 4):
            yield points(kernel, threads, vector)
    yield from transposed(kernel)


# contractions -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Tiles:
    """The numbers of a contraction's schedule on a GPU."""

    lm: int
    """Threads along the rows."""
    ln: int
    """Threads along the columns."""
    um: int
    """Rows in a thread's registers."""
    un: int
    """Columns in a thread's registers."""
    kt: int
    """Block of the reduction for which both operands are staged; 0: neither is."""
    gk: int = 1
    """Threads that share the reduction."""
    pad: int = 4
    """Elements after each row of the staged tall operand."""
    band: int = 0
    """Width of the bands in which groups are numbered (SWIZZLE); 0: row by row."""
    sk: int = 1
    """Chunks of the reduction that a second phase adds up."""


def guesses(c: Contraction, target: Target) -> list[Tiles]:
    """Parameters for `contraction`: threads and register tile of rows and columns, block of the reduction."""
    tall = max((extent(a) for a in c.rows), default=1)
    wide, depth = extent(c.lane), max(extent(a) for a in c.reduce)
    out = []
    for lm, ln in ((16, 16), (8, 32), (8, 16), (4, 32), (8, 8), (4, 8), (1, 64)):
        for um, un in ((8, 8), (8, 4), (4, 4), (2, 4), (1, 4), (1, 1)):
            if (lm * um > 1 and lm * um > 1.6 * tall) or (ln * un > 1 and ln * un > 1.6 * wide):
                continue
            tiles = -(-tall // (lm * um)) * -(-wide // (ln * un))
            for kt in (16, 32) if depth >= 16 else (8,):
                if kt <= depth:
                    guess = Tiles(lm, ln, um, un, kt)
                    out.append(guess)
                    if tiles < target.cores and um * un > 1:  # too few groups: chunks of the reduction make more
                        out += [replace(guess, sk=n) for n in (4, 16) if depth >= 8 * n * kt]
    if tall <= 4 or wide <= 8:  # too little output to fill the machine: spread the reduction
        for gk in (32, 64, 128, 256):
            for lm in (1, 4, 8):
                out.append(Tiles(lm if tall >= lm else 1, 1, 1, 1, 0, gk, pad=0))
    return out


def contraction(kernel: Kernel, c: Contraction, t: Tiles) -> Opts:
    """lm × ln threads of um × un accumulators each; blocks of kt of the reduction, both operands staged for one; gk
    threads share the reduction, or sk chunks of it are summed by a second phase (perhaps illegal)."""
    k, lane = max(c.reduce, key=extent), c.lane
    row = max(c.rows, key=extent, default=None)
    out: list[Opt] = [opt("SPLITK", str(k.arg.name), t.sk)] * (t.sk > 1)
    if row is not None:
        out += [opt("LOCAL", _name(kernel, row), t.lm)] * (t.lm > 1) + [opt("UPCAST", _name(kernel, row), t.um)] * (t.um > 1)
    out += [opt("LOCAL", _name(kernel, lane), t.ln)] * (t.ln > 1) + [opt("UPCAST", _name(kernel, lane), t.un)] * (t.un > 1)
    if t.gk > 1:
        out += [opt("GROUP", _name(kernel, k), t.gk), opt("UPCAST", _name(kernel, k), LANES)]
    if t.kt:
        blocked = t.kt < extent(k)
        if blocked:
            out.append(opt("TILE", str(k.arg.name), t.kt))
        at = str(k.arg.name) if blocked else ""
        out.append(opt("UNROLL", str(k.arg.name), min(t.kt, 8)))
        if at:
            # the tall operand is turned, so that a thread reads its rows as one vector; the padding keeps its columns on other banks
            out += [opt("STAGE", c.tall.name, at=at, pad=t.pad if c.plain else 0), opt("STAGE", c.wide.name, at=at)]
    if t.band:
        out.append(opt("SWIZZLE", "grid", t.band))
    return tuple(out)


# everything else --------------------------------------------------------------------------------------------------
def rows(kernel: Kernel, target: Target, threads: int, vector: int, stage: bool) -> Opts:
    """Groups share reductions along axes that are consecutive in memory; several rows a group where a row is short."""
    out: list[Opt] = []
    cut: set[str] = set()
    used = 1
    for n in nests(kernel):
        for a in contiguous(kernel, n)[:1]:
            if a not in n.reduce_axes or a.arg.family in cut or extent(a) < 8:
                continue
            count = threads
            while count > 1 and count * min(vector, LANES) > 1.5 * extent(a):
                count //= 2
            if count < 2:
                continue
            cut.add(a.arg.family)
            used *= count
            name = _name(kernel, a)
            out += [opt("UPCAST", name, vector)] * (vector > 1) + [opt("GROUP", name, count)]
            if extent(a) > 64 * count * vector and not shared_axes(kernel):
                # nothing else to spread over the machine
                chunks = min(8 * target.cores, extent(a) // (4 * count * vector))
                out = [opt("SPLITK", str(a.arg.name), max(2, chunks)), *out]
    if not cut:
        return ()
    shared = [a for a in shared_axes(kernel) if a.arg.family not in cut and extent(a) >= 8]
    if shared and used < 128:
        out.append(opt("LOCAL", _name(kernel, shared[-1]), min(8, 128 // used)))
    if stage and shared_axes(kernel):
        out += [opt("STAGE", v, at=str(shared_axes(kernel)[-1].arg.name)) for v in stageable_values(kernel)]
    return tuple(out)


def folds(kernel: Kernel) -> list[Opts]:
    """Folds in block form (attention): a thread for each row keeps its state in registers, and the group stages what all rows read
    of one tile of the folded axis (Dao et al., "FlashAttention", 2022)."""
    out: list[Opts] = []
    shared = shared_axes(kernel)
    for fold in kernel.body:
        if not isinstance(fold, Fold) or not shared or not any(set(fold.component(c).axes) - set(shared) for c in fold.components):
            continue
        family = fold.axis.arg.family
        for tile in (8, 16, 32):
            cuts: dict[Node, Opt] = {}
            for v in fold.block:
                own = [a for a in v.axes if a not in shared and a.arg.family != family]
                for a in (*v.axes, *v.reduce_axes):
                    if a.arg.family == family:
                        cuts[a] = opt("UNROLL", str(a.arg.name), 4) if a in v.reduce_axes and own else opt("UPCAST", str(a.arg.name), tile)
                    elif a in v.reduce_axes:
                        cuts[a] = opt("UNROLL", str(a.arg.name), min(16, extent(a)))
                    elif a in own:
                        cuts[a] = opt("UPCAST", str(a.arg.name), min(64, extent(a)))
            tiles = {
                b.name: opt("STAGE", b.name, at=str(fold.axis.arg.name), order="row") for v in fold.block for b in _along(v.body, family)
            }
            kept = [opt("STAGE", v, at=str(shared[-1].arg.name)) for v in stageable_values(kernel)]
            for threads in (32, 64, 128):
                first = (opt("TILE", str(fold.axis.arg.name), tile), opt("LOCAL", _name(kernel, shared[-1]), threads))
                out.append((*first, *cuts.values(), *kept, *tiles.values()))
    return out


def _along(expr: Node, family: str) -> list[Buffer]:
    return [b for b, indices, _ in loads(expr) if any(a.arg.family == family for a in axes_of(*indices))]


def columns(kernel: Kernel) -> list[Opts]:
    """Reductions along another axis than the consecutive one: neighbours take columns, a few threads share each."""
    out: list[Opts] = []
    for n in nests(kernel):
        along = contiguous(kernel, n)[:1]
        if n.kind != "reduce" or not along or along[0] in n.reduce_axes or not n.reduce_axes:
            continue
        k = max(n.reduce_axes, key=extent)
        for threads in (32, 64):
            for share in (1, 4, 8, 16):
                group = (opt("GROUP", _name(kernel, k), share),) if share > 1 and extent(k) >= 4 * share else ()
                out.append((opt("LOCAL", _name(kernel, along[0]), threads), *group, opt("UNROLL", str(k.arg.name), 4)))
    return out


def transposed(kernel: Kernel) -> list[Opts]:
    """A store consecutive along one axis, its load along another: square tiles through shared memory."""
    out: list[Opts] = []
    for n in nests(kernel):
        if n.store is None or n.kind != "store" or len(nests(kernel)) > 1:
            continue
        into = next((a for x in accesses(kernel, n) if x.store for a, st in x.strides.items() if st == 1), None)
        source = next((x for x in accesses(kernel, n) if not x.store and any(st == 1 for st in x.strides.values())), None)
        along = next((a for a, st in source.strides.items() if st == 1), None) if source is not None else None
        if source is None or into is None or along is None or into is along:
            continue
        for lanes in (1, 4):
            cuts = (
                opt("LOCAL", _name(kernel, into), 32 // lanes),
                opt("LOCAL", _name(kernel, along), 8),
                opt("UPCAST", _name(kernel, along), 4),
            )
            more = (opt("UPCAST", _name(kernel, into), lanes),) if lanes > 1 else ()
            last = max((into, along), key=lambda a: kernel.axes.index(a))
            out.append((*cuts, *more, opt("STAGE", source.buffer.name, at=str(last.arg.name), order="row", pad=1)))
    return out


def _name(kernel: Kernel, a: Node) -> str:
    family = kernel.families.get(a.arg.family, (a,))
    return str(a.arg.family) if len(family) > 1 else str(a.arg.name)
