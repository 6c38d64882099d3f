"""Staged tiles in shared memory: the threads of a group share the copy, neighbours reading neighbouring words, and
read it back in vectors where they can."""

from __future__ import annotations

from contextlib import ExitStack

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.node import Node, const
from ...ir.node import axis as make_axis
from ...opts.plans import StagePlan
from ...program.program import Mem, Val
from ..lowering import Lowering
from ..storage import linear_index
from .tile_read import place

UNROLLED = 8
"""Steps of a copy that are spelled out, all loads before the stores, so that they are under way at once."""


def fill(low: Lowering, s: StagePlan) -> None:
    """Emit the copy at the current position."""
    mem = low.storage.panels.get(s.buffer.name)
    if mem is None:
        mem = low.storage.panels[s.buffer.name] = low.storage.shared.take(s.dtype, s.elements)
    copy = _Copy(low, s, mem)
    if copy.steps <= UNROLLED:
        copy.run([low.b.const(i * low.sched.group) for i in range(copy.steps)])
    else:
        with low.b.loop(f"{s.buffer.name}.copy", low.b.const(0), low.b.const(copy.steps)) as loop:
            copy.run([low.b.op("mul", loop.var, low.b.const(low.sched.group))], always=True)


class _Copy:
    """The tile's elements in the buffer's order, as chunks of consecutive ones, dealt to the threads in turn."""

    def __init__(self, low: Lowering, s: StagePlan, mem: Mem) -> None:
        self.low, self.s, self.mem = low, s, mem
        dims = sorted(s.box)
        last = dims[-1][2] if dims else 1
        self.width = min(low.ctx.width, last & -last, s.vector if s.swizzle else last)
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
        self.source = linear_index(at, low.ctx.strides[name])

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
            aligned = (s.pitch % self.width == 0 or len(self.sizes) == 1) and all(
                stride % self.width == 0 for _, _, _, stride in s.box[:-1]
            )
            size = mem.dtype.size * (self.width if aligned else 1)
            b.store(Mem(mem.space, mem.base, mem.dtype, 0, size), place(b, s, at), value)
            return
        for i in range(self.width):
            spot = b.op("add", at, b.const(i * self.stride)) if i else at
            b.store(mem, place(b, s, spot), b.extract(value, i))


def _holds(condition: Node) -> bool:
    return condition.op == "const" and bool(condition.arg)
