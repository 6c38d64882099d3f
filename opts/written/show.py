"""A schedule as lines of a loop nest, for people."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.body import Reduce, Scan
from ...ir.buffer import load_parts
from ...ir.node import Node
from ..axis_plan import Part
from ..nests import Nest, flat
from ..plans import ONCE, StagePlan
from ..schedule import Scheduled


@dataclass(frozen=True, slots=True)
class NestLine:
    """One line: nesting depth, loop or statement, its extent as text, its kind (grid thread serial reduce upcast lanes
    unroll partial dot stage store), and what is notable about it."""

    depth: int
    label: str
    extent_text: str
    kind: str
    detail: str = ""


def nest_lines(s: Scheduled) -> list[NestLine]:
    """The loops of a schedule, nest by nest, in the order they run."""
    out: list[NestLine] = []
    for phase, sub in enumerate(s.phases or (s,)):
        depth = 0
        if s.phases:
            out.append(NestLine(0, f"phase {phase}", "", "grid", sub.kernel.name))
            depth = 1
        out += _stages(sub, ONCE, depth)
        for p in sub.grid:
            out.append(NestLine(depth, p.name, _extent(p), "grid", _step(p)))
            depth += 1
        if sub.threads:
            # outer to inner as the others: the last varies fastest
            for t in reversed(sub.threads):
                shares = "shared by the threads of a group"
                out.append(NestLine(depth, t.var.arg.name, str(t.count), "thread", shares))
            depth += 1
        out += _stages(sub, "grid", depth)
        for item in sub.items:
            for n in flat([item]):
                out += _nest(sub, n, depth)
    return out


def _nest(s: Scheduled, n: Nest, depth: int) -> list[NestLine]:
    out: list[NestLine] = []
    for p in s.loops(n):
        if p.kind == "grid":
            continue
        kind = "reduce" if p.axis in n.reduce_axes or p.kind == "fold" else "serial"
        out.append(NestLine(depth, p.name, _extent(p), kind, _step(p)))
        depth += 1
        out += [line for line in _stages(s, p.name, depth, n)]
    for p in s.registers(n):
        kind = p.kind
        if kind == "upcast" and p.axis in n.reduce_axes:
            kind = "partial"
        elif kind == "upcast":
            width = min(s.target.lanes(n.expr.dtype.compute), p.trips & -p.trips)
            kind = "lanes" if width > 1 and _is_last(s, n, p) else "upcast"
        out.append(NestLine(depth, p.name, _extent(p), kind))
    out.append(NestLine(depth, _statement(n), "", "store", _notes(s, n)))
    return out


def _is_last(s: Scheduled, n: Nest, p: Part) -> bool:
    return s.lanes(n).lane is p


def _statement(n: Nest) -> str:
    if n.store is not None:
        where_ = ", ".join(repr(i) for i in n.indices)
        sign = "=" if n.store.combine is None or n.kind == "init" else f"{n.store.combine}="
        kept = f" where {n.mask!r}" if n.mask is not None else ""
        return f"{n.store.buffer.name}[{where_}] {sign} {n.expr!r}{kept}"
    assert n.value is not None
    axes = ", ".join(a.arg.name for a in n.axes)
    head = f"{n.name}[{axes}]" if axes else n.name
    if isinstance(n.value.expr, (Reduce, Scan)):
        return f"{head} {n.value.expr.combine}= {n.expr!r}"
    return f"{head} = {n.expr!r}"


def _notes(s: Scheduled, n: Nest) -> str:
    dot = s.dots.get(n.name)
    tensor = s.tensors.get(n.name)
    if tensor is not None and n.kind == "reduce":
        return f"by {tensor.row.name} in units of {tensor.row.unit} threads"
    shift = f", with {dot.shift} added to {load_parts(dot.a)[0].name}" if dot and dot.shift else ""
    return f"keeps {', '.join(n.fills)}" if n.fills else f"by {dot.row.name}{shift}" if dot else ""


def _stages(s: Scheduled, at: str, depth: int, nest: Nest | None = None) -> list[NestLine]:
    out = []
    for name, st in s.stages.items():
        here = st.at.kind == at if at in ("grid", ONCE) else st.at.name == at and nest is not None and any(n is nest for n in st.nests)
        if here:
            size = f"{st.bytes / 1024:.3g} KiB"
            dims = " x ".join(f"{p.name}:{p.trips}" for p, _ in st.parts) if st.parts else " x ".join(str(e) for _, _, e, _ in st.box)
            out.append(NestLine(depth, f"stage {name}", size, "stage", f"{st.order} {dims}{', once' if st.once else ''}{slots(st)}"))
    return out


def slots(st: StagePlan) -> str:
    """How a tile is copied ahead of its use, as it follows other words; nothing where it is not."""
    if st.depth == 1:
        return ""
    if st.boxed:
        return f", {st.depth} slots, copied by TMA"
    how = f"asynchronously, {st.chunk * st.dtype.size} bytes at a time" if st.chunk else "through registers"
    return f", {st.depth} slots, copied {how}"


def _extent(p: Part) -> str:
    return str(p.size) if isinstance(p.size, int) else repr(p.size) if isinstance(p.size, Node) else ""


def _step(p: Part) -> str:
    return f"step {p.stride}" if p.stride > 1 else ""
