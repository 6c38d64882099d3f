"""What may still be added to the likeliest start schedules: lanes for nests that got none, stores past the caches, lines that are fetched ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf, prod

from ...ir.node import Node
from ...opts.analysis.computed import all_contractions
from ...opts.analysis.pages import buffer_bytes
from ...opts.analysis.structure import contiguous, extent, nests
from ...opts.defaults import site_name, waste
from ...opts.opt import Opts, opt
from ...opts.options.cache import PREFETCH, STREAM, has_streams, rows_stay
from ...opts.schedule import Scheduled
from ..machine import DEFAULT
from ..model import estimate
from ..model.compute import accumulators
from .legal import Trials
from .program_time import ruler
from .spelled import looked_up
from .streamed import few_rows

FAVOURITES = 2
"""Start schedules for which it is tried."""
LIKELY = 16
"""Start schedules among which one with lanes for such a nest may be the quickest."""
BETTER = 0.97
"""How much of the time without them lanes may take at most."""
CLEARLY = 0.8
"""How much of the first start schedule's time one after it may take with lanes, to come before it."""
BY_FAR = 0.5
"""The same where it has none to get: the model is seldom wrong by more than that about schedules of different kinds."""
BETTER_BY_BOTH, ABOUT = 0.65, 1.25
"""The same of the geometric mean of the estimate and what Programs count; and how much of the time the estimate alone may say then, of each
kind of schedules of scans, of whose steps it knows least."""
VECTORS = (1, 2)
"""Vectors that such lanes are."""
STEPS = 16
"""Steps of a contraction whose results are stored as often as those of a pointwise kernel."""
CACHED, WRITTEN = 1.5, 0.7
"""Of a second cache: what all buffers together exceed, and what the outputs do, where stores past the caches are worth a try."""


def finished(trials: Trials, threads: int, found: Iterable[Opts]) -> Iterator[Opts]:
    """`found`, each of the first `FAVOURITES` after itself with lanes, where the model takes that to be faster, and before
    itself with what only a measurement can decide.

    Stores past the caches make a kernel of a few megabytes a tenth to a third faster where it is called by itself, and
    what reads its output next slower by more than that. So they come second, where a search finds them."""
    laned: dict[Opts, Opts] = {}
    for n, opts in enumerate(_quickest_first(trials, threads, found, laned)):
        alone = trials.legal(opts) if n < FAVOURITES else None
        if alone is None:
            yield opts
            continue
        best = laned[alone] if _agreed(trials, threads, laned[alone], alone) else alone
        yield best
        yield from _measured(trials, best)
        if best != alone:
            yield opts


def _quickest_first(trials: Trials, threads: int, found: Iterable[Opts], laned: dict[Opts, Opts]) -> Iterator[Opts]:
    """`found`, where one of the first `LIKELY` comes before them that is clearly quicker: once it has such lanes, or by far though it has not,
    as one of another kind may be (guesses come kind by kind). `laned` is given these first ones with their lanes."""
    rest = iter(found)
    head = list(islice(rest, LIKELY))
    first: Opts | None = None
    leader: Opts = ()
    kinds: set[frozenset[tuple[str, str]]] = set()
    about = ABOUT if any(n.kind == "scan" for n in nests(trials.kernel)) else BETTER_BY_BOTH
    least = inf
    for opts in head:
        alone = trials.legal(opts)
        if alone is None:
            continue
        best = laned[alone] = _with_lanes(trials, threads, alone)
        seconds = estimate(trials.apply(best), threads)
        t = seconds / (1.0 if first is None else CLEARLY if best != alone else BY_FAR)
        if t < least and (first is None or _agreed(trials, threads, best, leader)):
            first, leader, least = opts, best, t
        elif seconds < (about if _kind(opts) not in kinds else BETTER_BY_BOTH) * least:
            kinds.add(_kind(opts))  # (schedules of one kind differ little by what is counted)
            asked = ruler(trials, threads)
            if asked(best) < BETTER_BY_BOTH * asked(leader):
                first, leader, least = opts, best, seconds
        if opts is first:
            kinds.add(_kind(opts))
    yield from (o for o in head if o is first)
    yield from (o for o in head if o is not first)
    yield from rest


