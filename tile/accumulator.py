"""What changes while a cell runs: tiles that are assigned to."""

from __future__ import annotations

from typing import Any

from ..ir.errors import KernelError
from ..ir.node import Node, axes_of, ref
from ..ir.operators import where
from .trace import Carried, LoopTrace, Trace
from .value import Tile, TileDim, aligned, as_tile, both, new_lane, relaned


class Accumulator(Tile):
    """A tile that `acc += x`, `acc *= x` and `acc[...] = x` change, in loops too. It keeps its shape and type."""

    __slots__ = ("_carried", "_first", "_over", "_trace")

    def __init__(self, first: Tile) -> None:
        own = relaned(Tile([TileDim(d.size, new_lane(d.size) if d.lane is None else d.lane, d.inside) for d in first.dims], first.node))
        super().__init__(own.dims, own.node)
        self._carried: list[tuple[Carried, tuple[TileDim, ...]]] = []
        self._over = ""

    @property
    def dims(self) -> tuple[TileDim, ...]:
        """The dimensions as they are now."""
        self._check()
        return self._dims

    @property
    def node(self) -> Node:
        """The element as it is now."""
        self._check()
        return self._node

    def _check(self) -> None:
        if self._over:
            raise KernelError(
                f"an accumulator that was made inside the loop over {self._over} is used after it: each step has its own. Make it before the loop"
            )

    # changes ----------------------------------------------------------------------------------------------------------
    def __setitem__(self, what: Any, value: Any) -> None:
        if what is not Ellipsis and what != slice(None):
            raise KernelError("an accumulator is assigned as a whole, acc[...] = x; where() keeps elements as they are")
        self._set(value)

    def _set(self, value: Any) -> None:
        new = as_tile(value)
        lanes = tuple(d.lane for d in self.dims)
        if new.ndim > self.ndim or any(n not in (1, m) for n, m in zip(new.shape[::-1], self.shape[::-1], strict=False)):
            raise KernelError(f"an accumulator of shape {list(self.shape)} cannot hold {new!r}")
        dims, (_, node) = aligned([Tile([TileDim(d.size, d.lane) for d in self.dims], self._node), new])
        if tuple(d.lane for d in dims) != lanes:
            raise KernelError(f"an accumulator of shape {list(self.shape)} cannot hold {new!r}")
        if node.dtype is not self._node.dtype:
            if isinstance(value, Tile):
                raise KernelError(
                    f"an accumulator of {self._node.dtype} cannot hold {node.dtype}; cast it, or make the accumulator with dtype"
                )
            node = as_tile(value).cast(self._node.dtype).node
        self._dims, self._node = dims, node

    def __iadd__(self, other: Any) -> Accumulator:
        self._set(self + other)
        return self

    def __isub__(self, other: Any) -> Accumulator:
        self._set(self - other)
        return self

    def __imul__(self, other: Any) -> Accumulator:
        self._set(self * other)
        return self

    def __itruediv__(self, other: Any) -> Accumulator:
        self._set(self / other)
        return self

    # loops ------------------------------------------------------------------------------------------------------------
    def enter(self, trace: Trace, loop: LoopTrace) -> None:
        """At the beginning of a step it is what the last step left."""
        lanes = tuple(d.lane for d in self._dims if d.lane is not None)
        c = Carried(lanes, self._dims, self._node, trace.fresh("\0b"), trace.fresh("\0e"))
        loop.carried.append(c)
        self._carried.append((c, self._dims))
        self._node = ref(c.before, lanes, self._node.dtype)

    def leave(self, trace: Trace, loop: LoopTrace) -> None:
        """After the loop it is what the last step of all left."""
        c, dims = self._carried.pop()
        before = ref(c.before, c.lanes, self._node.dtype)
        trace.gone[c.before] = loop.step.name
        if self._node is before:
            loop.carried.remove(c)
            trace.aliases[c.before] = (c.lanes, c.init)
            self._dims, self._node = dims, c.init
            return
        loops = {x.step.axis for x in trace.open} | {loop.step.axis}
        after: list[TileDim] = []
        for old, new in zip(dims, self._dims, strict=True):
            if new.inside is not None and axes_of(new.inside) & loops:
                # in a step some elements do not exist: they stay what they were
                self._node = where(new.inside, self._node, before)
                after.append(TileDim(old.size, old.lane, old.inside))
            else:
                after.append(TileDim(old.size, old.lane, both(old.inside, new.inside)))
        c.update = self._node
        self._dims, self._node = tuple(after), ref(c.after, c.lanes, self._node.dtype)

    def end(self, loop: str) -> None:
        """The loop in which it was made is over."""
        self._over = loop
