"""What a run does: the parts of a model, each split over the devices of its stage, in the order of a pipeline schedule."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import prod

from ..captured_graph import OpKernel
from ..errors import PlanError
from ..pipeline_schedule import PipelineSchedule
from ..shard_search import ShardPlan

FAULTS = ("swapped-chunk", "missing-all-reduce", "stale-gather")
"""Mistakes that a run can be told to make, to see them caught."""


@dataclass(frozen=True)
class PlannedRun:
    """A plan that is carried out. `parts`: how each part of the model is split over the devices of its stage, first part to last; `whole`: the same
    model on one device. Raises PlanError where the parts of one stage have unlike meshes."""

    parts: tuple[ShardPlan, ...]
    whole: ShardPlan
    schedule: PipelineSchedule
    dtype: str = "int64"
    steps: int = 2
    seed: int = 0
    fault: str = ""
    kernels: Mapping[str, OpKernel] = field(default_factory=dict)
    """Of a function of tensors, by operation."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Of arrays that are not of `dtype`."""

    def __post_init__(self) -> None:
        if len(self.parts) != self.schedule.parts:
            raise PlanError(f"{self.schedule.name} has {self.schedule.parts} parts of the model, and {len(self.parts)} are planned")
        for (stage, _), (_, part) in self.schedule.part_at.items():
            if self.shapes[stage] != (mine := self.parts[part].shape):
                raise PlanError(f"the parts of stage {stage} lie on meshes of {self.shapes[stage]} and {mine}")

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The mesh of each stage."""
        found = {stage: self.parts[part].shape for (stage, _), (_, part) in self.schedule.part_at.items()}
        return tuple(found[stage] for stage in range(self.schedule.stages))

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first rank of each stage."""
        return (0, *accumulate(map(prod, self.shapes[:-1])))

    @property
    def ranks(self) -> int:
        return sum(map(prod, self.shapes))

    @property
    def name(self) -> str:
        """Such as `zb-v, 4 microbatches, stages of 2, 2 devices`."""
        stages = ", ".join(" x ".join(map(str, shape)) for shape in self.shapes)
        return f"{self.schedule.name}, {self.schedule.microbatches} microbatches, stages of {stages} devices, {self.dtype}"

    def packed(self) -> str:
        """As text, for the processes of a run."""
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def unpacked(text: str) -> PlannedRun:
        """What `packed` of the process that started this one made."""
        found = pickle.loads(base64.b64decode(text))
        assert isinstance(found, PlannedRun)
        return found
