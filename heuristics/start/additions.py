"""What is added to schedules that the rules made: an extreme's place in its loop, reductions that are left early, lanes for nests that got none,
stores past the caches, lines that are fetched ahead. Each takes what was found, in order, and puts what is better before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from math import inf, prod

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.access import accesses
from ...opts.analysis.contractions import all_contractions
from ...opts.analysis.extremes import place_of
from ...opts.analysis.structure import contiguous, extent, nests
from ...opts.defaults import site_name, waste
from ...opts.memory_limits import FAR_CACHES, buffer_bytes
from ...opts.nests import Nest, plain
from ...opts.opt import Opts, opt
from ...opts.options.cache import PREFETCH, STREAM, has_streams, rows_stay
from ...opts.options.early_exit import early_exits
from ...opts.schedule import Scheduled
from ...targets import Target
from ..machine import DEFAULT, machine_of
from ..model.arithmetic import accumulators
from ..model.loop_bodies import one_body
from .trials import Trials
from .unrolled import looked_up


# places of extremes ---------------------------------------------------------------------------------------------------
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


JOINED = 4
"""Schedules that are tried with places joined."""


def joined_places(trials: Trials, found: Iterable[Opts]) -> Iterator[Opts]:
    """Schedules, and those like the first few of them in which places join their extremes, where the model thinks that quicker: before all
    where they are quicker than the first one, after the first few elsewhere."""
    joins = places(trials.kernel, trials.target)
    rest = iter(found)
    head = list(islice(rest, JOINED)) if joins else []
    quicker: dict[Opts, float] = {}
    for opts in head:
        if any(o.op == "FUSE" for o in opts):
            continue
        wishes = [w for wish in _joined(opts, joins) if (w := trials.legal(wish)) is not None and any(o.op == "FUSE" for o in w)]
        times = {w: trials.seconds(w) for w in wishes}
        best = min(times, key=times.__getitem__, default=None)
        alone = trials.legal(opts)
        if best is not None and (alone is None or times[best] < trials.seconds(alone)):
            quicker[best] = times[best]
    ranked = sorted(quicker, key=quicker.__getitem__)
    first = next((o for o in head[:1] if trials.is_legal(o)), None)
    before = [o for o in ranked if first is None or quicker[o] < trials.seconds(first)]
    yield from before
    yield from head
    yield from ranked[len(before) :]
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


# stores past the caches -----------------------------------------------------------------------------------------------
STREAMED = 4
"""Start schedules for which it is tried."""
LEAST = 8 << 20
"""Bytes of outputs from which on even the next kernel, which reads them, has them sooner (measured with 8 MiB: in 0.7 to 0.9 of the time of
both; with 4 MiB: in 1.15)."""
OPEN_ROWS = 4
"""Rows whose lines may be open at once: of more, lines leave in pieces."""


def streamed(trials: Trials, found: Iterable[Opts], favourites: int = STREAMED) -> Iterator[Opts]:
    """`found`, where each of the first `favourites` comes after itself with `NT` on outputs that no cache will keep, if the model takes
    that to be faster."""
    kernel, target = trials.kernel, trials.target
    if all_contractions(kernel):  # results leave register tiles in pieces of lines, and seldom
        yield from found
        return
    far = [b for b in kernel.outputs if buffer_bytes(b.shape, b.dtype.size) >= far_bytes(kernel, target)]
    for n, opts in enumerate(found):
        alone = trials.legal(opts) if far and n < favourites and not has_streams(opts) else None
        if alone is not None and few_stored_rows(trials, alone):
            past = trials.legal((*alone, *(opt("CACHE", b.name, policy=STREAM) for b in far)))
            if past is not None and past != alone and trials.seconds(past) < trials.seconds(alone):
                yield past
        yield opts


def far_bytes(kernel: Kernel, target: Target) -> float:
    """Bytes of outputs from which on no cache keeps them for whoever reads them next: none where the last cache keeps all of the kernel's
    data, since then the lines that are written are there."""
    whole = sum(buffer_bytes(b.shape, b.dtype.size) for b in kernel.buffers)
    kept = machine_of(target.cpu).caches.last_cache(target.l2, target.l3)
    return max(LEAST, FAR_CACHES * target.l2) if whole > kept else inf


def few_stored_rows(trials: Trials, opts: Opts) -> bool:
    """Whether every nest stores a few runs of consecutive elements at most side by side; where vectors are shorter than a line, with the
    stores behind it in one body."""
    state = trials.apply(opts)
    short = trials.target.vector_bytes < DEFAULT.caches.line
    rows = {n.name: _stored_rows(trials, state, n) for n in state.nests}
    return all((sum(rows[m.name] for m in one_body(state, n)) if short else rows[n.name]) <= OPEN_ROWS for n in state.nests)


def _stored_rows(trials: Trials, state: Scheduled, nest: Nest) -> int:
    """Runs of consecutive elements that a nest stores side by side."""
    most = 0
    for x in accesses(trials.kernel, nest):
        if x.store:
            run, rows = 1, 1
            for a in sorted(nest.axes, key=lambda a: x.stride(a) or 0):
                together = x.stride(a) == run
                run, rows = (run * state.plans[a].copies, rows) if together else (run, rows * state.plans[a].copies)
            most = max(most, rows)
    return most


# early exits ----------------------------------------------------------------------------------------------------------
LEFT = 8
"""Start schedules of which it is tried."""


def with_early_exits(trials: Trials, found: Iterable[Opts]) -> Iterator[Opts]:
    """`found`, and before them the likeliest ones with reductions that are left, where the model takes that to be faster. (How early depends
    on data; whoever asks where something holds first, or whether anything does, mostly has some for which it does.)"""
    names = _early_exits(trials.kernel) if trials.target.kind != "gpu" and not trials.target.groups else []
    if not names:
        yield from found
        return
    rest = iter(found)
    head = list(islice(rest, LEFT))
    times: dict[Opts, float] = {}
    least = min((trials.seconds(o) for h in head if (o := trials.legal(h)) is not None), default=0.0)
    for h in head:
        alone = tuple(o for o in h if o.op != "FUSE")
        for wish in dict.fromkeys(((*alone, *(opt("EARLY_EXIT", n) for n in names)), *((*alone, opt("EARLY_EXIT", n)) for n in names))):
            legal = trials.legal(wish)
            if legal is not None:
                times[legal] = trials.seconds(legal)
    ranked = sorted(times, key=times.__getitem__)
    yield from (o for o in ranked if times[o] < least)
    yield from head
    yield from rest


def _early_exits(kernel: Kernel) -> list[str]:
    """The reductions that may be known long before the end: not the place of an extreme, which is as likely to be anywhere."""
    found = {n.name: n for n in nests(kernel)}
    return [name for name in early_exits(kernel) if not any(x.op == "eq" and "ref" in (s.op for s in x.src) for x in found[name].nodes)]


# lanes, stores and fetches of the likeliest ---------------------------------------------------------------------------
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


def finished(trials: Trials, found: Iterable[Opts]) -> Iterator[Opts]:
    """`found`, each of the first `FAVOURITES` after itself with lanes, where the model takes that to be faster, and before
    itself with what only a measurement can decide.

    Stores past the caches make a kernel of a few megabytes a tenth to a third faster where it is called by itself, and
    what reads its output next slower by more than that. So they come second, where a search finds them."""
    laned: dict[Opts, Opts] = {}
    for n, opts in enumerate(_quickest_first(trials, found, laned)):
        alone = trials.legal(opts) if n < FAVOURITES else None
        if alone is None:
            yield opts
            continue
        best = laned[alone] if _agreed(trials, laned[alone], alone) else alone
        yield best
        yield from _measured(trials, best)
        if best != alone:
            yield opts


def _quickest_first(trials: Trials, found: Iterable[Opts], laned: dict[Opts, Opts]) -> Iterator[Opts]:
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
        best = laned[alone] = _with_lanes(trials, alone)
        seconds = trials.seconds(best)
        t = seconds / (1.0 if first is None else CLEARLY if best != alone else BY_FAR)
        if t < least and (first is None or _agreed(trials, best, leader)):
            first, leader, least = opts, best, t
        elif seconds < (about if _kind(opts) not in kinds else BETTER_BY_BOTH) * least:
            kinds.add(_kind(opts))  # (schedules of one kind differ little by what is counted)
            asked = trials.ruler()
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


def _agreed(trials: Trials, opts: Opts, than: Opts) -> bool:
    """Whether one schedule takes less than another by what their Programs count as well as by the estimate."""
    asked = trials.ruler()
    return opts == than or asked(opts) < asked(than)


def _with_lanes(trials: Trials, opts: Opts) -> Opts:
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
            least = BETTER * trials.seconds(opts) if least is None else least
            if (t := trials.seconds(wish)) < least:
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
    if large and not added and not has_streams(opts) and few_stored_rows(trials, opts):
        wish = (*opts, *(opt("CACHE", name, policy=STREAM) for name, size in outputs.items() if size > WRITTEN * l2 / len(outputs)))
        if trials.is_legal(wish):
            yield wish
    for b in sorted(kernel.inputs, key=lambda b: inputs[b.name])[-1:]:
        wish = (*opts, opt("CACHE", b.name, policy=PREFETCH))
        if wish[-1] not in opts and inputs[b.name] > l2 / 2 and rows_stay(kernel, b, trials.target) and trials.is_legal(wish):
            yield wish
