"""Where values live between nests: in registers, in arrays of a worker's or thread's scratch, in memory that a group shares, or in an
output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..ir import index as ix
from ..ir.body import Value
from ..ir.dtypes import DType
from ..ir.errors import OptError
from ..ir.node import Node, axis, const, walk
from ..opts.access import dense
from ..opts.analysis.boxes import BoxPlan
from ..opts.analysis.structure import read_elsewhere
from ..opts.axis_plan import AxisPlan, Part
from ..opts.nests import Nest
from ..opts.plans import RollPlan
from ..opts.tensor_cores import factors, operand_plans
from ..program.hopper import MBar
from ..program.ops import PAGE
from ..program.program import Mem, Val
from .context import Context
from .part_index import linear_index
from .pieces import Scope

Assignment = dict[str, int]
Key = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Registers:
    """A value held in SSA: one Val for each assignment of its register parts; along `lane` a Val holds a vector, and the
    assignment counts vectors. `supposed`: what it is right under, bools of vectors, which whoever reads it asks; else `again` makes
    the value anew, right in any case."""

    regs: list[Part]
    lane: Part | None
    width: int
    vals: dict[Key, Val] = field(default_factory=dict)
    supposed: Sequence[Val] = ()
    again: Callable[[], None] | None = None

    def key(self, asg: Assignment) -> Key:
        """The key of an assignment."""
        return tuple((p.name, asg[p.name]) for p in self.regs)


@dataclass(slots=True)
class Array:
    """A value in memory: element (i₀, i₁, …) of `axes` is at Σ (iₐ − baseₐ)·strideₐ. With `own`, every thread keeps just its own
    elements, and indices count those (`AxisPlan.own`). With `ring`, its places go round (`plans.RollPlan`)."""

    mem: Mem
    axes: tuple[Node, ...]
    bases: tuple[Node, ...]
    strides: tuple[int | Node, ...]
    param: bool = False
    own: bool = False
    ring: RollPlan | None = None

    def address(self, indices: tuple[Node, ...]) -> Node:
        """The element index of a point (indices are over parts)."""
        r = self.ring
        if r is not None:
            slot = ix.mod(ix.add(indices[r.along_at], indices[r.block_at], r.step), r.slots)
            indices = tuple(slot if d == r.along_at else const(0) if d == r.block_at else i for d, i in enumerate(indices))
        return linear_index((ix.add(i, base, -1) for i, base in zip(indices, self.bases, strict=True)), self.strides)


class Arena:
    """Hands out 64-byte aligned pieces of a worker's or thread's scratch, or of a group's shared memory."""

    def __init__(self, space: str = "scratch") -> None:
        self.space = space
        self.size = 0

    def take(self, dtype: DType, elements: int) -> Mem:
        """Room for `elements` of `dtype`, with slack for a whole vector at the end."""
        base = self.size
        self.size += (elements * dtype.size + 127) // 64 * 64
        return Mem(self.space, base, dtype, align=dtype.size)

    def exactly(self, nbytes: int, align: int) -> int:
        """The first byte of `nbytes` that start at a multiple of `align`, with nothing behind them."""
        base = -(-self.size // align) * align
        self.size = base + nbytes
        return base


T = TypeVar("T")


class Storage:
    """Where the values of a phase live. `values`: by name. `reserved`: arrays that values will get, because they are read outside
    the loop that makes them. `panels`: memory of staged tiles. `lent`: outputs that hold another value for a while. `aliased`:
    outputs that a reduction or scan is computed in, so that nothing is left to store."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.values: dict[str, Registers | Array] = {}
        self.reserved: dict[str, Array] = {}
        self.panels: dict[str, Mem] = {}
        self.lent: set[str] = set()
        self.aliased: set[str] = set()
        self.scratch, self.shared = Arena(), Arena("shared")

    def versions(self, pieces: Iterable[T]) -> Iterator[T]:
        """One piece of code after the other: each knows nothing of what another keeps where, and uses the same memory."""
        saved = dict(self.values), dict(self.panels), dict(self.reserved), set(self.lent)
        mark = top = self.scratch.size, self.shared.size
        for piece in pieces:
            self.scratch.size, self.shared.size = mark
            self.values, self.panels, self.reserved = dict(saved[0]), dict(saved[1]), dict(saved[2])
            self.lent = set(saved[3])
            yield piece
            top = max(top[0], self.scratch.size), max(top[1], self.shared.size)
        self.scratch.size, self.shared.size = top

    def array(self, scope: Scope, value: Value, axes: tuple[Node, ...]) -> Array:
        """Room for the part of a value that the open loops do not fix. Elements of several threads go to shared memory, unless
        every reader wants just what its own thread made."""
        plans = self.ctx.sched.plans
        spread = any(plans[a].shared for a in axes)
        own = spread and self._own(value.name, axes)
        ring = self.ctx.sched.rings.get(value.name)
        found = [self._local(scope, a, own) for a in axes]
        if ring is not None:  # one block's places, whichever block is open
            found[ring.block_at], found[ring.along_at] = (const(0), 1), (const(0), ring.slots)
        inner = self.ctx.sched.inner.get(value.name, len(axes) - 1)
        order = [*(d for d in range(len(axes)) if d != inner), inner] if axes else []
        dims = [found[d][1] for d in order]
        if dims:
            lanes = 64 // max(1, value.dtype.size)
            dims[-1] = -(-dims[-1] // lanes) * lanes if dims[-1] >= lanes else dims[-1]
            if len(dims) > 1 and dims[-1] * value.dtype.size % PAGE == 0 and value.name in read_elsewhere(self.ctx.kernel):
                dims[-1] += lanes  # its rows are read side by side, and would all want the same sets of the first cache
        by_place = dense(tuple(dims))
        strides = tuple(by_place[order.index(d)] for d in range(len(axes)))
        total = 1
        for d in dims:
            total *= d
        room = self.shared if spread and not own else self.scratch
        return Array(room.take(value.dtype, total), axes, tuple(base for base, _ in found), strides, own=own, ring=ring)

    def _own(self, name: str, axes: tuple[Node, ...]) -> bool:
        plans = self.ctx.sched.plans
        for reader, src in self.ctx.reads.get(name, ()):
            for a, i in zip(axes, src, strict=True):
                if not plans[a].shared:
                    continue
                if self.ctx.sched.elsewhere(reader, i) or i.op != "axis" or i.arg.family != a.arg.family:
                    return False
                theirs = self._read_plan(name, reader, i)
                if theirs is None or self._dealt(theirs) != self._dealt(plans[a]):
                    return False
                even = all(isinstance(p.extent, int) and p.extent % p.block == 0 for p in (plans[a], plans[i]))
                if not even and plans[i].block != plans[a].block:
                    return False
        return True

    def _read_plan(self, name: str, reader: Nest, axis: Node) -> AxisPlan | None:
        """How a nest that reads a value deals `axis` out; None where operands of a matrix instruction would come from other threads."""
        sched = self.ctx.sched
        t = sched.tensors.get(reader.name)
        if t is None or axis is not t.k:
            return sched.plans[axis]
        found = factors(reader.expr, t)
        if any(n.op == "ref" and n.arg == name for n in walk(found.b, *found.conds)):
            return None
        return operand_plans(sched, t, "a").get(axis)

    def _dealt(self, plan: AxisPlan) -> tuple[object, ...]:
        """Which of an axis' elements each thread of the group has."""
        if not plan.unit:
            return plan.dealt
        numbers = {v: t.stride for t in self.ctx.sched.threads for v in t.variables}
        return tuple((numbers[p.var], p.size, p.stride) for p in plan.parts if p.kind == "thread")

    def _local(self, scope: Scope, a: Node, own: bool) -> tuple[Node, int]:
        """(first index, padded count) of an axis under the open loops; with `own`, of one thread's elements."""
        plan = self.ctx.sched.plans[a]
        base, covered = const(0), None
        small = plan.squeezed if own else lambda stride: stride
        if plan.fold and plan.fold.name in scope.opened:
            base, covered = ix.add(base, plan.fold.var, small(plan.fold.stride)), small(plan.fold.stride)
        top = 1
        parts = [p for p in plan.parts if p.kind != "thread" or not own]
        for i, p in enumerate(parts):
            if i == 0:
                top = p.trips * small(p.stride)
            if p.name in scope.opened:
                base, covered = ix.add(base, p.var, small(p.stride)), small(p.stride)
        if not parts and not own:
            top = ix.upper(plan.extent)
        if covered is None and plan.fold:
            raise OptError(f"{a.arg.name}: a value over the folded axis is used outside its tile")
        return base, covered if covered is not None else max(1, top)

    def point(self, array: Array, nodes: tuple[Node, ...] | None = None) -> tuple[Node, ...]:
        """Indices into an array, over parts, of the axes `nodes` (its own axes if not given)."""
        plans, table = self.ctx.sched.plans, self.ctx.axis_index
        return tuple(plans[a].own if array.own and a.op == "axis" else table[a] for a in (array.axes if nodes is None else nodes))


DONE = axis("iterations.done", 1)
"""The index that stands for how many iterations a group has done in earlier work items."""


@dataclass(frozen=True, slots=True)
class BoxRoom:
    """The operands as boxes, by input; the place of each one's map in the Program; and the barriers of slots that are full and empty.
    `groups`: of a cluster; `shared`: operands of which each of them brings a part for all."""

    boxes: Mapping[str, BoxPlan]
    maps: Mapping[str, int]
    full: MBar
    empty: MBar
    groups: int = 1
    shared: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        """Slots."""
        return self.full.count
