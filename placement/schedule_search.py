"""Searching for a pipeline schedule under a limit of memory: exact where it is small, else list
scheduling, and local search over its rules."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from .errors import PlanError
from .handcrafted import applicable
from .list_schedule import FixedOrder, ListProblem, ListScheduler, StageRules, periodic
from .pipeline_schedule import PipelineCosts, one_way, v_shaped
from .simulator import Timeline, simulate

LAYOUTS = {"one-way": one_way, "v": v_shaped}
GIVE_UP = 2000
"""Orders that are tried before none is said to fit into the memory."""
EXACT_OPERATIONS = 100
"""Up to so many operations the exact search is tried."""


@dataclass(frozen=True)
class FoundSchedule:
    """`line`: the schedule with its times. `bound`: seconds that no schedule's step is below. `proven`: nothing is
    faster. `tried`: schedules that were simulated or scheduled."""

    line: Timeline
    bound: float
    proven: bool
    tried: int
    seconds: float

    @property
    def gap(self) -> float:
        """How much faster a schedule might be, as a share of the bound."""
        return 0.0 if self.proven or not self.bound else self.line.step / self.bound - 1


def search_schedule(
    stages: int,
    microbatches: int,
    costs: PipelineCosts,
    memory: float = float("inf"),
    layout: str = "one-way",
    seconds: float = 5.0,
    exact: bool | None = None,
    seed: int = 0,
) -> FoundSchedule:
    """The schedule with the shortest step that is found. `memory`: bytes a stage may hold. `layout`: one part of the
    model a stage, or two as a V. `exact`: None tries CP-SAT where the problem is small and OR-Tools are installed.
    Raises PlanError where nothing fits, with the least memory that would."""
    began = time.perf_counter()
    if layout not in LAYOUTS:
        raise PlanError(f"there is no layout {layout!r}; there are {', '.join(LAYOUTS)}")
    problem = ListProblem(microbatches, LAYOUTS[layout](stages), costs, memory)
    least = problem.least_memory()
    if least > memory * (1 + 1e-9):
        raise PlanError(f"no schedule fits into a memory of {memory:.4g} a stage: one microbatch alone takes {least:.4g}")
    small = 3 * microbatches * len(problem.route) <= EXACT_OPERATIONS
    if exact is None:
        exact = small and find_spec("ortools") is not None
    search = _LocalSearch(problem, 0.3 * seconds if exact else seconds, random.Random(seed))
    best = search.run()
    for schedule in applicable(problem.stages, problem.microbatches, problem.route):
        line = simulate(schedule, costs)
        search.tried += 1
        if max(line.memory) <= memory * (1 + 1e-9) and (best is None or line.step < best.step):
            best = line
    bound = problem.bound()
    if exact:
        left = seconds - (time.perf_counter() - began)
        orders, proven = least_step(problem, max(left, 0.1), best)
        bound = max(bound, proven)
        if orders is not None:
            line = simulate(problem.schedule("searched", orders), costs)
            if max(line.memory) <= memory * (1 + 1e-9) and (best is None or line.step < best.step):
                best = line
    if best is None:
        raise PlanError(
            f"no schedule was found that fits into a memory of {memory:.4g} a stage; {least:.4g} is the least that could; give more"
        )
    return FoundSchedule(best, min(bound, best.step), best.step <= bound * (1 + 1e-9), search.tried, time.perf_counter() - began)


def _first_rules(problem: ListProblem) -> Iterator[StageRules]:
    parts = problem.costs.parts
    f, w = max(x.forward for x in parts), max(x.weight for x in parts)
    for ahead in (0.0, 0.1, 0.4, 0.7, 1.0):
        for backward_first in (False, True):
            for deep in (True, False) if len(parts) > problem.stages else (True,):
                yield StageRules(ahead * f, 0.0, None, backward_first, deep)
    for wait in (0.25, 0.5, 1.0):
        for late in (None, 0, 2):
            yield StageRules(0.0, wait * w, late, True)
            yield StageRules(0.4 * f, wait * w, late, False)


def _first_orders(problem: ListProblem) -> Iterator[FixedOrder]:
    """The orders of forward and backward passes in the literature's schedules over the same parts."""
    part = {place: k for k, place in enumerate(problem.route)}
    for schedule in applicable(problem.stages, problem.microbatches, problem.route):
        kinds = [[(op.kind[0], part[stage, op.chunk]) for (op,) in order if op.kind != "W"] for stage, order in enumerate(schedule.orders)]
        yield kinds


