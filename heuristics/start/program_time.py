"""What the Program of a schedule takes, by the counted model."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.errors import OptError
from ...opts.opt import Opts
from ...program.program import statements
from ..counted import of_program
from ..model import estimate
from .legal import Trials


def count(trials: Trials, threads: int, opts: Opts) -> tuple[float, int]:
    """(seconds by the counted model, instructions); what cannot be lowered takes for ever."""
    found = trials.counts.get((threads, opts))
    if found is None:
        found = trials.counts[threads, opts] = _count(trials, threads, opts)
        trials.room[0] -= found[1]
    return found


def _count(trials: Trials, threads: int, opts: Opts) -> tuple[float, int]:
    from ...lower import lower

    try:
        program = lower(trials.apply(opts))
    except OptError:
        return math.inf, 0
    return of_program(program, trials.target, threads), sum(1 for p in program.phases for _ in statements(p.body))


def ruler(trials: Trials, threads: int) -> Callable[[Opts], float]:
    """Seconds by which schedules are compared: by the estimate and by what the Program counts, as a geometric mean (the two seldom fail
    together), or by the estimate alone where enough was counted."""

    def estimated(opts: Opts) -> float:
        return estimate(trials.apply(opts), threads)

    def by_both(opts: Opts) -> float:
        return math.sqrt(estimated(opts) * count(trials, threads, opts)[0])

    return by_both if trials.room[0] > 0 else estimated
