"""Start schedules with lanes along each axis in turn, wherever it leads in memory: which one is best the models say, and no rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.analysis.structure import extent, nests, shared_axes
from ...opts.defaults import family_name, fit, waste
from ...opts.opt import Opt, Opts, opt
from ...opts.options.fuse import with_rows
from ...targets import Target
from ..model import estimate
from .legal import Trials
from .program_time import ruler

FEW = 4
"""Elements of an axis that may all be in registers beside the lanes."""
SHORT = 8
"""Steps of a sum that are spelled out."""
POINTS = 4
"""Points that are taken at once where their lanes are along a sum, or along an axis of a vector at most."""
ROWS = 2
"""The same of longer axes."""
PADDED = 0.4
"""The share of a vector that may be left empty."""
LIKELY, MOST = 1.5, 3
"""How much of the best start schedule's time the estimate may give such a schedule, for its Program to be counted; and how many are."""
BETTER = 0.65
"""How much of the best start schedule's time it may take to come before it: the geometric mean of what estimate and Program say."""


def each_axis(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Lanes along one axis, as a few vectors or one, for each axis that is long enough. Few components, or of sums along the lanes a few
    points, are in registers as well."""
    found = nests(kernel)
    if any(n.kind in ("scan", "init") for n in found):
        return
    spatial = {family_name(kernel, a): a for n in found for a in n.axes}
    summed = {family_name(kernel, a): a for n in found for a in n.reduce_axes if family_name(kernel, a) not in spatial}
    short = {family_name(kernel, n.reduce_axes[-1]) for n in found if n.reduce_axes and 1 < extent(n.reduce_axes[-1]) <= SHORT}
    grid = shared_axes(kernel)
    fused = with_rows(kernel, target)
    for name, a in (spatial | summed).items():
        few = tuple(opt("UPCAST", f, extent(b)) for f, b in spatial.items() if f != name and 1 < extent(b) <= FEW)
        lane: list[Opts] = [
            (opt("UPCAST", name, n),) for n in dict.fromkeys(fit(extent(a), v * lanes) for v in (4, 1)) if n > 1 and 2 * n >= lanes
        ]
        whole = 1 << (extent(a) - 1).bit_length()
        if name in spatial and extent(a) < whole <= lanes and waste(extent(a), whole) <= PADDED:
            lane.append((opt("PADTO", name, whole), opt("UPCAST", name, whole)))
        points = next((b for b in reversed(grid) if b is not a and extent(b) >= 2 * POINTS), None)
        beside: dict[Opts, None] = {(): None, few: None}
        if points is not None:  # (rows may share what they read or compute)
            copies = POINTS if name in summed or extent(a) <= lanes else ROWS
            beside[(opt("UPCAST", family_name(kernel, points), copies),)] = None
        spelled = tuple(opt("UNROLL", f, extent(b)) for f, b in summed.items() if f != name and f in short)
        for first, more in product(lane, beside):
            yield (*first, *more, *spelled, *_items(kernel, grid, a, threads), *fused)


def _items(kernel: Kernel, grid: list[Node], lane: Node, threads: int) -> list[Opt]:
    """The outer axes in parallel."""
    free = [a for a in grid if a is not lane and extent(a) > FEW] or [a for a in grid if a is lane]
    return [opt("PARALLEL", family_name(kernel, a)) for a in free[: 1 if free and extent(free[0]) >= 8 * threads else 2]]


def other_lanes(trials: Trials, threads: int, plain: Mapping[Opts, float], guesses: Iterable[Opts]) -> list[Opts]:
    """Those of some legal guesses, best first, that are far better than the best of the `plain` ones by two models. (`plain`: estimates,
    which are the less right the more schedules differ: those with other axes in registers are counted on suspicion.)"""
    if not plain:
        return []
    best = min(plain, key=plain.__getitem__)
    mine = {o.on for o in best if o.op == "UPCAST"}

    def most(guess: Opts) -> float:
        return BETTER if mine == {o.on for o in guess if o.op == "UPCAST"} else LIKELY

    likely = islice((g for g in guesses if estimate(trials.apply(g), threads) < most(g) * plain[best]), MOST)
    seconds = ruler(trials, threads)
    times = {g: seconds(g) for g in likely}
    limit = BETTER * seconds(best) if times else 0.0
    return sorted((g for g in times if times[g] < limit), key=times.__getitem__)
