"""Start schedules for kernels that ask where an extreme is: the search for the place joins the loop of the extreme (`opts.analysis.places`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from ...ir.kernel import Kernel
from ...opts.analysis.places import place_of
from ...opts.nests import Nest, plain
from ...opts.opt import Opts, opt
from ...targets import Target
from ..model import estimate
from .legal import Trials


def places(kernel: Kernel, target: Target) -> dict[str, str]:
    """The axes over which some place and its extreme are searched, each with the family that both are in."""
    if target.kind == "gpu" or target.groups:
        return {}
    found: dict[str, str] = {}
    seen: list[Nest] = []
    for n in plain(kernel):
        if isinstance(n, Nest):
            extreme = next((m for m in seen if place_of(n, m) is not None), None)
            if extreme is not None and n.reduce_axes[0].arg.family == extreme.reduce_axes[0].arg.family:
                found |= {a.arg.name: str(a.arg.family) for a in (*extreme.reduce_axes, *n.reduce_axes)}
            seen.append(n)
    return found


MOST = 4
"""Schedules that are tried with places joined."""


def joined_places(trials: Trials, threads: int, found: Iterable[Opts]) -> Iterator[Opts]:
    """Schedules, after those like the first few of them in which places join their extremes, where the model thinks that quicker."""
    joins = places(trials.kernel, trials.target)
    rest = iter(found)
    head = list(islice(rest, MOST)) if joins else []
    quicker: dict[Opts, float] = {}
    for opts in head:
        if any(o.op == "FUSE" for o in opts):
            continue
        wishes = [w for wish in _joined(opts, joins) if (w := trials.legal(wish)) is not None and any(o.op == "FUSE" for o in w)]
        times = {w: estimate(trials.apply(w), threads) for w in wishes}
        best = min(times, key=times.__getitem__, default=None)
        alone = trials.legal(opts)
        if best is not None and (alone is None or times[best] < estimate(trials.apply(alone), threads)):
            quicker[best] = times[best]
    yield from sorted(quicker, key=quicker.__getitem__)
    yield from head
    yield from rest


def _joined(opts: Opts, joins: dict[str, str]) -> Iterator[Opts]:
    """A schedule with places in the loops of their extremes; with a half or a quarter of each register tile too, since there are two or
    three times as many accumulators. Those that lie in memory between blocks of rows are few, and stay for twice as many rows."""
    if any(o.op == "MOVE" for o in opts):
        opts = tuple(replace(o, arg=2 * o.arg) if o.op == "UNROLL" and isinstance(o.arg, int) else o for o in opts)
    alike = tuple(dict.fromkeys(o if o.op == "MOVE" else replace(o, on=joins.get(o.on, o.on)) for o in opts))
    fuse = tuple(opt("FUSE", family) for family in dict.fromkeys(joins.values()))
    if not any(o.op == "MOVE" for o in opts):
        yield (*alike, *fuse)
    for i, o in enumerate(alike):
        if o.op != "UPCAST" or not isinstance(o.arg, int) or o.on in joins.values():
            continue
        for part in (4,) if any(o.op == "MOVE" for o in opts) else (2, 4):
            if o.arg % part == 0:
                less = (opt("UPCAST", o.on, o.arg // part),) if o.arg > part else ()
                yield (*alike[:i], *less, *alike[i + 1 :], *fuse)
