"""Panels for matrix instructions: elements lie in groups of k along the reduce axis, so a copy that reads along another axis weaves
k rows into one. Where a shift is added to the other operand, the sums of the panel's columns are kept beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, const
from ...opts.axis_plan import Part
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...opts.plans import DotPlan, StagePlan
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..emit.dot import panel, sums_of
from ..emit.loops import carry, through
from ..lowering import Lowering
from ..part_index import over_parts
from ..storage import Assignment
from .box import kept
from .copy_eval import CopyEval


def interleave(low: Lowering, s: StagePlan, n: Nest, mem: Mem, address: Node) -> bool:
    """Write the register copies of a panel, if the buffer is consecutive along the part outside the groups: one vector of every row
    of a group is loaded, and they are woven together. False where that is not so (then elements are copied one by one, or by
    groups where those are consecutive)."""
    _, indices, _ = load_parts(n.expr)
    strides = low.ctx.strides[s.buffer.name]
    regs = [(p, st) for p, st in s.parts if p.register]
    dot, size = regs[-1][0], regs[-1][0].trips
    lane = next((p for p, st in regs if st == size and _consecutive(low, p, indices, strides)), None)
    if lane is None or lane.trips % 2 or _consecutive(low, dot, indices, strides):
        return False
    ev = CopyEval(low, n, Vectors([p for p, _ in regs], lane, min(low.ctx.width, lane.trips & -lane.trips)))
    for asg in ev.assignments([p for p in ev.regs if p is not dot]):
        rows = [low.b.splat(kept(low.b, s, ev.value(n.expr, {**asg, dot.name: i})), ev.width) for i in range(size)]
        base, c, _, _ = ev.split(address, {**asg, dot.name: 0})
        lanes = ev.width * size
        low.b.store(low.at(mem, base, c, lanes), low.scalar(base), woven(low.b, rows))
    return True


def _consecutive(low: Lowering, part: Part, indices: tuple[Node, ...], strides: tuple[int | Node, ...]) -> bool:
    """Whether a step along `part` moves an access by one element."""
    steps = [(ix.parts(over_parts(i, low.ctx.axis_index))[0].get(part.var, 0), st) for i, st in zip(indices, strides)]
    return sum(k * st if isinstance(st, int) else 2 for k, st in steps if k) == 1


def woven(b: Builder, rows: Sequence[Val]) -> Val:
    """Lane i of every row, then lane i + 1 of every row ...: neighbours are zipped, then pairs, so that each step moves larger units."""
    unit, rows = 1, list(rows)
    while len(rows) > 1:
        lanes = rows[0].lanes
        order = tuple(side + at + i for at in range(0, lanes, unit) for side in (0, lanes) for i in range(unit))
        rows = [b.shuffle(x, y, order) for x, y in zip(rows[::2], rows[1::2], strict=True)]
        unit *= 2
    return rows[0]


def column_sums(low: Lowering, s: StagePlan, mem: Mem, dot: DotPlan) -> None:
    """Keep shift · Σ b for every column of the panel and every step of the loops outside the sum's own, by the instruction itself."""
    row, nest = dot.row, s.nests[0]
    others, address, size = sums_of(low.sched, s, nest)
    summed = [p for p, _ in s.parts if p not in others]
    name = f"{s.buffer.name}.sums"
    if name not in low.storage.panels:
        low.storage.panels[name] = low.storage.scratch.take(row.c, size)
    into = low.storage.panels[name]
    shift = low.b.const(dot.shift, row.a, row.k)
    regs = [p for p, _ in s.parts if p.register]
    lane = next(p for p in regs if p.axis is dot.n)

    def body() -> None:
        ev = CopyEval(low, Nest(f"{s.buffer.name}.sums", "copy", nest.axes, nest.reduce_axes, const(0, row.c)), Vectors(regs, lane, row.n))
        columns = ev.assignments([p for p in regs if p in others])
        start = [low.b.const(0, row.c, row.n) for _ in columns]
        done = carry(
            low, [p for p in summed if p.loop], start, lambda accs: [step(ev, acc, asg) for acc, asg in zip(accs, columns, strict=True)]
        )
        for asg, v in zip(columns, done, strict=True):
            ev.write(into, address, asg, v)

    def step(ev: CopyEval, acc: Val, asg: Assignment) -> Val:
        for more in ev.assignments([p for p in summed if p.register and p.kind != "dot"]):
            acc = low.b.dot(row.name, acc, shift, panel(ev, dot, s, mem, {**asg, **more}))
        return acc

    through(low, [p for p in low.remaining(nest) if p in others], body)
