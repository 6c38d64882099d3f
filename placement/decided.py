"""What a user decides of a plan; the search decides the rest. ZeRO's stages (arXiv 1910.02054) are placements of parameters, gradients and optimiser
state."""

from __future__ import annotations

from dataclasses import dataclass

from .collectives import Mesh
from .errors import PlanError
from .shard_graph import ShardArray, ShardGraph, ShardOp
from .shard_search import Allowed
from .shardings import Layout, Sharding


@dataclass(frozen=True)
class StatePlacement:
    """What is split over devices, each of which holds the rest whole."""

    state: bool = False
    gradients: bool = False
    parameters: bool = False

    def memory(self, n: int, parameters: float, gradients: float, state: float) -> float:
        """Bytes on each of `n` devices, of so many bytes in all."""
        parts = ((self.state, state), (self.gradients, gradients), (self.parameters, parameters))
        return sum(nbytes / n if split else nbytes for split, nbytes in parts)

    def sent(self, parameters: float) -> float:
        """Bytes of a step, in units of parameters, as the paper counts (a ring's (n - 1)/n is 1): gradients are added up and scattered, and
        parameters gathered after the update; those that are split are gathered in both passes instead."""
        return (3 if self.parameters else 2) * parameters


STAGES = (
    StatePlacement(),
    StatePlacement(state=True),
    StatePlacement(state=True, gradients=True),
    StatePlacement(state=True, gradients=True, parameters=True),
)


def zero_stage(k: int) -> StatePlacement:
    """ZeRO's stage 0 to 3. Raises PlanError."""
    if not 0 <= k < len(STAGES):
        raise PlanError(f"ZeRO has the stages 0 to 3, not {k}")
    return STAGES[k]


TENSOR = ("h", "o")
"""The axes that tensor parallelism splits: heads, and columns of the product after which rows are split (Megatron-LM, arXiv 1909.08053)."""


@dataclass(frozen=True)
class Decided:
    """None: the search decides. `chunks`: of the schedule `interleaved`. With `tensor` devices of each stage, the others have other rows of the
    batch; `zero`: what is split over those (ZeRO's stages, arXiv 1910.02054). Raises PlanError for stages that ZeRO does not have."""

    stages: int | None = None
    schedule: str | None = None
    microbatches: int | None = None
    chunks: int | None = None
    tensor: int | None = None
    zero: int | None = None

    def __post_init__(self) -> None:
        if self.zero is not None:
            zero_stage(self.zero)
            object.__setattr__(self, "tensor", self.tensor or 1)


FREE = Decided()
"""Nothing is decided."""


def as_decided(graph: ShardGraph, mesh: Mesh, decided: Decided) -> Allowed | None:
    """What the decisions allow; None where that is everything. A mesh has an axis of rows and one of tensor parallelism. Raises PlanError where the
    operations have no such axes."""
    if decided.tensor is None:
        return None
    if not any("b" in op.axes for op in graph.ops):
        raise PlanError("a tensor-parallel or ZeRO split is for models by name: the axes of a function's kernels have no such names")
    rows, across = (axis.n for axis in mesh)
    place = zero_stage(decided.zero or 0)

    def allowed(thing: ShardOp | ShardArray, option: Sharding | Layout) -> bool:
        if isinstance(thing, ShardArray):
            assert not isinstance(option, Sharding)
            return thing.role != "parameter" or decided.zero is None or rows == 1 or (option[0] >= 0) == place.parameters
        assert isinstance(option, Sharding)
        phase = graph.phase(thing)
        if phase == "update":
            return decided.zero is None or rows == 1 or (option.writes[0] >= 0) == place.state
        if "b" not in thing.axes:
            return True
        along = next((axis for axis in TENSOR if axis in thing.axes), "") if across > 1 else ""
        scattered = phase != "weight" or decided.zero is None or rows == 1 or (option.writes[0] >= 0) == place.gradients
        return option.split == ("b" if rows > 1 else "", along) and scattered

    return allowed
