"""The shortest step of a small pipeline under a limit of memory, by CP-SAT (OR-Tools): found and, given time, proven."""

from __future__ import annotations

import math
from typing import Any

from .errors import PlanError
from .list_schedule import ListProblem
from .simulator import Timeline

UNITS = 4000
"""Times are whole numbers in the model: exact where all are multiples of one, else rounded to this many in the longest operation."""
MEMORY_UNITS = 10_000

Orders = list[list[tuple[str, int, int]]]


def least_step(problem: ListProblem, seconds: float, hint: Timeline | None = None) -> tuple[Orders | None, float, bool]:
    """(the orders that were found, or None; seconds that no step is below; whether they are the best). `hint`: a schedule to begin with.
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
        return built.orders(solver), bound, status == cp_model.OPTIMAL and built.exact
    return None, 0.0, False


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
            ops = [(solver.value(self.at[kind, k, i]), "FBW".index(kind), kind, i, k) for kind, k, i in self._kinds if k in own]
            rows.append([(kind, i, k) for _, _, kind, i, k in sorted(ops)])
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
