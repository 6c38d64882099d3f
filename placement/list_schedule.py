"""A pipeline schedule by list scheduling: each stage, when it is free, takes what its rules prefer of what has arrived
and fits in memory."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from math import prod

from .pipeline_schedule import PipelineCosts, PipelineSchedule, Place, StageOp, made

# device orders --------------------------------------------------------------------------------------------------------
#
# Which device takes which place of a plan, where some links are slower than others: a slow link lies best where
# nothing is sent.


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


# list schedule --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageRules:
    """How a stage chooses. `ahead`: seconds by which a forward pass may delay the first backward pass that could come.
    `wait`: it waits for a pass that comes within so many seconds rather than begin a W. `late`: W that it may put off
    while passes are ready (None: any number). `drain`: in the place of `wait`, once it has no forward passes left.
    `backward_first`: of a ready F and a ready B it takes B; else they take turns. `deep`: of several chunks it takes
    the one nearest to the model's end first. `level`: it begins a W rather than be idle for longer than any stage has been so far (as the heuristic of
    Zero Bubble's ZB-V, arXiv 2401.10241)."""

    ahead: float = 0.0
    wait: float = 0.0
    late: int | None = None
    backward_first: bool = False
    deep: bool = True
    drain: float | None = None
    level: bool = False


@dataclass(frozen=True)
class ListProblem:
    """What is scheduled: `microbatches` over `route` (where the parts lie) with these costs, and `memory` bytes a stage (infinite: no
    limit)."""

    microbatches: int
    route: tuple[Place, ...]
    costs: PipelineCosts
    memory: float

    @property
    def stages(self) -> int:
        return 1 + max(stage for stage, _ in self.route)

    def parts_of(self, stage: int) -> list[int]:
        """Parts of the model on a stage, in the model's order."""
        return [k for k, (s, _) in enumerate(self.route) if s == stage]

    def transfer(self, k: int) -> float:
        """Seconds from part k to part k + 1."""
        (a, _), (b, _) = self.route[k], self.route[k + 1]
        return 0.0 if a == b else self.costs.between(a, b).seconds(self.costs.parts[k].sent)

    def back(self, k: int) -> float:
        """Seconds from part k + 1 back to part k."""
        (a, _), (b, _) = self.route[k], self.route[k + 1]
        return 0.0 if a == b else self.costs.between(b, a).seconds(self.costs.parts[k].sent)

    def earliest(self) -> tuple[list[float], list[float]]:
        """When the first forward and the first backward pass of each part can start, at best."""
        parts, forward, backward = self.costs.parts, [0.0], [0.0] * len(self.route)
        for k in range(len(self.route) - 1):
            forward.append(forward[k] + parts[k].forward + self.transfer(k))
        backward[-1] = forward[-1] + parts[-1].forward
        for k in reversed(range(len(self.route) - 1)):
            backward[k] = backward[k + 1] + parts[k + 1].input + self.back(k)
        return forward, backward

    def least_memory(self) -> float:
        """Bytes without which no schedule can run: a microbatch in each chunk of a stage."""
        parts = self.costs.parts
        stages = [[parts[k] for k in self.parts_of(s)] for s in range(self.stages)]
        return max(sum(part.fixed + max(part.held, part.held_weight) for part in own) for own in stages)

    def schedule(self, name: str, orders: Sequence[Sequence[tuple[str, int, int]]]) -> PipelineSchedule:
        """The schedule of rows of (kind, microbatch, part)."""
        rows = [[StageOp(kind, i, self.route[k][1]) for kind, i, k in row] for row in orders]
        return made(name, [self.route], [0] * self.microbatches, rows)

    def bound(self) -> float:
        """Seconds that no schedule's longest span is below: the work of a stage, and the time until its first backward pass can come that
        no forward passes fill, for they need memory."""
        parts, (forward, backward) = self.costs.parts, self.earliest()
        most = 0.0
        for stage in range(self.stages):
            own = self.parts_of(stage)
            work = self.microbatches * sum(parts[k].forward + parts[k].input + parts[k].weight for k in own)
            fixed = sum(parts[k].fixed for k in own)
            gap = min(backward[k] for k in own) - forward[own[0]]
            most = max(most, work + max(0.0, gap - self._fill(own, self.memory - fixed)))
        return most

    def _fill(self, own: Sequence[int], room: float) -> float:
        """Most seconds of forward passes that fit before any backward pass."""
        best = [(self.costs.parts[k].forward, self.costs.parts[k].held) for k in own]
        if any(held <= 0 for _, held in best) or math.isinf(room):
            return self.microbatches * sum(f for f, _ in best)
        return min(self.microbatches * sum(f for f, _ in best), max(f / held for f, held in best) * room)


