"""Which options to run a kernel with: the cache's own answer, a neighbour's, or the start schedule. `origin` always says which."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ..cache.file_check import CacheWarning
from ..cache.keys import DEFAULT_POLICY, Key
from ..cache.layers import SHIPPED_RUN
from ..cache.objective_types import FRONTS, OBJECTIVES, TIME, fronts_with
from ..cache.ranking import Standing, scratch_of, undominated, value_of
from ..cache.version import start_version, tool_version
from ..ir.errors import CacheMiss, OptError
from ..ir.kernel import Kernel
from ..ir.normal_form import loose, normalise
from ..log import logger
from ..opts import dumps, parse, short
from .artefacts import render
from .identity import canonical_of, key_of, opts_of, source_key, with_numerics
from .size_trees import measured_rows, schedule_for, tree_of_sizes

if TYPE_CHECKING:
    from ..cache import Cache, Row
    from ..devices import Device
    from ..opts import Opt, Scheduled
    from ..targets import Target
    from .artefacts import Artefacts, Rendered


_ORDER = {s: i for i, s in enumerate(Standing)}


def rows_for(cache: Cache, key: Key, scratch_limit: int | None = None) -> list[Row]:
    """The rows that may answer a look-up of `key`, the best first: those of searches for its very objective, and those of fronts that
    it is one of. Of a pair, the front. `scratch_limit`: only schedules that are known to need no more bytes, whatever they were
    searched for."""
    if scratch_limit is not None:
        keys = [replace(key, objective=o) for o in dict.fromkeys((*OBJECTIVES, *FRONTS, key.objective))]
        rows = [r for k in keys for r in cache.answers(k) if (needs := scratch_of(r)) is not None and needs <= scratch_limit]
        first = cache.answers(key)[:1]
        # what duels found to be the best stays it, where it fits; times of different searches say less
        return list(dict.fromkeys([*(r for r in first if r in rows), *_ordered(cache, rows, key.objective)]))
    if key.objective == TIME:
        return cache.answers(key)  # the fastest of a front is among them: see `search.fronts`
    if key.objective in FRONTS:
        return front(cache, key)
    own = cache.answers(key)
    fronts = [r for f in fronts_with(key.objective) for r in front(cache, replace(key, objective=f))]
    return _ordered(cache, [*own, *fronts], key.objective)


def front(cache: Cache, key: Key) -> list[Row]:
    """The front of a key of two objectives: of the rows that are best known here, those that no other beats in both."""
    rows = cache.answers(key)
    ranks = {r.digest: _ORDER[cache.standing(r)] for r in rows}
    best = min(ranks.values(), default=0)
    return undominated((r for r in rows if ranks[r.digest] == best), key.objective)


def _ordered(cache: Cache, rows: list[Row], objective: str) -> list[Row]:
    name = objective.split(",")[0]
    kept = {r.digest: r for r in rows if value_of(r, name) < float("inf")}
    return sorted(kept.values(), key=lambda r: (_ORDER[cache.standing(r)], value_of(r, name), r.t_med or 0.0, r.digest))


log = logger("plan")

Origin = Literal["exact", "tree", "nearest", "start", "stale", "given"]
Choice = Literal["ranked", "quick"]
"""How a start schedule is chosen: the model ranks all guesses, or the rule's first few (tens of milliseconds, or a few)."""
UNPIN = "pin another, or let go of it with `tune unpin`"
MOST_INSTRUCTIONS = 8000
"""Instructions of bodies that a start schedule may have (`heuristics.code_size`): LLVM takes a second for three times as many. One that was
measured may have more."""
NEIGHBOURS = 8
"""Cached neighbours that are tried."""
OWN = 8
"""Schedules measured for this very key that are tried."""
OVERTAKEN = 1.25
"""What ships is left where the model expects today's start schedule to be so many times as fast."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`origin`: 'exact' (measured for this key), 'stale' (measured for this key, by a version of the tool that made other source of
    it), 'tree' (of the tree of sizes in `row`), 'nearest' (measured for a similar kernel or another thread count: `row`), 'start' (by rule), 'given' (by the caller). `rendered`: the source,
    where it was needed to tell. `standing`: of a row of this very key, what is known of it on this machine."""

    opts: tuple[Opt, ...]
    origin: Origin
    row: Row | None
    key: Key
    rendered: Rendered | None = None
    standing: Standing | None = None


