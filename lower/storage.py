"""Where values live between nests: SSA registers, or arrays in scratch (or in the output they end up in)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..ir import index as ix
from ..ir.dtypes import DType
from ..ir.node import Node, const
from ..opts.axis_plan import Part
from ..opts.plans import RollPlan
from ..program.program import Mem, Val

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


def linear_index(indices: Iterable[Node], strides: Iterable[int | Node]) -> Node:
    """Σ index·stride, in elements."""
    out = const(0)
    for i, stride in zip(indices, strides, strict=True):
        out = ix.add(out, i, stride) if isinstance(stride, int) else ix.add(out, ix.mul(i, stride))
    return out
