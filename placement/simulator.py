"""A pipeline schedule's time line, from the costs of its operations: makespan, idle time, transfers and memory of each stage. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from .errors import PlanError
from .pipeline_schedule import Block, PipelineCosts, PipelineSchedule, Place, StageOp

Transfer = Callable[[StageOp, Place, Place], float]
"""Seconds from the end of an operation at a place until its result is at the next place."""


@dataclass(frozen=True, slots=True)
class TimedBlock:
    """A block with its first and last second."""

    block: Block
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """When each stage does what. `rows`: the blocks of each stage, in order. Seconds and bytes."""

    schedule: PipelineSchedule
    costs: PipelineCosts
    rows: tuple[tuple[TimedBlock, ...], ...]

    @cached_property
    def makespan(self) -> float:
        """From the first start to the last end of all stages."""
        return max(row[-1].end for row in self.rows) - min(row[0].start for row in self.rows)

    @cached_property
    def spans(self) -> tuple[float, ...]:
        """From its first start to its last end, of each stage."""
        return tuple(row[-1].end - row[0].start for row in self.rows)

    @property
    def step(self) -> float:
        """Seconds from one step to the next, where stages do not wait for each other between steps: the longest span."""
        return max(self.spans)

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """Seconds that each stage computes."""
        return tuple(sum(b.end - b.start for b in row) for row in self.rows)

    @property
    def idle(self) -> tuple[float, ...]:
        """Seconds that each stage waits between its first start and the longest span's end."""
        return tuple(self.step - busy for busy in self.busy)

    @property
    def bubble(self) -> float:
        """The share of a step in which the stage with the least work is idle."""
        return max(self.idle) / self.step if self.step else 0.0

    @cached_property
    def memory(self) -> tuple[float, ...]:
        """Most bytes that each stage holds at once."""
        return tuple(max(level for _, level in self.stage_memory(stage)) for stage in range(len(self.rows)))

    @cached_property
    def in_flight(self) -> tuple[int, ...]:
        """Most pairs of microbatch and chunk that each stage holds activations of: from F until W."""
        most = []
        for order in self.schedule.orders:
            now = top = 0
            for block in order:
                now += any(op.kind == "F" for op in block)
                top = max(top, now)
                now -= sum(op.kind in ("W", "BW") for op in block)
            most.append(top)
        return tuple(most)

    def stage_memory(self, stage: int) -> Iterator[tuple[float, float]]:
        """(second, bytes held from then on) of a stage: activations, and what lies there always."""
        at = self.schedule.part_at
        part_of = {chunk: self.costs.parts[part] for (s, chunk), (_, part) in at.items() if s == stage}
        level = sum(part.fixed for part in part_of.values())
        yield 0.0, level
        for timed in self.rows[stage]:
            level += sum(part_of[op.chunk].held for op in timed.block if op.kind == "F")
            yield timed.start, level
            for op in timed.block:
                part = part_of[op.chunk]
                level += {"F": 0.0, "B": part.held_weight - part.held, "W": -part.held_weight, "BW": -part.held}[op.kind]
            yield timed.end, level


def simulate(schedule: PipelineSchedule, costs: PipelineCosts, transfer: Transfer | None = None) -> Timeline:
    """The time line of a schedule. `transfer`: in place of the costs' links. Raises PlanError where operations wait for
    each other, naming two, and where the costs are of another number of parts."""
    return _Simulation(schedule, costs, transfer).run()