def resolve(
    kernel: Kernel,
    device: Device,
    threads: int,
    cache: Cache,
    exact_only: bool = False,
    *,
    own_only: bool = False,
    shape: Mapping[str, int] | None = None,
    policy: str = DEFAULT_POLICY,
    store: Artefacts | None = None,
    excluded: Collection[tuple[Opt, ...]] = (),
    start: Choice = "ranked",
    objective: str = TIME,
    scratch_limit: int | None = None,
) -> Plan:
    """The plan for `kernel` on `device` with `threads`; its options are for `ir.normal_form.normalise(kernel)`.

    `shape` ranks neighbours by distance. With `exact_only`, raises CacheMiss (which lists the key) unless the origin
    is 'exact'; with `own_only`, neighbours are not looked for. `excluded`: schedules that are not to be had (they
    could not be loaded here). `start`: 'ranked', or 'quick' where somebody waits for it (a ranked one that the store
    knows is taken all the same). `objective`: what the schedule is to make small, as `cache.keys` writes it; with `own_only`,
    only searches for that very objective answer. `scratch_limit`: bytes that a cached answer may need."""
    kernel = normalise(with_numerics(kernel, policy))
    key = key_of(kernel, device, threads, policy, objective)
    start_of = _StartSchedule(kernel, device, key, store, excluded, start)
    rows = cache.answers(key) if own_only else rows_for(cache, key, scratch_limit)
    found = _measured(kernel, device, key, rows, cache, store, excluded)
    found = None if found is not None and _overtaken(found, start_of) else found
    if exact_only and (found is None or found.origin != "exact"):
        why = "it was measured with code that has changed since" if found else "nothing that was verified is cached for it"
        raise CacheMiss(
            f"no cached schedule for {kernel.name}: {why} (key: {key}; kernel hash {key.kernel}). Tune it first, or see `tune cache explain`"
        )
    if found is None:
        start_of = replace(start_of, excluded=[*excluded, *_wrong(start_of, cache)])
        found = None if own_only else _by_tree(start_of, cache) or _nearest(start_of, cache, shape) or _sibling(start_of, cache)
    found = found or start_of.plan()
    if found.origin != "exact" and log.listens():  # what the cache answers is the hot path
        log.debug(
            "%s on %s, %d threads: no exact answer; %s schedule %s", kernel.name, device.name, threads, found.origin, short(found.opts)
        )
    return found


def plan_of_opts(kernel: Kernel, opts: tuple[Opt, ...], device: Device, threads: int, policy: str = DEFAULT_POLICY) -> Plan:
    """The plan for options that the caller chose, for `ir.normal_form.normalise(kernel)`. Raises OptError where they do
    not apply, or have effects that the policy does not allow."""
    kernel = normalise(with_numerics(kernel, policy))
    key = key_of(kernel, device, threads, policy)
    _allowed(kernel, opts, device, key)
    return Plan(opts, "given", None, key)


def has_start(kernel: Kernel, device: Device, key: Key, store: Artefacts) -> bool:
    """Whether the store knows a start schedule for a kernel in normal form: it was resolved before."""
    return _StartSchedule(kernel, device, key, store, (), "quick").known()


def _measured(
    kernel: Kernel,
    device: Device,
    key: Key,
    rows: Sequence[Row],
    cache: Cache,
    store: Artefacts | None,
    excluded: Collection[tuple[Opt, ...]],
) -> Plan | None:
    """The first of the key's own `rows` that today's code still makes the source of which was measured; else the first
    that at least applies."""
    stale = None
    for row in rows[:OWN]:
        plan = _cached(kernel, device, key, row, store)
        if row.pinned:
            return _pinned(kernel, plan, cache.standing(row))
        if plan is None or plan.opts in excluded:
            continue
        if plan.origin == "exact":
            return replace(plan, standing=cache.standing(row))
        stale = stale or plan
    return stale


def _overtaken(found: Plan, start: _StartSchedule) -> bool:
    """Whether a schedule ships that was proved against the start schedule of another version, and the model takes today's to be clearly faster."""
    row = found.row
    if row is None or row.run_id != SHIPPED_RUN or row.tool_version == tool_version():
        return False
    now, ships = (_estimate(start.kernel, opts, start.device, start.key) for opts in (start.plan().opts, found.opts))
    return OVERTAKEN * now < ships


def _wrong(start: _StartSchedule, cache: Cache) -> list[tuple[Opt, ...]]:
    """Schedules of this very key that today's code was found to compute wrong results with, in a search or when they were first used. (A
    guess does not know what was measured.)"""
    key, found = start.key, []
    about = {"kernel": key.kernel, "target": key.target, "threads": key.threads, "compiler": key.compiler, "policy": key.policy}
    for row in cache.rows(**about, outcome="wrong"):
        if row.tool_version == tool_version():
            with suppress(OptError):  # it does not apply any more
                found.append(opts_of(row, canonical_of(start.kernel)))
    return found


