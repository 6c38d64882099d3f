"""A schedule as text: every decision that lowering is given, and the loop nest it makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ..nests import FoldItem, Nest, flat
from ..opt import dumps, short
from ..plans import StagePlan
from ..schedule import Scheduled
from .show import nest_lines, slots


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