FixedOrder = list[list[tuple[str, int]]]
"""(kind, part) of the forward and backward passes of each stage, in order."""


def periodic(
    problem: ListProblem, forward: Sequence[float], backward: Sequence[float], period: float, gaps: Sequence[float] = (0.0, 0.0, 0.0)
) -> FixedOrder:
    """The order of a block that is repeated for each microbatch, every `period` seconds (as the schedules of
    controllable memory, arXiv 2405.15362): `forward` and `backward` are the seconds from a stage's pass to the next
    stage's, for each chunk, and `gaps` those that a microbatch waits where its forward passes turn to the other chunk,
    where they end, and where its backward passes turn. What a stage holds is what lies between its forward and its
    backward pass, over the period."""
    n, parts = len(problem.route), problem.costs.parts
    chunk = [c for _, c in problem.route]
    starts, ends = [0.0], [0.0] * n
    for k in range(n - 1):
        turn = problem.route[k][0] == problem.route[k + 1][0]
        starts.append(starts[k] + (parts[k].forward + gaps[0] if turn else forward[chunk[k]]))
    ends[-1] = starts[-1] + parts[-1].forward + gaps[1]
    for k in reversed(range(n - 1)):
        turn = problem.route[k][0] == problem.route[k + 1][0]
        ends[k] = ends[k + 1] + (parts[k + 1].input + gaps[2] if turn else backward[chunk[k]])
    orders: FixedOrder = []
    for stage in range(problem.stages):
        own = problem.parts_of(stage)
        ops = [(at[k] + i * period, kind, k) for kind, at in (("F", starts), ("B", ends)) for k in own for i in range(problem.microbatches)]
        orders.append([(kind, k) for _, kind, k in sorted(ops)])
    return orders