def _pinned(kernel: Kernel, plan: Plan | None, standing: Standing) -> Plan:
    """What somebody chose by hand, also where it is not what would be chosen. Raises OptError where it cannot be had."""
    if plan is None:
        raise OptError(f"the schedule that was pinned for {kernel.name} has effects now that are not allowed; {UNPIN}")
    if plan.origin == "exact":
        return replace(plan, standing=standing)
    warnings.warn(
        f"the schedule that was pinned for {kernel.name} makes other code with this version of Tilewright; it is used "
        "unchecked. `tune pin` checks and pins it again",
        CacheWarning,
        stacklevel=4,
    )
    return plan


def _cached(kernel: Kernel, device: Device, key: Key, row: Row, store: Artefacts | None) -> Plan | None:
    """One of the key's own rows; None where its options do not apply any more."""
    try:
        opts = opts_of(row, canonical_of(kernel))
        rendered = render(kernel, opts, device, store)
    except OptError as e:
        if row.pinned:
            raise OptError(f"the schedule that was pinned for {kernel.name} does not apply any more: {e}; {UNPIN}") from e
        warnings.warn(f"a cached schedule of {kernel.name} is ignored, its options do not apply any more: {e}", CacheWarning, stacklevel=3)
        return None
    if not rendered.effects <= set(key.policy.split("+")):
        return None
    same = row.tool_version == tool_version() or row.source_sha == rendered.sha
    return Plan(opts, "exact" if same else "stale", row, key, rendered)


def measured(
    kernel: Kernel, opts: tuple[Opt, ...], device: Device, threads: int, cache: Cache, policy: str, store: Artefacts | None
) -> Plan | None:
    """The plan of one schedule, in the names of the kernel's normal form, if it was measured for this kernel with today's code."""
    kernel = normalise(kernel)
    key = key_of(kernel, device, threads, policy)
    plans = (_cached(kernel, device, key, r, store) for r in measured_rows(kernel, key, opts, cache))
    return next((p for p in plans if p is not None and p.origin == "exact"), None)


def _by_tree(start: _StartSchedule, cache: Cache) -> Plan | None:
    """What a tree of sizes has for the kernel."""
    found = tree_of_sizes(start.kernel, start.key, cache)
    if found is None:
        return None
    tree, row, sizes = found
    opts = schedule_for(start.kernel, tree, row, sizes, start.device, start.key.threads)
    from ..heuristics import code_size

    try:
        if code_size(_allowed(start.kernel, opts, start.device, start.key)) > MOST_INSTRUCTIONS:
            raise OptError("it is too much code at these sizes")
    except OptError as e:
        log.debug("the schedule %s of a tree of sizes is left out: %s", opts, e)
        return None
    return None if opts in start.excluded else Plan(opts, "tree", row, start.key)


def _nearest(start: _StartSchedule, cache: Cache, shape: Mapping[str, int] | None) -> Plan | None:
    """The closest neighbour whose options apply here and that the model ranks at or above the start schedule."""
    from ..ir.cost import cost

    if cache.is_empty():
        return None
    kernel, device, key = start.kernel, start.device, start.key
    keys = loose(kernel)
    flops = cost(kernel).flops if not kernel.symbols else None
    rows = cache.nearest(key, keys["extents"], keys["epilogue"], shape=shape, flops=flops, limit=NEIGHBOURS)
    bound = None
    log.debug("%s: %d neighbours in the cache", kernel.name, len(rows))
    for row in rows:
        try:
            opts = opts_of(row, canonical_of(kernel))
            seconds = _estimate(kernel, opts, device, key)
        except OptError as e:
            log.debug("the neighbour %s %s does not apply: %s", row.name, row.shape, e)
            continue  # legal at the other extents, not at these
        if opts in start.excluded:
            continue
        if bound is None:
            bound = _estimate(kernel, start.plan().opts, device, key)
        if seconds <= bound:
            return Plan(opts, "nearest", row, key)
        log.debug("the neighbour %s %s: %.3g us estimated, the start schedule %.3g us", row.name, row.shape, 1e6 * seconds, 1e6 * bound)
    return None


def _sibling(start: _StartSchedule, cache: Cache) -> Plan | None:
    """What ships for this very kernel on another processor, where the model ranks it at or above the start schedule here."""
    rows = cache.siblings(start.key)
    bound = _estimate(start.kernel, start.plan().opts, start.device, start.key) if rows else 0.0
    for row in rows[:NEIGHBOURS]:
        try:
            opts = opts_of(row, canonical_of(start.kernel))
            if opts not in start.excluded and _estimate(start.kernel, opts, start.device, start.key) <= bound:
                return Plan(opts, "nearest", row, start.key)
        except OptError as e:
            log.debug("the schedule that ships for %s does not apply here: %s", row.target, e)
    return None


