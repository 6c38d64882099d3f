"""Staged tiles in shared memory: the threads of a group share the copy, neighbours reading neighbouring words, and read it back in vectors where they can."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.node import Node, const
from ...ir.node import axis as make_axis
from ...opts.axis_plan import Part
from ...opts.plans import StagePlan
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..storage import Assignment

if TYPE_CHECKING:
    from ..expr import NestEval
    from ..lowering import Lowering

UNROLLED = 8
"""Steps of a copy that are spelled out, all loads before the stores, so that they are under way at once."""


def fill(low: Lowering, s: StagePlan) -> None:
    """Emit the copy at the current position and make the tile active."""
    mem = low.tiles.get(s.buffer.name)
    if mem is None:
        mem = low.tiles[s.buffer.name] = low.shared.take(s.dtype, s.elements)
    copy = _Copy(low, s, mem)
    if copy.steps <= UNROLLED:
        copy.run([low.b.const(i * low.sched.group) for i in range(copy.steps)])
    else:
        with low.b.loop(f"{s.buffer.name}.copy", low.b.const(0), low.b.const(copy.steps)) as loop:
            copy.run([low.b.op("mul", loop.var, low.b.const(low.sched.group))], always=True)
    low.active[s.buffer.name] = (s, mem)


def place(b: Builder, s: StagePlan, at: Val) -> Val:
    """Where element `at` of a tile lies: in row r, chunk c of the row goes to c XOR (r % swizzle). (The layout that libraries of
    GPU templates call a swizzle; it spreads what a warp reads of one column over the banks.)"""
    if not s.swizzle:
        return at
    row = b.op("imod", b.op("idiv", at, attr=s.pitch), attr=s.swizzle)
    return b.op("xor", at, b.op("mul", row, b.const(s.vector)))


class _Copy:
    """The tile's elements in the buffer's order, as chunks of consecutive ones, dealt to the threads in turn."""

    def __init__(self, low: Lowering, s: StagePlan, mem: Mem) -> None:
        self.low, self.s, self.mem = low, s, mem
        dims = sorted(s.box)
        last = dims[-1][2] if dims else 1
        self.width = min(low.width, last & -last, s.vector if s.swizzle else last)
        self.sizes = [extent for _, _, extent, _ in dims]
        if dims:
            self.sizes[-1] //= self.width
        self.chunks = 1
        for n in self.sizes:
            self.chunks *= n
        self.steps = -(-self.chunks // low.sched.group)
        name = s.buffer.name
        self.axes = [make_axis(f"{name}.box{d}", n) for d, n in enumerate(self.sizes)]
        coords: list[Node] = list(self.axes)
        if coords:
            coords[-1] = ix.mul(coords[-1], const(self.width))
        self.source = self.target = const(0)
        self.stride = dims[-1][3] if dims else 1
        self.conds: list[tuple[str, Node]] = []  # 0 <= or < an index
        at = list(s.index)
        for (d, base, _, stride), c in zip(dims, coords):
            at[d] = ix.add(base, c)
            self.target = ix.add(self.target, c, stride)
            size = s.buffer.shape[d]
            top = size if isinstance(size, Node) else const(size)
            # the last of a vector's lanes decides whether a bound can be left out
            end = ix.add(at[d], const(self.width - 1 if c is coords[-1] else 0))
            if not _holds(ix.compare("le", const(0), at[d])):
                self.conds.append(("le", at[d]))
            if not _holds(ix.compare("lt", end, top)):
                self.conds.append(("lt", ix.add(top, at[d], -1)))
        for i, step in zip(at, low.strides[name]):
            self.source = ix.add(self.source, i, step) if isinstance(step, int) else ix.add(self.source, ix.mul(i, step))

    def run(self, starts: list[Val], always: bool = False) -> None:
        """The chunks `start + thread`: every load, then every store."""
        low, b = self.low, self.low.b
        done: list[tuple[Val | None, Val, Val]] = []
        for i, start in enumerate(starts):
            chunk = b.op("add", low.thread, start)
            partial = (always or i == len(starts) - 1) and self.chunks % low.sched.group != 0
            guard = b.op("lt", chunk, b.const(self.chunks)) if partial else None
            with ExitStack() as bound:
                for axis, v in zip(self.axes, self._coordinates(chunk)):
                    bound.enter_context(low.scalars.bind(axis, v))
                mask = self._mask(guard)
                param = low.param(self.s.buffer.name)
                value = b.load(low.at(param, self.source, 0, self.width), low.scalar(self.source), self.width, mask, invariant=True)
                done.append((guard, low.scalar(self.target), value))
        for guard, at, value in done:
            if guard is None:
                self._store(at, value)
            else:
                with b.when(guard):
                    self._store(at, value)

    def _coordinates(self, chunk: Val) -> list[Val]:
        b, out, rest = self.low.b, [], chunk
        for n in reversed(self.sizes[1:]):
            out.append(b.op("imod", rest, attr=n) if n > 1 else b.const(0))
            rest = b.op("idiv", rest, attr=n) if n > 1 else rest
        return [rest, *reversed(out)] if self.sizes else []

    def _mask(self, guard: Val | None) -> Val | None:
        low, b, mask = self.low, self.low.b, guard
        if mask is not None:
            mask = b.splat(mask, self.width)
        for op, difference in self.conds:
            v = low.scalar(difference)
            step = ix.parts(difference)[0].get(self.axes[-1], 0) // self.width
            if step and self.width > 1:
                v = b.op("add", v, b.const(tuple(step * i for i in range(self.width)), index, self.width))
            v = b.splat(b.op(op, b.const(0), v), self.width)
            mask = v if mask is None else b.op("and", mask, v)
        return mask

    def _store(self, at: Val, value: Val) -> None:
        b, s, mem = self.low.b, self.s, self.mem
        if self.stride == 1:
            aligned = (s.pitch % self.width == 0 or len(self.sizes) == 1) and all(stride % self.width == 0 for _, _, _, stride in s.box[:-1])
            size = mem.dtype.size * (self.width if aligned else 1)
            b.store(Mem(mem.space, mem.base, mem.dtype, 0, size), place(b, s, at), value)
            return
        for i in range(self.width):
            spot = b.op("add", at, b.const(i * self.stride)) if i else at
            b.store(mem, place(b, s, spot), b.extract(value, i))


def _holds(condition: Node) -> bool:
    return condition.op == "const" and bool(condition.arg)


def neighbours(ev: NestEval, plan: StagePlan, mem: Mem, address: Node, asg: Assignment) -> Part | None:
    """The register part along which this read, the same in all lanes, is consecutive and aligned for a whole vector."""
    terms = ix.parts(address)[0]
    for p in ev.regs if ev.low.sched.target.kind == "gpu" else ():
        if p.kind == "upcast" and p is not ev.lane and terms.get(p.var) == 1 and p.trips & (p.trips - 1) == 0 and p.trips <= plan.vector:
            base, c, lane, vec = ev.split(address, {**asg, p.name: 0})
            if not lane and vec is None and ev.low.at(mem, base, c, p.trips).align >= p.trips * mem.dtype.size:
                return p
    return None


def read(ev: NestEval, plan: StagePlan, mem: Mem, address: Node, asg: Assignment, copies: int = 1) -> Val:
    """Load from shared memory: along the lanes, or `copies` consecutive elements of a read that is the same in all of them. In
    a swizzled tile chunks have changed places along a row; a load inside one stays whole."""
    base, c, lane, vec = ev.split(address, asg)
    lanes = copies if copies > 1 else ev.width if lane else 1
    if not plan.swizzle:
        return ev.b.load(ev.low.at(mem, base, c, lanes), ev.low.scalar(base), lanes) if copies > 1 else ev.read(mem, address, asg)
    at = ev.low.scalar(ix.add(base, const(c)))
    if vec is None and lane in (0, 1) and lanes <= plan.vector and (lanes == 1 or ev.low.at(mem, base, c, lanes).align >= lanes * mem.dtype.size):
        return ev.b.load(Mem(mem.space, mem.base, mem.dtype, 0, lanes * mem.dtype.size), place(ev.b, plan, at), lanes)
    return ev.b.gather(mem, place(ev.b, plan, ev.join(at, lane, vec)))
