"""Which points of a nest exist: how loads and stores keep inside the extents of axes whose register copies, or threads, reach past them."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.node import Node, const
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ..indices import Indices
from ..lowering import Lowering
from ..part_index import PartTable
from ..storage import Array, Assignment


class Bounds(Indices):
    """The part of a NestEval that knows the masks."""

    def __init__(self, low: Lowering, nest: Nest, vectors: Vectors) -> None:
        super().__init__(low, nest, vectors)
        self._bounds()

    def _bounds(self) -> None:
        """How loads keep inside the extents of masked axes, now that the lanes are known."""
        s = self.low.sched
        masked = [a for a in self.nest.all_axes if self.low.masked(a)]
        self.lane_masked = next((a for a in masked if self.lane is not None and a is self.lane.axis), None)
        self.scalar_masked = [a for a in masked if a is not self.lane_masked]
        # loads clamp masked axes to a valid element: what they then compute is never stored
        self._clamp = {a: ix.minmax("min", s.plans[a].index, ix.add(size(s.plans[a].extent), const(-1))) for a in self.scalar_masked}
        self._index = PartTable({**self.low.ctx.axis_index, **self._clamp}) if self._clamp else self.low.ctx.axis_index

    def bound(self, axis: Node) -> Node:
        """`axis < extent` over parts, where register copies can reach past it."""
        plan = self.low.sched.plans[axis]
        return ix.compare("lt", plan.index, size(plan.extent))

    def nowhere(self, conds: Sequence[Node], asg: Assignment) -> bool:
        """Whether nothing has to be done for a point, because one of some conditions is known to be false. (What a
        nest fills on its way, others read in whole vectors.)"""
        return not self.nest.fills and any(not any(t) for t in self._known(conds, asg))

    def missing(self, conds: Sequence[Node], asg: Assignment) -> set[int]:
        """The lanes that have no point, because one of some conditions is known to be false there: their places may lie outside."""
        return {i for t in self._known(conds, asg) for i in range(self.width) if not t[i % len(t)]}

    def undecided(self, conds: Sequence[Node], asg: Assignment) -> list[Node]:
        """Those of some conditions of which nobody knows before the code runs where they hold: lanes that are not `missing` have the rest."""
        return [c for c in conds if self._truth(c, asg) is None]

    def _known(self, conds: Sequence[Node], asg: Assignment) -> list[tuple[bool, ...]]:
        """In which lanes conditions hold (or once, where that is the same in all), of those that are known before anything runs."""
        return [t for c in conds if (t := self._truth(c, asg)) is not None]

    def _truth(self, c: Node, asg: Assignment) -> tuple[bool, ...] | None:
        return self.truths(c.op, c.src[0], c.src[1], asg) if c.op == "lt" and c.src[0].dtype is index else None

    def conditions(self, over: tuple[Node, ...] | None = None) -> list[Node]:
        """What must hold for the nest's point over some of its axes (the spatial ones if not given) to exist, where
        register copies or threads reach past an extent, and for this thread to be the one that stores it."""
        over = self.nest.axes if over is None else over
        axes = [a for a in (self.lane_masked, *self.scalar_masked) if a is not None and a in over]
        return [self.bound(a) for a in axes] + self.one_thread(over)

    def guards(self, array: Array, axes: tuple[Node, ...]) -> list[Node]:
        """What must hold for this thread to write its points over `axes` to an array."""
        if array.param:
            return self.conditions(axes)
        return self.one_thread(axes) if array.mem.space == "shared" else []

    def one_thread(self, axes: tuple[Node, ...]) -> list[Node]:
        """Threads that differ only along axes which are not among `axes` compute the same points: the first of them acts."""
        mine = self.low.sched.shared_by(axes)
        return [ix.compare("lt", t.var, const(1)) for t in self.low.sched.threads if t not in mine]


def size(extent: int | Node) -> Node:
    """An extent as an index."""
    return const(extent) if isinstance(extent, int) else extent