class _LocalSearch:
    """List scheduling by uniform rules, and W in the gaps of known orders; then the best is changed a stage, or several, at a time."""

    def __init__(self, problem: ListProblem, seconds: float, draw: random.Random) -> None:
        self.problem, self._draw, self.tried = problem, draw, 0
        self._end, self._bound = time.perf_counter() + seconds, problem.bound() * (1 + 1e-9)
        self._chunks = 1 + max(chunk for _, chunk in problem.route)
        self._best: tuple[float, list[StageRules], FixedOrder | None, ListScheduler] | None = None

    def run(self) -> Timeline | None:
        """The time line of the best that was found before the time was over; None where all ended in a deadlock."""
        p, w = self.problem.stages, max(x.weight for x in self.problem.costs.parts)
        for rules in _first_rules(self.problem):
            if not self._over():
                self._offer([rules] * p, None)
        if self._chunks > 1:
            for order in _first_orders(self.problem):
                for wait, level in ((0.0, False), (0.5, False), (0.9, False), (1.0, False), (1.0, True)):
                    self._offer([StageRules(wait=wait * w, level=level)] * p, order)
        while not self._over() and (self._best is not None or self.tried < GIVE_UP):
            if self._best is None or (self._chunks > 1 and self._draw.random() < 0.3):
                late = self._draw.choice((None, 1, 3))
                self._offer([StageRules(wait=self._draw.choice((0.0, 0.5, 1.0)) * w, late=late)] * p, self._periodic())
            else:
                self._offer(self._changed(self._best[1]), self._best[2])
        if self._best is None:
            return None
        return simulate(self.problem.schedule("searched", self._best[3].orders), self.problem.costs)

    def _over(self) -> bool:
        return self._best is not None and (self._best[0] <= self._bound or time.perf_counter() > self._end)

    def _offer(self, rules: list[StageRules], order: FixedOrder | None) -> None:
        found = ListScheduler(self.problem, rules, order)
        self.tried += 1
        if found.step < float("inf") and (self._best is None or found.step <= self._best[0]):
            self._best = found.step, rules, order, found

    def _periodic(self) -> FixedOrder:
        """A block that is repeated, with offsets drawn at random; short ones keep few microbatches in flight."""
        parts, draw = self.problem.costs.parts, self._draw
        go = max((self.problem.transfer(k) for k in range(len(parts) - 1)), default=0.0)
        f, b = max(x.forward for x in parts) + go, max(x.input for x in parts) + go
        stretch = [draw.choice((1, 1, 1.25, 1.5, 2, 2, 2.5, 3, 4)) for _ in range(2 * self._chunks)]
        period = max(
            sum(sum((parts[k].forward, parts[k].input, parts[k].weight)) for k in self.problem.parts_of(s))
            for s in range(self.problem.stages)
        )
        gaps = [draw.randrange(5) * f for _ in range(3)]
        return periodic(self.problem, [x * f for x in stretch[: self._chunks]], [x * b for x in stretch[self._chunks :]], period, gaps)

    def _changed(self, rules: list[StageRules]) -> list[StageRules]:
        """The same with one rule changed, on one stage, on this and all after it, on this and all before it, or on all."""
        draw, part = self._draw, self._draw.choice(self.problem.costs.parts)
        change: dict[str, Any] = draw.choice(
            (
                {"ahead": draw.uniform(-0.1, 1.2) * part.forward},
                {"wait": draw.uniform(0.0, 2.0) * part.weight},
                {"drain": draw.uniform(0.0, 3.0) * part.weight},
                {"late": draw.choice((None, 0, 1, 2, 3, 4, 6, 8, 12, self.problem.stages))},
                {"backward_first": draw.random() < 0.5},
                {"level": draw.random() < 0.5},
                *([{"deep": draw.random() < 0.5}] if self._chunks > 1 else []),
            )
        )
        at = draw.randrange(len(rules))
        which = draw.choice((range(at, at + 1), range(at, len(rules)), range(at + 1), range(len(rules))))
        return [replace(r, **change) if k in which else r for k, r in enumerate(rules)]


# exact schedule -------------------------------------------------------------------------------------------------------
# The shortest step of a small pipeline under a limit of memory, by CP-SAT (OR-Tools): found and, given time, proven.


UNITS = 4000
"""Times are whole numbers in the model: exact where all are multiples of one, else rounded to this many in the longest operation."""
MEMORY_UNITS = 10_000

Orders = list[list[tuple[str, int, int]]]


