"""What is split over devices: operations over named axes, and the arrays between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from .errors import PlanError

Dims = tuple[str, ...]
"""The axis of each dimension of an array; '' for a dimension that no single axis indexes."""


@dataclass(frozen=True)
class ShardArray:
    """`role`: 'input' (comes with each batch), 'boundary' (comes from the stage before; its gradient goes back), 'parameter' (stays; an update writes it), 'gradient' of a parameter (of all microbatches
    together), or 'made' by an operation. `kept`: it stays in memory until the backward pass."""

    name: str
    shape: tuple[int, ...]
    itemsize: int = 4
    role: str = "made"
    kept: bool = False

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.itemsize


@dataclass(frozen=True)
class ShardOp:
    """An operation. `axes`: extents. `reads` and `writes`: (array, the axis of each of its dimensions). Axes that it
    does not write are summed over. `whole`: axes that cannot be split, for the operation is no sum over them and no
    element is made alone. `flops`: of all of it. `state`: bytes that lie where its output lies: an optimiser's. `rule`: what it
    computes, where that is known: product, sum, loss, update, norm, attention, or the gradient of one."""

    name: str
    axes: Mapping[str, int]
    reads: tuple[tuple[str, Dims], ...]
    writes: tuple[str, Dims]
    flops: float = 0.0
    whole: frozenset[str] = frozenset()
    state: float = 0.0
    layer: int = 0
    backward: bool = False
    rule: str = ""

    @property
    def summed(self) -> frozenset[str]:
        return frozenset(self.axes) - set(self.writes[1])


def moved(op: ShardOp, local: Mapping[str, int]) -> float:
    """Bytes that an operation on float32 reads and writes at its local extents."""
    return 4.0 * sum(prod(local.get(axis, 1) for axis in dims) for _, dims in (*op.reads, op.writes))


@dataclass(frozen=True)
class ShardGraph:
    """A step of training, or a forward pass. Raises PlanError where an operation does not fit its arrays."""

    arrays: Mapping[str, ShardArray]
    ops: tuple[ShardOp, ...]
    sent_back: str = ""
    """The gradient of what the stage before sent."""

    def __post_init__(self) -> None:
        for op in self.ops:
            for name, dims in (*op.reads, op.writes):
                array = self.arrays.get(name)
                if array is None:
                    raise PlanError(f"{op.name} names an array {name} that is not there")
                sizes = tuple(op.axes.get(axis, size) for axis, size in zip(dims, array.shape))
                if len(dims) != len(array.shape) or sizes != array.shape:
                    raise PlanError(f"{op.name} takes {name} as {', '.join(dims)}, and its shape is {array.shape}")

    @cached_property
    def made_by(self) -> dict[str, ShardOp]:
        """The operation that makes each array first; a parameter's update is not its maker."""
        return {op.writes[0]: op for op in reversed(self.ops) if self.arrays[op.writes[0]].role in ("made", "gradient")}

    @cached_property
    def received(self) -> str:
        """What comes from the stage before; '' on the first."""
        return next((name for name, a in self.arrays.items() if a.role == "boundary"), "")

    @cached_property
    def loss(self) -> ShardOp | None:
        """What begins the backward pass, from the output; None where there is none."""
        return next((op for op in self.ops if op.rule == "loss"), None)

    def phase(self, op: ShardOp) -> str:
        """'update' of a parameter, 'weight' (the gradient of one), 'input' (another gradient), or 'forward'."""
        role = self.arrays[op.writes[0]].role
        return {"parameter": "update", "gradient": "weight"}.get(role, "input" if op.backward else "forward")

    def updates(self) -> Iterator[ShardOp]:
        """Operations that write parameters."""
        return (op for op in self.ops if self.arrays[op.writes[0]].role == "parameter")
