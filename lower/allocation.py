"""Gives values that are kept a place: scratch of the worker or thread, or memory that the threads of a group share."""

from __future__ import annotations

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.kernel import Value
from ..ir.node import Node, const
from ..opts.axis_plan import Part
from ..opts.nests import Nest
from ..opts.schedule import Scheduled
from .storage import Arena, Array, row_major


class Rooms:
    """The part of a Lowering that hands out arrays."""

    sched: Scheduled
    opened: dict[str, Part]
    arena: Arena
    shared: Arena
    axis_index: dict[Node, Node]
    reads: dict[str, list[tuple[Nest, tuple[Node, ...]]]]
    inner: dict[str, int]

    def array(self, value: Value, axes: tuple[Node, ...]) -> Array:
        """Room for the part of a value that the open loops do not fix. Elements of several threads go to shared memory, unless
        every reader wants just what its own thread made."""
        spread = any(self.sched.plans[a].threads > 1 for a in axes)
        own = spread and self._own(value.name, axes)
        sizes, bases = [], []
        for a in axes:
            base, size = self.local(a, own)
            bases.append(base)
            sizes.append(size)
        inner = self.inner.get(value.name, len(axes) - 1)
        order = [*(d for d in range(len(axes)) if d != inner), inner] if axes else []
        dims = [sizes[d] for d in order]
        if dims:
            lanes = 64 // max(1, value.dtype.size)
            dims[-1] = -(-dims[-1] // lanes) * lanes if dims[-1] >= lanes else dims[-1]
        by_place = row_major(tuple(dims))
        strides = tuple(by_place[order.index(d)] for d in range(len(axes)))
        total = 1
        for d in dims:
            total *= d
        room = self.shared if spread and not own else self.arena
        return Array(room.take(value.dtype, total), axes, tuple(bases), strides, own=own)

    def _own(self, name: str, axes: tuple[Node, ...]) -> bool:
        plans = self.sched.plans
        for _, src in self.reads.get(name, ()):
            for a, i in zip(axes, src):
                if plans[a].threads == 1:
                    continue
                if i.op != "axis" or i.arg.family != a.arg.family or (plans[i].threads, plans[i].vector) != (plans[a].threads, plans[a].vector):
                    return False
                even = all(isinstance(p.extent, int) and p.extent % p.block == 0 for p in (plans[a], plans[i]))
                if not even and plans[i].block != plans[a].block:
                    return False
        return True

    def local(self, a: Node, own: bool = False) -> tuple[Node, int]:
        """(first index, padded count) of an axis under the open loops; with `own`, of one thread's elements."""
        plan = self.sched.plans[a]
        base, covered = const(0), None
        small = plan.squeezed if own else lambda stride: stride
        if plan.fold and plan.fold.name in self.opened:
            base, covered = ix.add(base, plan.fold.var, small(plan.fold.stride)), small(plan.fold.stride)
        top = 1
        parts = [p for p in plan.parts if p.kind != "thread" or not own]
        for i, p in enumerate(parts):
            if i == 0:
                top = p.trips * small(p.stride)
            if p.name in self.opened:
                base, covered = ix.add(base, p.var, small(p.stride)), small(p.stride)
        if not parts and not own:
            top = plan.extent if isinstance(plan.extent, int) else ix.bounds(plan.extent)[1]
        if covered is None and plan.fold:
            raise OptError(f"{a.arg.name}: a value over the folded axis is used outside its tile")
        return base, covered if covered is not None else max(1, top)

    def point(self, array: Array, nodes: tuple[Node, ...] | None = None) -> tuple[Node, ...]:
        """Indices into an array, over parts, of the axes `nodes` (its own axes if not given)."""
        plans = self.sched.plans
        return tuple(plans[a].own if array.own and a.op == "axis" else self.axis_index[a] for a in (array.axes if nodes is None else nodes))
