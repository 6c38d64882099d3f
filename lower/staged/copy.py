"""Fills a staged panel: a copy nest over the reader's own loop parts, written in the order it will be read."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.buffer import load, load_parts, loads
from ...ir.node import Node, const
from ...opts.analysis.guarded import guarded
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.plans import StagePlan
from ...program.program import Mem
from ..emit.loops import through
from ..lowering import Lowering
from . import packing
from .across import buffer_steps, fill_across
from .box import box, kept
from .copy_eval import CopyEval, along_panel


def fill(low: Lowering, s: StagePlan) -> None:
    """Emit the copy at the current position."""
    mem = low.storage.panels.get(s.buffer.name)
    if mem is None:
        mem = low.storage.panels[s.buffer.name] = low.storage.scratch.take(s.dtype, s.elements)
    if s.order == "panel":
        _panel(low, s, mem)
    else:
        box(low, s, mem)


def _panel(low: Lowering, s: StagePlan, mem: Mem) -> None:
    reader = s.nests[0]
    inside = {p.name for p, _ in s.parts}
    value = _source(low, s, reader)
    n = Nest(f"{s.buffer.name}.tile", "copy", reader.axes, reader.reduce_axes, value)
    loops = [p for p in low.remaining(reader) if p.name in inside]
    if fill_across(low, s, mem, value, loops):
        return
    address = const(0)
    for p, stride in s.parts:
        address = ix.add(address, p.var, stride)

    def body() -> None:
        if s.parts and s.parts[-1][0].kind == "dot" and packing.interleave(low, s, n, mem, address):
            return
        here = _source(low, s, reader)  # a piece of a loop may need no mask
        ev = CopyEval(low, n, along_panel(low, [p for p, _ in s.parts if p.register], {p.name: st for p, st in s.parts}))
        for asg in ev.assignments(ev.regs):
            ev.write(mem, address, asg, kept(low.b, s, ev.value(here, asg)))

    through(low, _far_first(low, s, loops), body)
    dot = low.sched.dots.get(reader.name)
    if dot is not None and dot.shift and load_parts(dot.b)[0] == s.buffer:
        packing.column_sums(low, s, mem, dot)


def _far_first(low: Lowering, s: StagePlan, loops: list[Part]) -> list[Part]:
    """The loops so that the buffer is read in runs as long as they get: page after page of short pieces is several
    times slower. Where a stride is not known, in the reader's order."""
    steps = buffer_steps(low, s, loops)
    return loops if steps is None else sorted(loops, key=lambda p: -abs(steps[p.name]))


def _source(low: Lowering, s: StagePlan, reader: Nest) -> Node:
    """The load the reader would have done, in its own axes, padding included."""
    for b, indices, mask in loads(*reader.evaluated):
        if b == s.buffer and tuple(low.sched.at_parts(i) for i in indices) == s.index:
            conds = mask
            for a in reader.all_axes:
                if low.masked(a) and any(p.axis is a for p, _ in s.parts):
                    inside = _inside(low, a)
                    # (a mask may be of what is read)
                    conds = inside if conds is None else guarded(conds, {a}, inside) & inside
            return load(s.buffer, indices, conds)
    raise AssertionError(f"{s.buffer.name} is not read in {reader.name}")


def _inside(low: Lowering, a: Node) -> Node:
    """`a < extent` over its parts, which can reach past it."""
    plan = low.sched.plans[a]
    return ix.compare("lt", plan.index, plan.extent if isinstance(plan.extent, Node) else const(plan.extent))
