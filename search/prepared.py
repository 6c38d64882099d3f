"""What a search of a task needs: the measurer of its candidates, and the recorder of its measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..cache.objectives import TIME
from ..cache.rows import OBJECTIVE
from .aims import Aim
from .budget import Budget
from .remembered.record import LAST_PATIENCE_S, CacheRecorder

if TYPE_CHECKING:
    from ..cache import Cache
    from ..measure import Measurer
    from .builds.pipeline import MeasurerLike
    from .result import Job
    from .space import Space
    from .task import TuningTask


BUILD_S = 30.0
"""Seconds that a build may take where there is no limit on all."""
Measuring = Callable[["TuningTask", Budget, int, bool], AbstractContextManager["MeasurerLike"]]
"""What makes a measurer of (task, budget, seed of the inputs, whether outputs are hashed)."""


def deadline_s(budget: Budget) -> float:
    """Seconds that a call of a candidate may take: one endless loop must not cost the whole budget."""
    return 10.0 if budget.seconds is None else min(10.0, max(2.0, budget.seconds / 6))


def build_deadline_s(budget: Budget) -> float:
    """Seconds that a build may take: a third of the budget, within 5 s and what the largest kernels need."""
    return BUILD_S if budget.seconds is None else min(BUILD_S, max(5.0, budget.seconds / 3))


def begin_helpers() -> bool:
    """Start the process that forks a measurer's helpers: it has imports of its own to do while this one does its. Whether that has
    begun only now."""
    from ..measure.processes import process

    return process.begin()


def measurer_of(task: TuningTask, budget: Budget, seed: int, hashed: bool, builders: int | None = None) -> Measurer:
    """What measures a task's candidates, here."""
    from ..measure import Measurer

    told: dict[str, Any] = {"seed": seed, "vars": task.vars, "hash_outputs": hashed, "reference": task.reference}
    told["deadline_s"], told["build_deadline_s"] = deadline_s(budget), build_deadline_s(budget)
    told["energy"] = Aim(task.key.objective).energy
    return Measurer(task.kernel, task.device, task.threads, builders=builders, **told)


def recorder_of(
    task: TuningTask, cache: Cache, space: Space, job: Job, facts: Mapping[str, Any] | None = None, last_s: float = LAST_PATIENCE_S
) -> CacheRecorder:
    """What writes a task's measurements into a cache. `facts`: more provenance of each row; `last_s`: seconds that the last write may wait."""
    from ..ir.normal_form.canonical import loose

    roof = task.roofline()
    return CacheRecorder(
        cache,
        task.key,
        task.canonical,
        loose(task.kernel),
        job,
        effects=lambda o: frozenset(space.engine.apply(o).effects),
        provenance={
            "machine": task.device.fingerprint(),
            "seed": job.seed,
            **({"vars": task.vars} if task.vars else {}),
            **({"roofline": roof.facts} if roof else {}),
            **({OBJECTIVE: task.key.objective} if task.key.objective != TIME else {}),
            **(facts or {}),
        },
        earlier={row.opts for row in cache.answers(task.key)},
        last_s=min(last_s, LAST_PATIENCE_S),
    )