def _kind(opts: Opts) -> frozenset[tuple[str, str]]:
    """What a schedule does, whatever the amounts."""
    return frozenset((o.op, o.on) for o in opts)


def _agreed(trials: Trials, threads: int, opts: Opts, than: Opts) -> bool:
    """Whether one schedule takes less than another by what their Programs count as well as by the estimate."""
    asked = ruler(trials, threads)
    return opts == than or asked(opts) < asked(than)


def _with_lanes(trials: Trials, threads: int, opts: Opts) -> Opts:
    """The schedule with lanes for a nest that has none, such as the means that a contraction of centred rows reads; or as it is."""
    state, kernel = trials.apply(opts), trials.kernel
    best, least = opts, None
    for n in state.nests:
        lane = next((a for a in contiguous(kernel, n) if a in n.axes), None)
        if lane is None or not extent(lane) or any(state.plans[a].copies > 1 for a in n.all_axes):
            continue
        if any(m.kind == "reduce" and lane in m.axes and looked_up(kernel, m) for m in state.nests):  # (elements are loaded one by one)
            continue
        lanes = trials.target.lanes(n.expr.dtype.compute)
        whole = -(-extent(lane) // lanes) * lanes
        for width in dict.fromkeys(min(k * lanes, whole) for k in VECTORS):
            pad = (opt("PADTO", site_name(lane), -(-whole // width) * width),) if waste(extent(lane), width) > 0.25 else ()
            wish = (*opts, *pad, opt("UPCAST", site_name(lane), width))
            if lanes > extent(lane) or not trials.is_legal(wish) or not _in_registers(trials.apply(wish), lane):
                continue
            least = BETTER * estimate(state, threads) if least is None else least
            if (t := estimate(trials.apply(wish), threads)) < least:
                best, least = wish, t
    return best


def _in_registers(state: Scheduled, lane: Node) -> bool:
    """Whether the sums that lanes along an axis multiply still have a register each."""
    summed = [n for n in state.nests if n.kind == "reduce" and lane in n.axes]
    return all(accumulators(state, n, DEFAULT) <= state.target.registers for n in summed)


def _measured(trials: Trials, opts: Opts) -> Iterator[Opts]:
    """The schedule with one option more, of those that the model does not know well enough."""
    kernel, l2 = trials.kernel, trials.target.l2
    outputs = {b.name: buffer_bytes(b.shape, b.dtype.size) for b in kernel.outputs}
    inputs = {b.name: buffer_bytes(b.shape, b.dtype.size) for b in kernel.inputs}
    stores = [n.store for n in trials.apply(opts).nests if n.store is not None]
    large = sum(outputs.values()) + sum(inputs.values()) > CACHED * l2 and sum(outputs.values()) > WRITTEN * l2
    # results of long sums leave register tiles seldom, in pieces of lines; what is added to was read before
    added = any(s.combine is not None for s in stores)
    added |= any(prod(extent(a) for a in c.nest.reduce_axes) > STEPS for c in all_contractions(kernel))
    if large and not added and not has_streams(opts) and few_rows(trials, opts):
        wish = (*opts, *(opt("CACHE", name, policy=STREAM) for name, size in outputs.items() if size > WRITTEN * l2 / len(outputs)))
        if trials.is_legal(wish):
            yield wish
    for b in sorted(kernel.inputs, key=lambda b: inputs[b.name])[-1:]:
        wish = (*opts, opt("CACHE", b.name, policy=PREFETCH))
        if wish[-1] not in opts and inputs[b.name] > l2 / 2 and rows_stay(kernel, b, trials.target) and trials.is_legal(wish):
            yield wish