def halved(kernel: Kernel, opts: tuple[Opt, ...], target: Target) -> tuple[Opt, ...] | None:
    """The options with half of the copies along the axis that has most; None where none has more than a vector's, or more than one along
    axes without lanes."""
    from ..opts import OPTIONS, apply

    if target.kind != "cpu":
        return None
    lanes = max(target.lanes(b.dtype.compute) for b in kernel.outputs)
    scheduled = apply(kernel, opts, target)
    lane = [v.lane.axis.arg for s in (scheduled.phases or (scheduled,)) for n in s.nests if (v := s.lanes(n)).lane is not None]
    along = {name for a in lane for name in (a.name, a.family)}

    def copies(o: Opt) -> int:
        if OPTIONS[o.op].kind != "upcast" or not isinstance(o.arg, int) or o.arg % 2:
            return 1
        return o.arg // lanes if o.on in along else o.arg

    most = max(opts, key=copies, default=None)
    if most is None or copies(most) < 2:
        return None
    assert isinstance(most.arg, int)
    half = (replace(most, arg=most.arg // 2),) if most.arg > 2 else ()
    return tuple(x for o in opts for x in (half if o is most else (o,)))


@dataclass(frozen=True)
class _StartSchedule:
    """What a start schedule is chosen for, and how."""

    kernel: Kernel
    device: Device
    key: Key
    store: Artefacts | None
    excluded: Collection[tuple[Opt, ...]]
    choice: Choice

    def plan(self) -> Plan:
        """The first start schedule that the policy allows; in the end no options at all, which always are."""
        opts = self._stored()
        if opts is None:
            opts = self._chosen()
            if self.store is not None and not self.excluded:
                self.store.put_start(self._place(self.choice), dumps(opts))
        return Plan(opts, "start", None, self.key)

    def known(self) -> bool:
        """Whether the store has one."""
        return self._stored() is not None

    def _stored(self) -> tuple[Opt, ...] | None:
        """What the store has: a ranked start schedule even for who asks for a quick one, and never the reverse."""
        for choice in ("ranked", "quick") if self.choice == "quick" else ("ranked",):
            kept = self.store.start(self._place(choice)) if self.store is not None else None
            if kept is not None and parse(kept) not in self.excluded:
                return parse(kept)
        return None

    def _chosen(self) -> tuple[Opt, ...]:
        for opts in self._guesses():
            if opts in self.excluded:
                continue
            try:
                return self._with_fewer_copies(opts, _allowed(self.kernel, opts, self.device, self.key))
            except OptError:
                continue
        return ()

    def _with_fewer_copies(self, opts: tuple[Opt, ...], scheduled: Scheduled) -> tuple[Opt, ...]:
        """The options, with fewer copies as long as they are too much code and copies can go."""
        from ..heuristics import code_size

        while code_size(scheduled) > MOST_INSTRUCTIONS and (fewer := halved(self.kernel, opts, self.device.target)) is not None:
            try:
                scheduled = _allowed(self.kernel, fewer, self.device, self.key)
            except OptError:
                break
            opts = fewer
        return opts

    def _guesses(self) -> Iterator[tuple[Opt, ...]]:
        """Start schedules, best first; all of them where none of the quick ones will do."""
        from ..heuristics import quick_starts, starts

        allowed = frozenset(self.key.policy.split("+"))
        if self.choice == "quick":
            quick = quick_starts(self.kernel, self.device.target, self.key.threads, allowed)
            yield from (o for o in quick if o or not quick[0])
        yield from starts(self.kernel, self.device.target, self.key.threads, allowed)

    def _place(self, choice: str) -> str:
        """Where the store keeps this start schedule."""
        code = start_version() if choice == "ranked" else f"{start_version()} quick"
        text = f"{source_key(self.kernel, (), self.device.target, code)} {self.key.threads} {self.key.policy}"
        return hashlib.sha256(text.encode()).hexdigest()


def _estimate(kernel: Kernel, opts: tuple[Opt, ...], device: Device, key: Key) -> float:
    """Seconds by the analytic model. Raises OptError."""
    from ..heuristics import estimate

    scheduled = _allowed(kernel, opts, device, key)
    return estimate(scheduled, key.threads, device.limits())


def _allowed(kernel: Kernel, opts: tuple[Opt, ...], device: Device, key: Key) -> Scheduled:
    from ..opts import apply

    scheduled = apply(kernel, opts, device.target)
    if not scheduled.effects <= set(key.policy.split("+")):
        raise OptError(f"the effects {'+'.join(sorted(scheduled.effects))} are not allowed by policy {key.policy}")
    return scheduled