class _Simulation:
    def __init__(self, schedule: PipelineSchedule, costs: PipelineCosts, transfer: Transfer | None) -> None:
        if len(costs.parts) != schedule.parts:
            raise PlanError(f"{schedule.name} has {schedule.parts} parts of the model, and there are costs of {len(costs.parts)}")
        self.schedule, self.costs = schedule, costs
        self._transfer = transfer
        self._done: dict[tuple[int, StageOp], float] = {}
        """When an operation's result is on the stage that needs it next."""
        self._link_free: dict[tuple[int, int], float] = {}

    def run(self) -> Timeline:
        orders = self.schedule.orders
        at, free = [0] * len(orders), [0.0] * len(orders)
        rows: list[list[TimedBlock]] = [[] for _ in orders]
        moved = True
        while moved:
            moved = False
            for stage, order in enumerate(orders):
                while at[stage] < len(order):
                    block = order[at[stage]]
                    ready = self._ready(stage, block)
                    if ready is None:
                        break
                    start = max(free[stage], ready)
                    free[stage] = end = start + self._seconds(stage, block)
                    rows[stage].append(TimedBlock(block, start, end))
                    for op in block:
                        self._arrive(stage, op, end)
                    at[stage] += 1
                    moved = True
        if any(k < len(order) for k, order in zip(at, orders)):
            raise PlanError(self._deadlock(at))
        return Timeline(self.schedule, self.costs, tuple(map(tuple, rows)))

    def _needs(self, stage: int, op: StageOp) -> Iterator[tuple[int, StageOp]]:
        """(stage, operation) of all that an operation waits for."""
        route, part = self.schedule.part_at[stage, op.chunk]
        places = self.schedule.routes[route]
        i = op.microbatch
        if op.kind == "F":
            if part:
                yield places[part - 1][0], StageOp("F", i, places[part - 1][1])
        elif op.kind == "W":
            yield stage, StageOp("B", i, op.chunk)
        else:
            yield stage, StageOp("F", i, op.chunk)
            if part + 1 < len(places):
                after, chunk = places[part + 1]
                yield after, StageOp("B", i, chunk)

    def _ready(self, stage: int, block: Block) -> float | None:
        """When all that a block needs is there; None while some of it has not run."""
        latest = 0.0
        for op in block:
            for source, needed in self._needs(stage, op):
                came = self._done.get((source, needed))
                if came is None:
                    return None
                if source != stage:  # what the stage made itself is there
                    latest = max(latest, came)
        return latest

    def _seconds(self, stage: int, block: Block) -> float:
        parts = [self.costs.parts[self.schedule.part_at[stage, op.chunk][1]] for op in block]
        pair = parts[0].pair if len(block) == 2 else None
        return sum(part.seconds(op.kind) for part, op in zip(parts, block)) if pair is None else pair

    def _arrive(self, stage: int, op: StageOp, end: float) -> None:
        """Note when the operation's result is where it is needed next."""
        route, part = self.schedule.part_at[stage, op.chunk]
        places = self.schedule.routes[route]
        following = part + 1 if op.kind == "F" else part - 1
        kind = "B" if op.kind == "BW" else op.kind
        came = end
        if op.kind != "W" and 0 <= following < len(places) and places[following][0] != stage:
            if self._transfer is not None:
                came = end + self._transfer(op, (stage, op.chunk), places[following])
            else:
                came = self._sent(stage, places[following][0], self.costs.parts[min(part, following)].sent, end)
        self._done[stage, StageOp(kind, op.microbatch, op.chunk)] = came

    def _sent(self, source: int, target: int, nbytes: float, ready: float) -> float:
        link = self.costs.between(source, target)
        start = max(ready, self._link_free.get((source, target), 0.0))
        self._link_free[source, target] = start + link.beta * nbytes
        return start + link.seconds(nbytes)

    def _deadlock(self, at: list[int]) -> str:
        """Two of the operations that wait for each other."""
        orders = self.schedule.orders
        stage = next(s for s, order in enumerate(orders) if at[s] < len(order))
        seen: dict[int, str] = {}
        while stage not in seen:
            block = orders[stage][at[stage]]
            source, needed = next((s, n) for op in block for s, n in self._needs(stage, op) if (s, n) not in self._done)
            head, there = "+".join(map(str, block)), orders[source][at[source]]
            seen[stage] = f"{head} on stage {stage} waits for {needed} on stage {source}"
            if source == stage:
                return f"{self.schedule.name} is in a wrong order: {seen[stage]}, which comes after it"
            if needed not in there:
                seen[stage] += f", which is behind {'+'.join(map(str, there))} there"
            stage = source
        circle = list(seen.values())[list(seen).index(stage) :]
        return f"{self.schedule.name} never ends: " + "; ".join(circle[:2]) + ("; and so on" if len(circle) > 2 else "")
