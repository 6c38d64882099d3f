"""What a user decides of a plan; the search decides the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .collectives import Mesh
from .errors import PlanError
from .shard_graph import ShardArray, ShardGraph, ShardOp
from .shardings import Layout, Sharding
from .zero import zero_stage

Allowed = Callable[[ShardOp | ShardArray, Sharding | Layout], bool]
"""Whether an operation may be split, or an array stored, so."""
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
