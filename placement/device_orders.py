"""Which device takes which place of a plan, where some links are slower than others: a slow link lies best where nothing is sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from math import prod

Slow = Mapping[tuple[int, ...], float]
"""How many times as long a transfer takes: of a pair of devices (lower, higher) between them, of one device (number,) on all its links."""
Order = tuple[int, ...]
"""The device of each rank. The stages have the ranks one after the other, and each numbers its mesh row by row."""
MOST_ORDERS = 20_000
"""Orders that are looked at; two devices on slow links of 140 have fewer."""


@dataclass(frozen=True)
class SlowUse:
    """A slow link, how many times as long it takes, and where a plan uses it: '' where it does not."""

    devices: tuple[int, ...]
    times: float
    where: str


class DevicePlaces:
    """Devices in the places of a plan's stages, which have meshes of these shapes."""

    def __init__(self, shapes: Sequence[Sequence[int]], order: Order) -> None:
        self.shapes = shapes
        self._rank = {device: rank for rank, device in enumerate(order)}
        self._at = [(stage, k) for stage, shape in enumerate(shapes) for k in range(prod(shape))]

    def places(self, devices: Iterable[int]) -> list[tuple[int, int]]:
        """(stage, number in it) of those devices that the plan has."""
        return [self._at[self._rank[d]] for d in devices if d in self._rank]

    def axis(self, devices: Sequence[int]) -> tuple[int, list[int]]:
        """(stage, axes of its mesh) whose collectives go over the link of these devices."""
        places = self.places(devices)
        if len(places) < len(devices) or len({stage for stage, _ in places}) != 1:
            return 0, []
        stage = places[0][0]
        shape = self.shapes[stage]
        if len(places) == 1:
            return stage, [m for m, n in enumerate(shape) if n > 1]
        strides = [prod(shape[m + 1 :]) for m in range(len(shape))]
        unlike = [m for m, (step, n) in enumerate(zip(strides, shape)) if len({k // step % n for _, k in places}) > 1]
        return stage, unlike if len(unlike) == 1 else []

    def meshes(self, slow: Slow) -> tuple[tuple[float, ...], ...]:
        """How many times as long a collective takes over each axis of each stage."""
        found = [[1.0] * len(shape) for shape in self.shapes]
        for devices, times in slow.items():
            stage, axes = self.axis(devices)
            for m in axes:
                found[stage][m] = max(found[stage][m], times)
        return tuple(map(tuple, found))

    def sends(self, devices: Sequence[int], used: Mapping[tuple[int, int], set[tuple[int, int]]]) -> list[tuple[int, int]]:
        """Pairs of stages between which the link of these devices is used. `used`: by stages, the numbers of devices in them between which
        something is sent."""
        places = self.places(devices)
        if len(places) < len(devices):
            return []
        if len(places) == 1:
            ((stage, k),) = places
            return [(a, b) for (a, b), pairs in used.items() if any((stage, k) in ((a, i), (b, j)) for i, j in pairs)]
        (s, i), (t, j) = places
        return [pair for pair, at in (((s, t), (i, j)), ((t, s), (j, i))) if at in used.get(pair, ())]


def orders(devices: int, slow: Slow) -> Iterator[Order]:
    """Those that differ in where devices with slow links are, and the given order first."""
    unlike = sorted({d for of in slow for d in of if d < devices})
    alike = [d for d in range(devices) if d not in unlike]
    yield tuple(range(devices))
    for ranks in islice(permutations(range(devices), len(unlike)), MOST_ORDERS) if unlike else ():
        at, rest = dict(zip(ranks, unlike)), iter(alike)
        yield tuple(at[rank] if rank in at else next(rest) for rank in range(devices))


def best_orders(shapes: Sequence[Sequence[int]], slow: Slow) -> dict[tuple[tuple[float, ...], ...], list[Order]]:
    """By how many times as long collectives take (`DevicePlaces.meshes`), the orders with which they do; without those that others are never
    worse than."""
    found = defaultdict[tuple[tuple[float, ...], ...], list[Order]](list)
    for order in orders(sum(map(prod, shapes)), slow):
        found[DevicePlaces(shapes, order).meshes(slow)].append(order)

    def flat(times: tuple[tuple[float, ...], ...]) -> list[float]:
        return [x for stage in times for x in stage]

    def worse(a: list[float], b: list[float]) -> bool:
        return a != b and all(x >= y for x, y in zip(a, b))

    return {times: of for times, of in found.items() if not any(worse(flat(times), flat(other)) for other in found)}
