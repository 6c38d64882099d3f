"""What the Program of a schedule takes, by the counted model."""

from __future__ import annotations

import math

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
    return found


def _count(trials: Trials, threads: int, opts: Opts) -> tuple[float, int]:
    from ...lower import lower

    try:
        program = lower(trials.apply(opts))
    except OptError:
        return math.inf, 0
    return of_program(program, trials.target, threads), sum(1 for p in program.phases for _ in statements(p.body))


def by_both(trials: Trials, threads: int, opts: Opts) -> float:
    """Seconds by the estimate and by what the Program counts, as a geometric mean: the two seldom fail together."""
    return math.sqrt(estimate(trials.apply(opts), threads) * count(trials, threads, opts)[0])