class ListScheduler:
    """One run. `orders` afterwards: rows of (kind, microbatch, part) of each stage; `step`: the longest span in
    seconds, infinite where the rules end in a deadlock for memory. Transfers do not wait for each other here; the
    simulator has the last word."""

    def __init__(self, problem: ListProblem, rules: Sequence[StageRules], fixed: FixedOrder | None = None) -> None:
        self._rules, self._fixed, self._at = rules, fixed, [0] * problem.stages
        n, p, parts = len(problem.route), problem.stages, problem.costs.parts
        self._m, self._stage = problem.microbatches, [s for s, _ in problem.route]
        self._own = [problem.parts_of(s) for s in range(p)]
        self._cost = [(x.forward, x.input, x.weight) for x in parts]
        self._held = [(x.held, x.held_weight) for x in parts]
        self._go = [*(problem.transfer(k) for k in range(n - 1)), 0.0]
        self._come = [0.0, *(problem.back(k) for k in range(n - 1))]
        self._forward: list[list[float]] = [[] for _ in range(n)]
        self._backward: list[list[float]] = [[] for _ in range(n)]
        self._forward[0] = [0.0] * self._m
        self._done = [[0, 0, 0] for _ in range(n)]
        """Forward, input and weight passes of each part so far."""
        self._room = [problem.memory - sum(parts[k].fixed for k in own) for own in self._own]
        slack = 1e-9 * problem.memory if math.isfinite(problem.memory) else 0.0
        self._room = [room + slack for room in self._room]
        _, backward = problem.earliest()
        self._first = [min(backward[k] for k in own) for own in self._own]
        self._last = [""] * p
        self._free, self._idle = [0.0] * p, [0.0] * p
        self.orders: list[list[tuple[str, int, int]]] = [[] for _ in range(p)]
        self.step = self._run()

    def _run(self) -> float:
        p = len(self.orders)
        heap, free = [(0.0, r) for r in range(p)], self._free
        start, left = [-1.0] * p, 3 * self._m * len(self._stage)
        while heap:
            now, r = heapq.heappop(heap)
            if free[r] > now:
                continue
            kind, k, soon = self._choice(r, now) if self._fixed is None else self._next(r, now)
            if not kind:
                if soon < math.inf:
                    heapq.heappush(heap, (soon, r))
                continue
            if start[r] < 0:
                start[r] = now
            else:
                self._idle[r] += now - free[r]
            end = free[r] = now + self._cost[k]["FBW".index(kind)]
            self._finish(r, kind, k, end, heap)
            left -= 1
            heapq.heappush(heap, (end, r))
        return math.inf if left else max(e - s for s, e in zip(start, free))

    def _choice(self, r: int, now: float) -> tuple[str, int, float]:
        """(kind, part, _) of what the stage does now; ('', _, when to ask again) where it waits."""
        rules, own, m, soon = self._rules[r], self._own[r], self._m, math.inf
        f = b = w = -1
        late, begun = 0, False
        deeper = 0.0
        for k in reversed(own):
            forward, inputs, weights = self._done[k]
            late += inputs - weights
            begun = begun or inputs > 0
            if weights < inputs and w < 0:
                w = k
            if inputs < forward and inputs < len(self._backward[k]):
                came = self._backward[k][inputs]
                if came > now:
                    soon = min(soon, came)
                elif b < 0:
                    b = k
            if forward < m and forward < len(self._forward[k]) and self._held[k][0] + deeper <= self._room[r]:
                came = self._forward[k][forward]
                if came > now:
                    soon = min(soon, came)
                elif f < 0 or not rules.deep:
                    f = k
            deeper += self._held[k][0] if forward < m else 0.0
        if f >= 0 and b < 0 and not begun and now < self._first[r] < now + self._cost[f][0] - rules.ahead:
            f, soon = -1, min(soon, self._first[r])
        if w >= 0 and rules.late is not None and late > rules.late:
            return "W", w, soon
        if b >= 0 and (f < 0 or rules.backward_first or self._last[r] != "B"):
            return "B", b, soon
        if f >= 0:
            return "F", f, soon
        if w >= 0 and self._fills(r, now, soon):
            return "W", w, soon
        return "", -1, soon

    def _next(self, r: int, now: float) -> tuple[str, int, float]:
        """The same, where the order of forward and backward passes is given: W fill what it leaves."""
        assert self._fixed is not None
        own, rules, order = self._own[r], self._rules[r], self._fixed[r]
        late = sum(self._done[k][1] - self._done[k][2] for k in own)
        w = next((k for k in reversed(own) if self._done[k][2] < self._done[k][1]), -1)
        soon = math.inf
        if self._at[r] < len(order):
            kind, k = order[self._at[r]]
            came = self._forward[k] if kind == "F" else self._backward[k]
            i = self._done[k]["FB".index(kind)]
            if i < len(came) and (kind == "B" or self._held[k][0] <= self._room[r]):
                soon = came[i]
            if soon <= now and (w < 0 or rules.late is None or late <= rules.late):
                self._at[r] += 1
                return kind, k, soon
        if w >= 0 and (soon <= now or self._fills(r, now, soon)):
            return "W", w, soon
        return "", -1, soon

    def _fills(self, r: int, now: float, soon: float) -> bool:
        """Whether the stage begins a W rather than wait for what comes `soon`."""
        rules = self._rules[r]
        drains = rules.drain is not None and all(self._done[k][0] == self._m for k in self._own[r])
        if soon - now >= (rules.drain if drains and rules.drain is not None else rules.wait):
            return True
        return rules.level and self._idle[r] + soon - self._free[r] > max(self._idle)

    def _finish(self, r: int, kind: str, k: int, end: float, heap: list[tuple[float, int]]) -> None:
        which = "FBW".index(kind)
        self.orders[r].append((kind, self._done[k][which], k))
        self._done[k][which] += 1
        held, held_weight = self._held[k]
        if kind == "W":
            self._room[r] += held_weight
            return
        self._last[r] = kind
        self._room[r] -= held if kind == "F" else held_weight - held
        last = len(self._stage) - 1
        if kind == "F" and k == last:
            self._backward[k].append(end)
            return
        to = k + 1 if kind == "F" else k - 1
        if to < 0:
            return
        came = end + (self._go[k] if kind == "F" else self._come[k])
        (self._forward if kind == "F" else self._backward)[to].append(came)
        if self._stage[to] != r:
            heapq.heappush(heap, (came, self._stage[to]))
