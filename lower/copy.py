"""Fills a staged tile: a copy nest over the reader's own loop parts (panel), or over the box of the buffer (row)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.kernel import Buffer
from ..ir.node import Node, const, load, substitute
from ..ir.node import axis as make_axis
from ..opts.nests import Nest
from ..opts.plan_axis import Part
from ..opts.staging import StagePlan
from .expr import NestEval
from .program import Mem

if TYPE_CHECKING:
    from .lowering import Lowering


def fill(low: Lowering, s: StagePlan) -> None:
    """Emit the copy at the current position and make the tile active."""
    mem = low.tiles.get(s.buffer.name)
    if mem is None:
        mem = low.tiles[s.buffer.name] = low.arena.take(s.dtype, s.elements)
    if s.order == "panel":
        _panel(low, s, mem)
    else:
        _row(low, s, mem)
    low.active[s.buffer.name] = (s, mem)


def _panel(low: Lowering, s: StagePlan, mem: Mem) -> None:
    reader = s.nests[0]
    inside = {p.name for p, _ in s.parts}
    value = _source(low, s, reader)
    n = Nest(f"{s.buffer.name}.tile", "copy", reader.axes, reader.reduce_axes, value)
    loops = [p for p in low.remaining(reader) if p.name in inside]
    address = const(0)
    for p, stride in s.parts:
        address = ix.add(address, p.var, stride)

    def body() -> None:
        ev = CopyEval(low, n, [p for p, _ in s.parts if p.register], {p.name: st for p, st in s.parts})
        for asg in ev.assignments(ev.regs):
            ev.write(mem, address, asg, ev.value(value, asg))

    _through(low, loops, body)


def _source(low: Lowering, s: StagePlan, reader: Nest) -> Node:
    """The load the reader would have done, in its own axes, padding included."""
    from ..ir.kernel import loads

    roots = list(reader.roots)
    for f, by in reader.fills.items():
        roots.append(substitute(low.inlined[f], dict(zip(low.sched.kept[f].axes, by))))
    for b, indices, mask in loads(*roots):
        if b == s.buffer and tuple(low.sched.at_parts(i) for i in indices) == s.index:
            conds = mask
            for a in reader.all_axes:
                if low.sched.plans[a].masked and any(p.axis is a for p, _ in s.parts):
                    bound = ix.compare("lt", a, _node(low.sched.plans[a].extent))
                    if bound.op == "const":  # over the axis it always holds; over its parts it does not
                        bound = _past(a, low)
                    conds = bound if conds is None else conds & bound
            return load(s.buffer, indices, conds)
    raise AssertionError(f"{s.buffer.name} is not read in {reader.name}")


def _past(a: Node, low: Lowering) -> Node:
    plan = low.sched.plans[a]
    return ix.compare("lt", plan.index, _node(plan.extent))


class CopyEval(NestEval):
    """A nest whose lanes run along the innermost register part of the tile, so that it is written consecutively."""

    def __init__(self, low: Lowering, n: Nest, regs: Sequence[Part], strides: dict[str, int]) -> None:
        super().__init__(low, n)
        self.regs = list(regs)
        self._vars = {p.var: p for p in regs}
        self.lane, self.width = None, 1
        for p in regs:
            lanes = min(low.width, p.trips & -p.trips)
            if strides[p.name] == 1 and lanes > 1:
                self.lane, self.width = p, lanes
        masked = [a for a in n.all_axes if low.sched.plans[a].masked]
        self.lane_masked = None
        self.scalar_masked = []
        del masked
        self._index = dict(low.axis_index)


def _row(low: Lowering, s: StagePlan, mem: Mem) -> None:
    """Copy the box, one row at a time; what lies outside the buffer is 0."""
    b = low.b
    axes, parts = [], []
    for d, _, extent, _ in s.box:
        a = make_axis(f"{s.buffer.name}.box{d}", extent)
        axes.append(a)
        parts.append(a)
    at = [ix.add(base, a) for (_, base, _, _), a in zip(s.box, axes)]
    full = list(s.index)
    for (d, *_), i in zip(s.box, at):
        full[d] = i
    address = const(0)
    for (_, _, _, stride), a in zip(s.box, axes):
        address = ix.add(address, a, stride)
    source = const(0)
    for i, stride in zip(full, low.strides[s.buffer.name]):
        source = ix.add(source, i, stride) if isinstance(stride, int) else ix.add(source, ix.mul(i, stride))
    conds = _inside(s.buffer, [(d, i) for (d, *_), i in zip(s.box, at)])
    _box_loops(low, s, mem, axes, address, source, conds, b.const(0))


def _inside(buffer: Buffer, at: Sequence[tuple[int, Node]]) -> list[Node]:
    out = []
    for d, i in at:
        out += [ix.compare("le", const(0), i), ix.compare("lt", i, _node(buffer.shape[d]))]
    return [c for c in out if c.op != "const"]


def _box_loops(low: Lowering, s: StagePlan, mem: Mem, axes: list[Node], address: Node, source: Node, conds: list[Node], zero: object) -> None:
    b = low.b
    width = low.width
    inner = axes[-1]
    extent = s.box[-1][2]
    whole, tail = divmod(extent, width)

    def row() -> None:
        if whole and width > 1:
            with b.loop(f"{s.buffer.name}.row", b.const(0), b.const(whole)) as loop:
                start = b.op("mul", loop.var, b.const(width))
                _vector(low, s, mem, inner, start, address, source, conds, width)
        lanes = tail if width > 1 else extent
        if lanes:
            base = whole * width if width > 1 else 0
            with b.loop(f"{s.buffer.name}.rest", b.const(0), b.const(lanes)) as loop:
                start = b.op("add", loop.var, b.const(base))
                _vector(low, s, mem, inner, start, address, source, conds, 1)

    def nest(rest: list[Node]) -> None:
        if not rest:
            row()
            return
        with b.loop(rest[0].arg.name, b.const(0), b.const(int(rest[0].arg.extent))) as loop:
            saved, low._scalars = low._scalars, {}
            low.bound[rest[0]] = loop.var
            nest(rest[1:])
            del low.bound[rest[0]]
            low._scalars = saved

    nest(axes[:-1])


def _vector(low: Lowering, s: StagePlan, mem: Mem, inner: Node, start: object, address: Node, source: Node, conds: list[Node], width: int) -> None:
    """Copy `width` elements of a row, masked lane by lane where the row can leave the buffer."""
    from ..ir.dtypes import index
    from .program import Val

    assert isinstance(start, Val)
    b = low.b
    saved, low._scalars = low._scalars, {}
    low.bound[inner] = start
    src, dst = low.scalar(source), low.scalar(address)
    mask = None
    for c in conds:
        x, y = c.src
        diff = low.scalar(ix.add(y, x, -1))
        step = ix.parts(ix.add(y, x, -1))[0].get(inner, 0)
        if step and width > 1:
            diff = b.op("add", diff, b.const(tuple(step * i for i in range(width)), index, width))
        m = b.splat(b.op(c.op, b.const(0), diff), width)
        mask = m if mask is None else b.op("and", mask, m)
    param = low.param(s.buffer.name)
    value = b.load(param, src, width, mask, invariant=True)
    b.store(mem, dst, value)
    del low.bound[inner]
    low._scalars = saved


def _through(low: Lowering, loops: Sequence[Part], body: object) -> None:
    from .loops import through

    through(low, loops, body)  # type: ignore[arg-type]


def _node(x: int | Node) -> Node:
    return const(x) if isinstance(x, int) else x
