"""The action space: what a search may append to a schedule."""

from __future__ import annotations

from functools import lru_cache

from ..ir.body import Fold
from ..ir.buffer import Buffer, loads
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..targets import Target
from .axis_plan import MAX_EXTRA_WORK
from .dots import fitting
from .fetch import fetching
from .group_actions import group_proposals, layouts
from .nests import Nest
from .opt import Opts, opt
from .own import ownable
from .schedule import Scheduled, apply
from .staging import ONCE
from .structure import contiguous, contractions, extent, nests, shared_axes, stageable_values

SPATIAL = (2, 3, 4, 6, 8, 12, 14, 16, 32, 48, 64, 128)
ODD = (5, 7, 9, 10, 11, 13)
"""Copies that only extents they divide make worth a look."""
WINDOW = 7
"""Steps of a window that may all be spelled out."""
PARTIAL = (4, 16, 32, 64, 128)
UNROLLS = (2, 4, 8)
CHUNKS = (2, 4, 8, 16, 64)
OWNED = (64, 128, 256, 512, 1024, 4096)
BLOCKS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)


def actions(scheduled: Scheduled) -> list[Opts]:
    """Legal continuations of a schedule, each a tuple of options to append (macro moves hold several)."""
    out = []
    for more in proposals(scheduled):
        try:
            apply_cached(scheduled.kernel, (*scheduled.opts, *more), scheduled.target)
        except OptError:
            continue
        out.append(more)
    return out


@lru_cache(maxsize=4096)
def apply_cached(kernel: Kernel, opts: Opts, target: Target) -> Scheduled:
    """`apply`, remembered (searches ask for the same lists again)."""
    return apply(kernel, opts, target)


def proposals(s: Scheduled) -> list[Opts]:
    """What `actions` checks for legality: for a search that looks at a few of them, and applies those itself."""
    kernel = s.kernel
    out: list[Opts] = []
    has = {(o.op, o.on) for o in s.opts}
    cpu = s.target.kind == "cpu"
    reduced = {a for n in s.nests for a in n.reduce_axes}
    lanes_ok = {a for n in nests(kernel) for a in contiguous(kernel, n)}
    names: dict[str, list[Node]] = {}
    for a in s.plans:
        names.setdefault(a.arg.family if len(kernel.families.get(a.arg.family, (a,))) > 1 else a.arg.name, []).append(a)
    for name, axes in names.items():
        a = axes[0]
        size = extent(a)
        if size < 2:
            continue
        is_reduce = all(x in reduced for x in axes)
        plan = s.plans[a]
        if plan.upcast == 1:
            amounts: tuple[int, ...] = (2, 4, 8, 16) if not cpu else PARTIAL if is_reduce else SPATIAL
            if is_reduce and not any(x in lanes_ok for x in axes):
                amounts = (2, 4)
            elif cpu and not is_reduce:
                amounts += tuple(n for n in ODD if size % n == 0)
            out += [(opt("UPCAST", name, n),) for n in amounts if n <= size]
        if is_reduce and plan.unroll == 1:
            whole = (size,) if size <= WINDOW and size not in UNROLLS else ()
            out += [(opt("UNROLL", name, n),) for n in (*(UNROLLS if cpu else (*UNROLLS, 16)), *whole) if n * plan.upcast <= size]
        if len(plan.tiles) < 2:
            out += [(opt("TILE", name, n),) for n in (BLOCKS if cpu else (8, *BLOCKS)) if plan.block < n < size and n % plan.block == 0]
    for a in shared_axes(kernel) if s.target.kind == "cpu" else ():
        if ("PARALLEL", a.arg.name) not in has:
            out.append((opt("PARALLEL", a.arg.name),))
    cut = next((o.on for o in s.opts if o.op == "SPLITK"), None)
    if cut is None:
        single = {a for n in s.nests if n.kind == "reduce" for a in n.reduce_axes if a not in {f.axis for f in kernel.body if isinstance(f, Fold)}}
        out += [(opt("SPLITK", a.arg.name, n),) for a in single for n in CHUNKS if extent(a) >= 64 * n]
    elif ("UPCAST", f"{cut}.s") not in has:
        out += [(opt("UPCAST", f"{cut}.s", n),) for n in (2, 4, 8)]
    found = ownable(kernel)
    if found is not None and not any(op == "OWN" for op, _ in has) and cpu:
        out += [(opt("OWN", found[0].buffer.name, n),) for n in OWNED if n < found[2]]
    out += group_proposals(s)
    out += _moves(s)
    out += _stages(s, has)
    out += _macros(s, has)
    out += _instructions(s, has)
    return out


