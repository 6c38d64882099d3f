"""Runs a phase with asynchronous copies, a cluster of groups at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.errors import BuildError, VerifyError
from ..ir.node import Node
from ..program.maps import MapNumbers, numbers
from ..program.program import Mem
from .boxes import BoxMover, aligned
from .cluster import Cluster
from .hopper_batch import HopperBatch
from .hopper_code import HopperCoder
from .hopper_memory import HopperMemory
from .memory import WorkerMemory


@dataclass(slots=True)
class HopperRun:
    """One phase. `scope`: what the code of every phase may call."""

    coder: HopperCoder
    memory: WorkerMemory
    phase: int
    warp: int
    races: bool
    scope: Mapping[str, Any]

    def run(self, order: Sequence[int], symbols: Mapping[Node, int]) -> None:
        """Run the groups with these grid indices, those of a cluster at once; clusters in the order of their first groups."""
        phase = self.coder.program.phases[self.phase]
        if len(order) % phase.cluster:
            raise VerifyError(f"{len(order)} groups are no whole number of clusters of {phase.cluster}")
        firsts = [i for i in order if i % phase.cluster == 0]
        backwards = len(order) > 1 and order[0] > order[-1]
        maps = self._maps(symbols)
        code = compile(self.coder.source, f"<program {self.coder.program.name}, asynchronous>", "exec")
        groups = [self._group(rank, maps, code) for rank in range(phase.cluster)]
        for first in firsts:
            items = [first + rank for rank in range(phase.cluster)]
            cluster = Cluster(self.coder.program, self.phase, items, phase.threads, self.memory.as_twin, backwards)
            for batch, own, boxes, function in groups:
                batch.enter(cluster)
                own.begin()
                cluster.add(self._whole(batch, own, boxes, function, tuple(symbols.values())), f"item {batch.items[0]}")
            cluster.run()

    @staticmethod
    def _whole(batch: HopperBatch, own: HopperMemory, boxes: BoxMover, function: Any, symbols: tuple[int, ...]) -> Any:
        yield from function(batch, boxes, batch.item, batch.thread, *symbols)
        own.copied.end()
        batch.finish()

    def _group(self, rank: int, maps: Sequence[MapNumbers], code: Any) -> tuple[HopperBatch, HopperMemory, BoxMover, Any]:
        """What the groups of this rank in their clusters run, and with what."""
        program = self.coder.program
        accesses = self.coder.accesses[self.phase]
        batch = HopperBatch(program, self.memory.clock, self.phase, program.phases[self.phase].threads, self.warp, rank)
        own = HopperMemory(self.memory, batch, [s for _, s in accesses], self.races)
        names = {**self.scope, **self.coder.globals}
        for name, s in accesses:
            names[name] = own.access(s)
        names["copies"] = own.copied
        exec(code, names)
        pieces = [own.piece(Mem("param", m.map.param, m.map.dtype)) for m in maps]
        return batch, own, BoxMover(batch, maps, pieces), names[f"hopper{self.phase}"]

    def _maps(self, symbols: Mapping[Node, int]) -> list[MapNumbers]:
        program, out = self.coder.program, []
        by_name = {s.arg.name: v for s, v in symbols.items()}
        for m in program.maps:
            name = program.params[m.param].name
            try:
                found = numbers(m, name, by_name)
            except BuildError as e:
                raise VerifyError(str(e)) from None
            aligned(self.memory.params[m.param].base, name)
            out.append(found)
        return out
