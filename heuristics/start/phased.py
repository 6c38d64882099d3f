"""Start schedules of kernels that options make several phases of: each phase is a kernel, and has the start schedules of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from ...ir.kernel import Kernel
from ...opts.opt import Opts
from ..contraction_order import order_opts
from .legal import Trials

EACH = 3
"""Start schedules of a phase that are tried beside the first ones of the others."""

Starts = Callable[[Kernel], Sequence[Opts]]
"""A kernel → its start schedules, the likeliest first."""


def phase_starts(trials: Trials, starts: Starts) -> Iterator[Opts]:
    """Guesses with the sums in their cheapest order, if that is another than the one they are written in."""
    first = order_opts(trials.kernel)
    if first and trials.is_legal(first):
        yield from joined(trials, first, starts)


def joined(trials: Trials, first: Opts, starts: Starts) -> Iterator[Opts]:
    """The options `first`, which make phases, with the start schedules of each: the first of all, then another one of one phase."""
    each = [list(starts(p.kernel))[:EACH] for p in trials.apply(first).phases]
    best = [found[0] for found in each]
    yield together(first, best)
    for i, found in enumerate(each):
        yield from (together(first, [*best[:i], other, *best[i + 1 :]]) for other in found[1:])


def together(first: Opts, each: Sequence[Opts]) -> Opts:
    """One list of options for all phases."""
    return tuple(dict.fromkeys((*first, *chain.from_iterable(each))))