def _moves(s: Scheduled) -> list[Opts]:
    out: list[Opts] = []
    for n in s.nests:
        loops = [p for p in s.loops(n) if p.kind == "serial"]
        for i, p in enumerate(loops):
            for q in loops[:i]:
                if q.axis is not p.axis:
                    out.append((opt("MOVE", p.name, before=q.name),))
    return list(dict.fromkeys(out))


def _stages(s: Scheduled, has: set[tuple[str, str]]) -> list[Opts]:
    out: list[Opts] = []
    kernel, cpu = s.kernel, s.target.lang in ("llvm", "c")
    for b in kernel.inputs:
        if ("STAGE", b.name) in has:
            continue
        if b.constant and cpu:
            out.append((opt("STAGE", b.name, at=ONCE),))
        for n in s.nests:
            if _reads(n, b):
                loops = s.loops(n)
                grid = [p for p in loops if p.kind == "grid"]
                for p in [*grid[-1:], *(q for q in loops if q.kind != "grid")][:4]:
                    out.append((opt("STAGE", b.name, at=p.name),))
                    out.append((opt("STAGE", b.name, at=p.name, order="row"),))
                    out += layouts(s, b.name, p.name)
    for v in stageable_values(kernel):
        if ("STAGE", v) not in has:
            for p in s.grid[-1:] or [p for p in s.loops(s.nests[-1])[:1]]:
                out.append((opt("STAGE", v, at=p.name),))
    for b in kernel.outputs:
        if ("STAGE", b.name) not in has:
            for n in s.nests:
                if n.store is not None and n.kind == "store" and n.store.buffer == b:
                    out += [(opt("STAGE", b.name, at=p.name),) for p in [*s.grid[-1:], *(q for q in s.loops(n) if q.kind == "serial")][:2]]
        if ("NT", b.name) not in has and s.target.kind != "gpu":
            out.append((opt("NT", b.name),))
    if s.target.kind != "gpu":
        out += [(opt("FETCH", b.name),) for b in kernel.buffers if ("FETCH", b.name) not in has and fetching(s.items, b) is not None]
    return list(dict.fromkeys(out))


def _macros(s: Scheduled, has: set[tuple[str, str]]) -> list[Opts]:
    """Moves that only pay together: block a reduce axis outside the tile it feeds, and pack the block."""
    out: list[Opts] = []
    for c in contractions(s.kernel):
        k = max(c.reduce, key=extent)
        if s.plans[k].tiles or ("STAGE", c.wide.name) in has:
            continue
        nest = next((n for n in s.nests if n.name == c.nest.name), None)
        if nest is None:
            continue
        loops = [p for p in s.loops(nest) if p.kind == "serial" and p.axis in nest.axes]
        for block in (128, 256, 512):
            if block < extent(k) and loops:
                out.append((opt("TILE", k.arg.name, block), opt("MOVE", k.arg.name, before=loops[0].name), opt("STAGE", c.wide.name, at=k.arg.name)))
    return out


def _instructions(s: Scheduled, has: set[tuple[str, str]]) -> list[Opts]:
    """A matrix instruction for a sum of products, with the lanes and the panel it needs where they are not there yet."""
    out: list[Opts] = []
    known = {c.nest.name: c.lane for c in contractions(s.kernel)}
    for nest in s.nests:
        if nest.kind != "reduce" or nest.name in s.dots:
            continue
        for lane in [known[nest.name]] if nest.name in known else nest.axes:
            fit = fitting(s.target, nest, lane) if lane in s.plans else None
            if fit is None:
                continue
            name, size, n = lane.arg.name, extent(lane), fit.row.n
            lanes: list[Opts] = [()]
            if s.plans[lane].upcast == 1:
                lanes = [(*_padded(name, size, n * i), opt("UPCAST", name, n * i)) for i in (1, 2, 4) if n * i < 2 * size or i == 1]
            panels: list[Opts] = [()] if ("STAGE", fit.wide) in has else [(opt("STAGE", fit.wide, at=p),) for p in _places(s, nest, fit.wide)]
            tc = opt("TC", nest.name, n=name, k=fit.k.arg.name, row=fit.row.name)
            out += [(*a, *b, tc) for a in lanes for b in panels]
    return out


def _places(s: Scheduled, nest: Nest, name: str) -> list[str]:
    """Where a panel may be filled: the outer loops, and once where the input is constant."""
    constant = s.target.lang in ("llvm", "c") and any(b.name == name and b.constant for b in s.kernel.inputs)
    return [*([ONCE] if constant else []), *(p.name for p in s.loops(nest)[:4])]


def _padded(name: str, size: int, amount: int) -> Opts:
    """PADTO, where copies would not be allowed without it."""
    return (opt("PADTO", name, amount),) if -(-size // amount) * amount > MAX_EXTRA_WORK * size else ()


def _reads(nest: Nest, buffer: Buffer) -> bool:
    return any(x == buffer for x, _, _ in loads(*nest.evaluated))
