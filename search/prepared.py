"""What a search of a task needs: the measurer of its candidates, and the recorder of its measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..cache.objectives import TIME
from ..cache.rows import OBJECTIVE
from .aims import Aim
from .budget import Budget
from .record import CacheRecorder

if TYPE_CHECKING:
    from ..cache import Cache
    from ..measure import Measurer
    from .result import Job
    from .space import Space
    from .task import TuningTask


def measurer_of(task: TuningTask, budget: Budget, seed: int, hashed: bool, builders: int | None = None) -> Measurer:
    """What measures a task's candidates. One endless loop must not cost the whole budget."""
    from ..measure import Measurer

    deadline = 10.0 if budget.seconds is None else min(10.0, max(2.0, budget.seconds / 6))
    told: dict[str, Any] = {"seed": seed, "vars": task.vars, "deadline_s": deadline, "hash_outputs": hashed, "reference": task.reference}
    told["energy"] = Aim(task.key.objective).energy
    return Measurer(task.kernel, task.device, task.threads, builders=builders, **told)


def recorder_of(task: TuningTask, cache: Cache, space: Space, job: Job, facts: Mapping[str, Any] | None = None) -> CacheRecorder:
    """What writes a task's measurements into a cache. `facts`: more provenance of each row."""
    from ..ir.canonical import loose

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
    )
