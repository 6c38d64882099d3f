"""What a search measures first: the seeds, and what the cache remembers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...ir.errors import OptError
from ...opts import apply
from ...opts.opt import parse
from ..start import Start
from .warm import related, stored

if TYPE_CHECKING:
    from ...cache import Cache
    from ..result import Job
    from ..space import Space
    from ..task import TuningTask

HOPELESS = 4.0
"""Start schedules that the model expects to be this many times slower than the best of them are left out, but for the first few."""
WORTH_A_LOOK_S = 2.0
"""An empty start schedule that the model expects to be slower than this is not measured: its one call would eat the budget."""


def starts_of(task: TuningTask, space: Space, cache: Cache, loose: Mapping[str, str], job: Job, seeds: str) -> list[Start]:
    """What is measured first: the seeds, and what the cache remembers of this kernel and its relatives."""
    if seeds == "none":
        empty = space.state(())
        return [Start(())] if empty is not None and empty.estimate < WORTH_A_LOOK_S else []
    guesses = [g for g in map(space.state, space.seeds()) if g is not None]
    fastest = min(g.estimate for g in guesses)
    # the list ends with schedules that always apply; those the model calls hopeless are not worth their time
    out = {g.opts: Start(g.opts) for i, g in enumerate(guesses) if (i < 4 and (i == 0 or g.opts)) or g.estimate < HOPELESS * fastest}
    if seeds != "auto":
        given = parse(seeds)
        if space.state(given) is None:
            apply(task.kernel, given, task.device.target)  # says why, unless it is for its effects
            raise OptError("the schedule to start from has an effect that is not allowed; see --allow")
        out.setdefault(given, Start(given, "stored"))
    for opts in (*stored(cache, task.key, task.canonical, space), *related(cache, task.key, task.canonical, space, loose, job)):
        out.setdefault(opts, Start(opts, "stored"))
    return list(out.values())
