"""Single changes of a start schedule: what its rule did not think of, and both models know.

A rule gives schedules of one form, with a few numbers. From the best of them this goes on by steps: an axis gets copies in registers, an amount
is doubled or halved, an option is left out, as long as the estimate gets better (the coordinate descent of Inductor's and other tuners, but by
a model). The end is taken where what the Programs count is better as well: of 57 kernels with sizes drawn at random, it was 1.45 times as fast
in the mean where both models said 1.2 times, and no faster where the estimate alone did."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ...opts.analysis.structure import joins
from ...opts.neighbourhood import Neighbourhood
from ...opts.opt import Opts, opt
from ..machine import DEFAULT
from ..model.arithmetic import accumulators
from .trials import Trials

COPIES = 4
"""How many copies of an axis are tried first."""
STEP = 1.05
"""How many times as fast each step must be by the estimate."""
FASTER = 1.25
"""How many times as fast the end must be, by both models."""


def changed(trials: Trials, opts: Opts, most: int) -> Opts | None:
    """The schedule to which single changes lead from `opts`, of which each took at most so many estimates; None where it is not clearly
    faster."""
    at, asked = opts, {opts}
    step: Opts | None = opts
    while step is not None:
        at, step = step, None
        least = trials.seconds(at) / STEP
        for new in islice((o for o in _changes(trials, at) if o not in asked), most):
            asked.add(new)
            if not trials.is_legal(new) or trials.seconds(new) >= least:
                continue
            # (sums that have no register are charged too little: column sums 0.8)
            after = trials.apply(new)
            if all(accumulators(after, n, DEFAULT) <= after.target.registers for n in after.nests if n.kind == "reduce"):
                step, least = new, trials.seconds(new)
    if trials.seconds(at) * FASTER > trials.seconds(opts) or trials.counted(at) * FASTER > trials.counted(opts):
        return None
    return at


def _changes(trials: Trials, opts: Opts) -> Iterator[Opts]:
    """What is one change away from `opts`, legal or not."""
    amounts = {o.on for o in opts if o.op in ("UPCAST", "UNROLL")}
    place = next((i for i, o in enumerate(opts) if o.op in ("PARALLEL", "FUSE", "TILE", "REORDER")), len(opts))
    for name, sites in Neighbourhood(trials.apply(opts)).axes.items():
        if name not in amounts and not any(joins(trials.kernel, a) for a in sites):  # (all of the arrays would be read, under masks)
            yield (*opts[:place], opt("UPCAST", name, COPIES), *opts[place:])
    for i, o in enumerate(opts):
        if o.op in ("UPCAST", "UNROLL") and isinstance(o.arg, int):
            yield (*opts[:i], opt(o.op, o.on, 2 * o.arg), *opts[i + 1 :])
            if o.arg > 2:
                yield (*opts[:i], opt(o.op, o.on, o.arg // 2), *opts[i + 1 :])
    for i, o in enumerate(opts):
        if o.op != "PARALLEL":
            yield (*opts[:i], *opts[i + 1 :])
