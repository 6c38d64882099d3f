"""A schedule as text: its options, every decision that lowering is given, and the loop nest it makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from ..ir.body import Reduce, Scan
from ..ir.buffer import load_parts
from ..ir.kernel import table
from ..ir.node import Node
from .axis_plan import Part
from .nests import FoldItem, Nest, flat
from .opt import Opt, dumps, short
from .plans import ONCE, StagePlan
from .schedule import Scheduled


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
                out += _nest_lines(sub, n, depth)
    return out


def _nest_lines(s: Scheduled, n: Nest, depth: int) -> list[NestLine]:
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
            kind = "lanes" if width > 1 and s.lanes(n).lane is p else "upcast"
        out.append(NestLine(depth, p.name, _extent(p), kind))
    out.append(NestLine(depth, _statement(n), "", "store", _notes(s, n)))
    return out


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


def schedule_text(s: Scheduled) -> str:
    """Options, phases, the grid and the groups, lanes and registers of each nest, what is staged where, and the loop
    nest; ends with a newline."""
    out = [
        f"schedule of {s.kernel.name} for {s.target.name}, {s.target.lang}",
        f"  options {short(s.opts)}",
        f"  --opts '{dumps(s.opts)}'",
    ]
    out.append(f"  structural hash {s.hash}")
    if s.effects:
        out.append(f"  effects {' '.join(sorted(s.effects))}")
    subs = s.phases or (s,)
    for i, sub in enumerate(subs):
        out.append(f"phase {i}: {sub.kernel.name}" if len(subs) > 1 else "decisions")
        if len(subs) > 1:
            out.append(f"  options {short(sub.opts)}")
        out += [f"  {line}" for line in _decisions(sub)]
    out.append("loop nest")
    for line in nest_lines(s):
        words = [f"{line.label} {line.extent_text}".strip(), line.kind, line.detail]
        out.append("  " * (line.depth + 1) + "  ".join(filter(None, words)))
    return "\n".join(out) + "\n"


def _decisions(s: Scheduled) -> Iterator[str]:
    bands = f", in bands of {s.swizzle}" if s.swizzle > 1 else ""
    yield f"grid {' '.join(f'{p.name}:{p.size}' for p in s.grid) or 'of one item'}{bands}"
    if s.threads:
        yield f"groups of {s.group} threads: {' '.join(f'{t.var.arg.name}:{t.count}' for t in s.threads)}"
    asked = [f"{f.name} {value}" for f in fields(s.launch) if (value := getattr(s.launch, f.name))]
    if asked:
        yield f"launch {', '.join(asked)}"
    for item in s.items:
        if isinstance(item, FoldItem):
            yield f"fold {item.fold.name}"
        for n in flat([item]):
            yield _nest(s, n)
    for name, at in s.value_stages.items():
        if name in s.held:
            yield f"output {name} is held in scratch at {at}, and stored from there"
        else:
            yield f"value {name} is kept in an array, made at {at}"
    yield from (_stage(p) for p in s.stages.values())
    yield from (f"instruction {d.row.name} makes {name}" for name, d in s.dots.items())
    for name, t in s.tensors.items():
        axes = f"m={t.m.arg.name}, n={t.n.arg.name}, k={t.k.arg.name}"
        yield f"{t.row.unit} threads make {name} together by {t.row.name}, {axes}"
    yield from (f"stores to {name} are non-temporal" for name in sorted(s.nt))
    yield from (f"lines of {name} are prefetched" for name in sorted(s.prefetched))
    yield from (f"{op} of {name}" for op, names in sorted(s.marks.items()) for name in sorted(names))


def _nest(s: Scheduled, n: Nest) -> str:
    found = s.lanes(n)
    registers = " ".join(f"{p.name}:{p.trips} {p.kind}" for p in s.registers(n))
    lanes = f"{found.width} lanes along {found.lane.name}" if found.lane is not None and found.width > 1 else "scalar"
    return f"nest {n.name} ({n.kind}): {lanes}" + (f"; in registers {registers}" if registers else "")


def _stage(p: StagePlan) -> str:
    dims = " x ".join([f"{q.name}:{q.trips}" for q, _ in p.parts] or [str(e) for _, _, e, _ in p.box])
    where = "before the first call" if p.once else "for a work item" if p.at.kind == "grid" else f"in loop {p.at.name}"
    swizzle = f", rows swizzled by {p.swizzle}" if p.swizzle else ""
    size = f"{p.elements} elements of {p.dtype}, {p.bytes} bytes"
    return f"input {p.buffer.name} is copied {where}: {p.order} {dims}, {size}{swizzle}{slots(p)}"


class ShownSchedule(tuple[Opt, ...]):
    """A tuple of options, equal to the plain one. `str` of it is the short form, which every `opts=` and `--opts` takes."""

    __slots__ = ()

    def __str__(self) -> str:
        return short(self)

    def _repr_html_(self) -> str:
        """Each option in its short and its long form, in order."""
        rows = [(short([o]), str(o)) for o in self]
        return table(rows, ("option", "in full"), f"schedule {short(self)}") if rows else table([], (), "schedule: no options")
