"""From the devices of one stage to those of another: who sends which part of an array to whom, whatever meshes and layouts both have (cross-mesh
resharding, as in Alpa, arXiv 2201.12023, section 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from .shard_search import ShardPlan
from .shardings import Layout

Box = tuple[tuple[int, int], ...]
"""The first and the end of a piece in each dimension."""


@dataclass(frozen=True)
class Placed:
    """A layout over a mesh of this shape."""

    layout: Layout
    mesh: tuple[int, ...]

    def boxes(self, shape: Sequence[int]) -> list[Box]:
        """The piece of each device. Of two axes that split one dimension, the first is the outer one."""
        found = []
        for at in product(*map(range, self.mesh)):
            box = [(0, size) for size in shape]
            for k, n, dim in zip(at, self.mesh, self.layout):
                if dim >= 0:
                    size = (box[dim][1] - box[dim][0]) // n
                    box[dim] = (box[dim][0] + k * size, box[dim][0] + (k + 1) * size)
            found.append(tuple(box))
        return found


@dataclass(frozen=True)
class Transfer:
    """The `box` of an array goes from a device of one mesh to a device of another."""

    source: int
    target: int
    box: Box


@dataclass(frozen=True)
class Crossing:
    """An array of this shape goes from one stage to another: how it lies there and here, and who sends what."""

    shape: tuple[int, ...]
    itemsize: int
    source: Placed
    target: Placed
    transfers: tuple[Transfer, ...]

    @property
    def most(self) -> int:
        """Bytes that the busiest device sends or receives."""
        sent: Counter[tuple[str, int]] = Counter()
        for t in self.transfers:
            for end in (("from", t.source), ("to", t.target)):
                sent[end] += self.itemsize * prod(b - a for a, b in t.box)
        return max(sent.values())


def crossing(source: ShardPlan, target: ShardPlan, ahead: bool) -> Crossing:
    """What a part of the model sends to the one after it (`ahead`), or the gradient that it sends to the one before."""
    first, second = (source, target) if ahead else (target, source)
    assert first.graph.loss is not None
    name, gradient = first.graph.loss.reads[0][0], first.graph.loss.writes[0]
    made, taken = (name, second.graph.received) if ahead else (second.graph.sent_back, gradient)
    ends = [Placed(plan.layout(x), plan.shape) for plan, x in ((source, made), (target, taken))]
    array = first.graph.arrays[name]
    return Crossing(array.shape, array.itemsize, ends[0], ends[1], tuple(transfers(array.shape, *ends)))


def within(box: Box, piece: Box) -> tuple[slice, ...]:
    """Where a box lies in a piece that holds it."""
    return tuple(slice(a - start, b - start) for (a, b), (start, _) in zip(box, piece))


def transfers(shape: Sequence[int], source: Placed, target: Placed) -> list[Transfer]:
    """What is sent so that each target has its piece, once. Of sources with the same piece the one with the target's number sends, else they take
    turns."""
    owners: dict[Box, list[int]] = {}
    for device, box in enumerate(source.boxes(shape)):
        owners.setdefault(box, []).append(device)
    found = []
    for device, wanted in enumerate(target.boxes(shape)):
        for box, having in owners.items():
            common = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, wanted))
            if all(a < b for a, b in common):
                found.append(Transfer(device if device in having else having[device % len(having)], device, common))
    return found
