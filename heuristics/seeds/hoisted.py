"""Seeds of kernels in which something that takes long is used again and again: it is computed once, by a phase of its own (`HOIST`), or
summed there (`DISTRIBUTE`). And of those in which rows are gone through again for a sum over them (`ACCUMULATE`),
or all keys for each place (`SCATTER`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from ...ir.kernel import Kernel
from ...ir.keyed import keyed
from ...ir.node import walk
from ...ir.op_names import DEAR
from ...opts.analysis.accumulated import accumulable
from ...opts.opt import Opts, opt
from ...opts.options.distribute import splits
from ...opts.options.hoist import hoistable
from ..model import estimate
from .kept import kept
from .legal import Trials
from .phased import Seeds, joined
from .program_time import ruler

REUSED = 4
"""How often something is used at least, so that writing it and reading it again takes less time than computing it."""
BETTER = 0.9
"""How much of the first seed's time a schedule that hoists takes at most, to come before it."""
ABOUT, BETTER_BY_BOTH = 1.2, 0.75
"""How much of it the estimate may say where Programs are counted, and how much the geometric mean of both then."""


def hoisted(
    trials: Trials, threads: int, found: Iterable[Opts], seeds: Seeds, most: int | None = None, part: bool = False, counted: bool = False
) -> Iterator[Opts]:
    """`found`, and up to `most` schedules that hoist: before the first one where the model takes them to be faster, else after it. `part`:
    this is one of the kernels of such a schedule, of which no more phases are made for values that are kept. `counted`: of the likeliest
    whose estimate is no more than about that of the first one, its Program is asked as well."""
    firsts = [
        first for first in (two_sums(trials), hoists(trials), *(() if part else kept(trials)), pushes(trials), by_keys(trials)) if first
    ]
    if not firsts:
        yield from found
        return
    wishes = chain.from_iterable(islice(joined(trials, first, seeds), most) for first in firsts)
    times = {o: estimate(trials.apply(o), threads) for w in wishes if (o := trials.legal(w)) is not None}
    rest = iter(found)
    head = next(rest, ())
    alone = trials.legal(head)
    limit = BETTER * estimate(trials.apply(alone), threads) if alone is not None else 0.0
    ranked = sorted(times, key=lambda o: (times[o], str(o)))
    before = [o for o in ranked if times[o] < limit]
    if counted and alone is not None and ranked and limit <= times[ranked[0]] < ABOUT / BETTER * limit:
        asked = ruler(trials, threads)
        before = ranked[:1] if asked(ranked[0]) < BETTER_BY_BOTH * asked(alone) else []
    yield from before
    yield head
    yield from (o for o in ranked if o not in before)
    yield from rest


def two_sums(trials: Trials) -> Opts:
    """Options that distribute sums of which a part that takes long is over fewer axes; none where there are none."""
    if trials.target.kind == "gpu" or trials.target.groups:
        return ()
    dear = [name for name, s in splits(trials.kernel).items() if any(n.op in DEAR for n in walk(s.factor))]
    first = tuple(opt("DISTRIBUTE", name) for name in dear)
    return first if first and trials.is_legal(first) else ()


def pushes(trials: Trials) -> Opts:
    """Options that add up sums over rows in memory. (What is left has seeds of its own, with those that cannot.)"""
    return _together(trials, "ACCUMULATE", accumulable)


def by_keys(trials: Trials) -> Opts:
    """Options that add up sums at the places that keys say."""
    return _together(trials, "SCATTER", keyed)


def _together(trials: Trials, op: str, found: Callable[[Kernel], Iterable[str]]) -> Opts:
    """An option for each value that is found: as many as can be together."""
    if trials.target.kind == "gpu" or trials.target.groups:
        return ()
    out: Opts = ()
    for name in found(trials.kernel):
        if trials.is_legal((*out, opt(op, name))):
            out = (*out, opt(op, name))
    return out


def hoists(trials: Trials) -> Opts:
    """Options that take out everything that is used often; none where nothing is."""
    if trials.target.kind == "gpu" or trials.target.groups:
        return ()
    found = hoistable(trials.kernel)
    first = tuple(opt("HOIST", name) for name, parts in found.items() if any(x.reuse >= REUSED for x in parts))
    return first if first and trials.is_legal(first) else ()
