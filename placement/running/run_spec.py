"""What a run does: the parts of a model, each split over the devices of its stage, in the order of a pipeline schedule; and what
the process of a rank does."""

from __future__ import annotations

import base64
import json
import os
import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

from ..captured_graph import OpKernel
from ..errors import PlanError
from ..pipeline_schedule import PipelineSchedule
from ..shard_search import ShardPlan
from . import ranks
from .ranks import Ranks

# rank -----------------------------------------------------------------------------------------------------------------
#
# What the process of a rank does, started by the launcher: FOLDER/asked.json says what; each rank writes where it is
# into FOLDER/at.RANK, and rank 0 the results into FOLDER/results.json.


WIDTH = 160


class Whereabouts:
    """The file in which a rank says what it is doing: whoever started it reads that when it dies."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._fd = os.open(folder / f"at.{rank}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._pid = os.getpid()

    def say(self, what: str) -> None:
        os.pwrite(self._fd, f"{self._pid} {what}"[:WIDTH].ljust(WIDTH).encode(), 0)


def as_rank(folder: Path, backend: str, carry_out: Callable[[dict[str, Any], Ranks, Whereabouts], Any]) -> int:
    """What each rank's process does: `carry_out` what the folder asks for, and rank 0 writes what it returns."""
    watched = _watch(folder)
    world = ranks.world(backend)
    at = Whereabouts(folder, world.rank)
    try:
        at.say("begins")
        results = carry_out(json.loads((folder / "asked.json").read_text()), world, at)
        if world.rank == 0:
            (folder / "results.json").write_text(json.dumps(results))
        at.say("done")
        os.write(watched, b".")
        return 0
    except Exception as e:
        at.say(f"failed: {type(e).__name__}: {e}")
        time.sleep(world.patience)
        _note_end(folder, os.getpid())
        os.write(watched, b".")
        traceback.print_exc()
        world.end()
        return 1


def _watch(folder: Path) -> int:
    """A small process that notes when this one is killed: mpiexec ends all ranks when one is gone, and its own account of which was first is not
    to be relied on. Returns where to write a byte before an orderly end."""
    rank, (read, write) = os.getpid(), os.pipe()
    if os.fork():
        os.close(read)
        return write
    os.setsid()  # mpiexec's signals are for the rank
    os.closerange(0, read)
    os.closerange(read + 1, 1024)
    if not os.read(read, 1):
        _note_end(folder, rank)
    os._exit(0)


def _note_end(folder: Path, process: int) -> None:
    """When a rank failed or was killed: the first one is at fault, for the others then miss it."""
    (folder / f"killed.{process}").write_text(str(time.monotonic_ns()))


# run spec -------------------------------------------------------------------------------------------------------------

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
        """A name such as `zb-v, 4 microbatches, stages of 2, 2 devices`."""
        stages = ", ".join(" x ".join(map(str, shape)) for shape in self.shapes)
        return f"{self.schedule.name}, {self.schedule.microbatches} microbatches, stages of {stages} devices, {self.dtype}"

    def packed(self) -> str:
        """The specification as text, for the processes of a run."""
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def unpacked(text: str) -> PlannedRun:
        """What `packed` of the process that started this one made."""
        found = pickle.loads(base64.b64decode(text))
        assert isinstance(found, PlannedRun)
        return found