def least_step(problem: ListProblem, seconds: float, hint: Timeline | None = None) -> tuple[Orders | None, float]:
    """(the orders that were found, or None; seconds that no step is below). `hint`: a schedule to begin with.
    Raises PlanError where OR-Tools are missing."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise PlanError("the exact search needs OR-Tools: pip install 'tilewright[plans-exact]'") from None
    built = _ExactModel(cp_model, problem, hint)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 1
    solver.parameters.random_seed = 0
    status = solver.solve(built.model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        bound = solver.best_objective_bound * built.unit if built.exact else 0.0
        return built.orders(solver), bound
    return None, 0.0


class _ExactModel:
    """The variables: a start for each operation. Microbatches are alike, so each kind runs in their order on each part."""

    def __init__(self, cp: Any, problem: ListProblem, hint: Timeline | None) -> None:
        self.problem, self.model = problem, cp.CpModel()
        n, m, parts = len(problem.route), problem.microbatches, problem.costs.parts
        go, come = [problem.transfer(k) for k in range(n - 1)], [problem.back(k) for k in range(n - 1)]
        self.unit, self.exact = _unit([*go, *come, *(x for part in parts for x in (part.forward, part.input, part.weight))])
        self._cost = [{"F": self._int(x.forward), "B": self._int(x.input), "W": self._int(x.weight)} for x in parts]
        horizon = sum(sum(c.values()) for c in self._cost) * (m + 2) + sum(map(self._int, (*go, *come)))
        self._kinds = [(kind, k, i) for kind in "FBW" for k in range(n) for i in range(m)]
        self.at = {op: self.model.new_int_var(0, horizon, "{}{}.{}".format(*op)) for op in self._kinds}
        for k in range(n):
            self._one_part(k, [self._int(x) for x in go], [self._int(x) for x in come])
        for stage in range(problem.stages):
            self._one_stage(stage, horizon)
        longest = self.model.new_int_var(0, horizon, "longest")
        for stage in range(problem.stages):
            for k in problem.parts_of(stage):
                for kind in "BW":
                    end = self.at[kind, k, m - 1] + self._cost[k][kind]
                    self.model.add(longest >= end - self.at["F", problem.parts_of(stage)[0], 0])
        self.model.minimize(longest)
        if hint is not None and not any(len(b.block) > 1 or b.block[0].kind == "BW" for row in hint.rows for b in row):
            for stage, row in enumerate(hint.rows):
                for b in row:
                    op = b.block[0]
                    k = problem.route.index((stage, op.chunk))
                    self.model.add_hint(self.at[op.kind, k, op.microbatch], self._int(b.start))

    def _int(self, x: float) -> int:
        return round(x / self.unit)

    def _one_part(self, k: int, go: list[int], come: list[int]) -> None:
        at, cost, add = self.at, self._cost, self.model.add
        for i in range(self.problem.microbatches):
            for kind in "FBW":
                if i:
                    add(at[kind, k, i] >= at[kind, k, i - 1] + cost[k][kind])
            if k:
                add(at["F", k, i] >= at["F", k - 1, i] + cost[k - 1]["F"] + go[k - 1])
                add(at["B", k - 1, i] >= at["B", k, i] + cost[k]["B"] + come[k - 1])
            add(at["B", k, i] >= at["F", k, i] + cost[k]["F"])
            add(at["W", k, i] >= at["B", k, i] + cost[k]["B"])

    def _one_stage(self, stage: int, horizon: int) -> None:
        own, parts, model = self.problem.parts_of(stage), self.problem.costs.parts, self.model
        fixed_size = model.new_fixed_size_interval_var
        ops = [(kind, k, i) for kind, k, i in self._kinds if k in own]
        model.add_no_overlap([fixed_size(self.at[op], self._cost[op[1]][op[0]], "") for op in ops])
        room = self.problem.memory - sum(parts[k].fixed for k in own)
        if math.isinf(room):
            return
        held, sizes = [], []
        for k in own:
            for i in range(self.problem.microbatches):
                b_end = self.at["B", k, i] + self._cost[k]["B"]
                w_end = self.at["W", k, i] + self._cost[k]["W"]
                for start, end, size in (
                    (self.at["F", k, i], b_end, parts[k].held),
                    (b_end, w_end, parts[k].held_weight),
                ):
                    length = model.new_int_var(0, horizon, "")
                    held.append(model.new_interval_var(start, length, end, ""))
                    sizes.append(math.ceil(size / room * MEMORY_UNITS - 1e-6))
        model.add_cumulative(held, sizes, MEMORY_UNITS)

    def orders(self, solver: Any) -> Orders:
        """What each stage does, by start."""
        rows: Orders = []
        for stage in range(self.problem.stages):
            own = self.problem.parts_of(stage)
            ops = [(solver.value(self.at[op]), self._cost[op[1]][op[0]] > 0, "FBW".index(op[0]), op) for op in self._kinds if op[1] in own]
            rows.append([(kind, i, k) for *_, (kind, k, i) in sorted(ops)])  # what takes no time comes first, and frees memory
        return rows


def _unit(times: list[float]) -> tuple[float, bool]:
    """(seconds of a unit, whether all times are whole numbers of it)."""
    some = [x for x in times if x > 0]
    if not some:
        return 1.0, True
    for parts in (1, 2, 5, 10, 100, 1000):
        unit = min(some) / parts
        if all(abs(x / unit - round(x / unit)) < 1e-6 for x in some) and max(some) / unit <= UNITS * 100:
            return unit, True
    return max(some) / UNITS, False
