"""The part of the action space that needs groups of threads, and the grid's order."""

from __future__ import annotations

from ..ir.body import Scan
from ..ir.buffer import loads
from ..ir.node import Node
from .opt import Opts, opt
from .schedule import Scheduled
from .structure import extent

THREADS = (4, 8, 16, 32, 64, 128, 256)
GROUPS = (4, 8, 16, 32, 64, 128, 256, 512)
BANDS = (2, 4, 8, 16)
CAPS = (64, 96, 128, 168)


def group_proposals(s: Scheduled) -> list[Opts]:
    """Threads for every family, and what pays only together with them."""
    out: list[Opts] = []
    has = {(o.op, o.on) for o in s.opts}
    grid = [p for p in s.grid if isinstance(p.size, int) and p.size > 1]
    if ("SWIZZLE", "grid") not in has and len(grid) >= 2:
        out += [(opt("SWIZZLE", "grid", n),) for n in BANDS]
    if not s.target.simt or ("NOLOCAL", "grid") in has:
        return out
    reduced = {a for n in s.nests for a in n.reduce_axes}
    scanned = {n.value.expr.axis for n in s.nests if n.value is not None and isinstance(n.value.expr, Scan)}
    families: dict[str, list[Node]] = {}
    for a in s.plans:
        families.setdefault(a.arg.family, []).append(a)
    for sites in families.values():
        if s.plans[sites[0]].threads > 1 or any(a in scanned for a in sites):
            continue
        name = sites[0].arg.family if len(sites) > 1 else sites[0].arg.name
        size = max(extent(a) for a in sites)
        if any(a in reduced for a in sites):
            out += [(opt("GROUP", name, n),) for n in GROUPS if n <= 2 * size]
        else:
            out += [(opt("LOCAL", name, n),) for n in THREADS if n <= 2 * size]
    if s.target.kind == "gpu" and not s.regs:
        out += [(opt("LAUNCH", "grid", n),) for n in CAPS]
    if s.group == 1 and not s.opts:
        out.append((opt("NOLOCAL", "grid"),))
    return out + _together(s, has)


def _together(s: Scheduled, has: set[tuple[str, str]]) -> list[Opts]:
    """A block of a reduce axis with both operands staged for it."""
    out: list[Opts] = []
    if s.group == 1:
        return out
    for n in s.nests:
        if n.kind != "reduce":
            continue
        buffers = list(dict.fromkeys(b for b, _, _ in loads(*n.evaluated) if ("STAGE", b.name) not in has))
        k = max(n.reduce_axes, key=extent, default=None)
        if k is None or not buffers or s.plans[k].tiles:
            continue
        for block in (8, 16, 32, 64):
            if s.plans[k].block <= block < extent(k):
                stages = tuple(opt("STAGE", b.name, at=k.arg.name) for b in buffers)
                out.append((opt("TILE", k.arg.name, block), *stages))
    return out


def layouts(s: Scheduled, name: str, at: str) -> list[Opts]:
    """A staged tile in shared memory with padded rows, or swizzled ones."""
    if s.group == 1:
        return []
    out: list[Opts] = [(opt("STAGE", name, at=at, order=order, pad=1 if order == "row" else 4),) for order in ("row", "panel")]
    return [*out, (opt("STAGE", name, at=at, swizzle=8),)]
