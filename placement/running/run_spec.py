"""What a run does: a chain of layers, cut into stages, split over tensor- and data-parallel ranks, in the order of a pipeline schedule."""

from __future__ import annotations

import base64
import pickle
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..captured_graph import OpKernel
from ..collectives import devices
from ..errors import PlanError
from ..handcrafted import SCHEDULES, generate
from ..pipeline_schedule import PipelineSchedule
from ..shard_search import ShardPlan
from ..zero import zero_stage

FAULTS = ("", "swapped-chunk", "missing-all-reduce", "stale-gather")
"""Mistakes that a run can be told to make, to see them caught."""
DTYPES = ("int64", "float32", "float64")


@dataclass(frozen=True)
class RunSpec:
    """`layers` of (hidden, inner) and (inner, hidden) weights; `batch` rows a microbatch and data-parallel rank. Ranks:
    stages x tensor x data. `zero`: what is split over data-parallel ranks. Raises PlanError for what cannot be split
    so."""

    stages: int = 1
    tensor: int = 1
    data: int = 1
    schedule: str = "1f1b"
    microbatches: int = 4
    zero: int = 0
    layers: int = 4
    hidden: int = 8
    inner: int = 16
    batch: int = 4
    dtype: str = "int64"
    steps: int = 2
    seed: int = 0
    fault: str = ""

    def __post_init__(self) -> None:
        zero_stage(self.zero)
        if self.dtype not in DTYPES or self.fault not in FAULTS:
            raise PlanError(
                f"there is no {self.dtype} or {self.fault!r}; there are {', '.join(DTYPES)}, and the faults {', '.join(FAULTS[1:])}"
            )
        counts = (self.stages, self.tensor, self.data, self.microbatches, self.layers, self.hidden, self.inner, self.batch, self.steps)
        if min(counts) < 1:
            raise PlanError("a run has one of everything at least")
        if self.inner % self.tensor:
            raise PlanError(f"{self.inner} columns cannot be split over {self.tensor} tensor-parallel ranks")
        parts = self.pipeline().parts
        if self.layers < parts:
            raise PlanError(f"{self.layers} layers cannot be cut into {parts} parts: {parts} layers at least, or fewer stages")

    @property
    def ranks(self) -> int:
        return self.stages * self.tensor * self.data

    def pipeline(self) -> PipelineSchedule:
        return generate(self.schedule, self.stages, self.microbatches)

    def layers_of(self, part: int) -> range:
        """The layers of a part of the model: the first parts have one more where they do not divide."""
        parts = self.pipeline().parts
        each, more = divmod(self.layers, parts)
        start = part * each + min(part, more)
        return range(start, start + each + (part < more))

    def place(self, rank: int) -> tuple[int, int, int]:
        """(stage, tensor-parallel index, data-parallel index) of a rank."""
        return rank // (self.tensor * self.data), rank // self.data % self.tensor, rank % self.data

    def rank(self, stage: int, tensor: int, data: int) -> int:
        return (stage * self.tensor + tensor) * self.data + data

    @property
    def name(self) -> str:
        split = f"{self.stages} stages x {self.tensor} tensor x {self.data} data"
        return f"{split}, {self.schedule}, {self.microbatches} microbatches, ZeRO-{self.zero}, {self.dtype}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def drawn(ranks: int, draw: random.Random, dtype: str = "int64") -> RunSpec:
    """A random small run of so many ranks."""
    while True:
        stages = draw.choice([s for s in range(1, ranks + 1) if ranks % s == 0])
        tensor = draw.choice([t for t in range(1, ranks // stages + 1) if ranks // stages % t == 0])
        try:
            return RunSpec(
                stages,
                tensor,
                ranks // stages // tensor,
                draw.choice(sorted(SCHEDULES)),
                draw.choice((1, 2, 4, 6, 8, 12)),
                draw.randrange(4),
                draw.randrange(1, 10),
                draw.randrange(1, 9),
                tensor * draw.randrange(1, 6),
                draw.randrange(1, 5),
                dtype,
                seed=draw.randrange(1 << 30),
            )
        except PlanError:  # numbers that this schedule does not take: draw again
            continue


@dataclass(frozen=True)
class PlannedRun:
    """A plan that is carried out. `stages`: how each is split; `whole`: the same model on one device. `microbatches`: of a step."""

    stages: tuple[ShardPlan, ...]
    whole: ShardPlan
    schedule: PipelineSchedule
    microbatches: int
    dtype: str = "int64"
    steps: int = 2
    seed: int = 0
    fault: str = ""
    kernels: Mapping[str, OpKernel] = field(default_factory=dict)
    """Of a function of tensors, by operation."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Of arrays that are not of `dtype`."""

    @property
    def ranks(self) -> int:
        return len(self.stages) * devices(self.stages[0].mesh)

    def packed(self) -> str:
        """As text, for the processes of a run."""
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def unpacked(text: str) -> PlannedRun:
        """What `packed` of the process that started this one made."""
        found = pickle.loads(base64.b64decode(text))
        assert isinstance(found, PlannedRun)
        return found
