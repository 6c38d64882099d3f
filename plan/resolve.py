"""Which options to run a kernel with: the cache's own answer, a neighbour's, or the seed schedule. `origin` always says which."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ..cache.choice import Standing
from ..cache.keys import DEFAULT_POLICY, Key
from ..cache.recover import CacheWarning
from ..cache.version import tool_version
from ..ir.errors import CacheMiss, OptError
from ..ir.kernel import Kernel
from ..ir.normalise import normalise
from ..log import logger
from .compile import render
from .identity import canonical_of, key_of, source_key

if TYPE_CHECKING:
    from ..cache import Cache, Row
    from ..devices import Device
    from ..opts import Opt, Scheduled
    from .artefacts import Artefacts
    from .built import Rendered

log = logger("plan")

Origin = Literal["exact", "nearest", "seed", "stale"]
NEIGHBOURS = 8
"""Cached neighbours that are tried."""
OWN = 8
"""Schedules measured for this very key that are tried."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`origin`: 'exact' (measured for this key), 'stale' (measured for this key, by a version of the tool that made other source of
    it), 'nearest' (measured for a similar kernel or another thread count: `row`), 'seed' (by rule). `rendered`: the source,
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
) -> Plan:
    """The plan for `kernel` on `device` with `threads`; its options are for `ir.normalise.normalise(kernel)`.

    `shape` ranks neighbours by distance. With `exact_only`, raises CacheMiss (which lists the key) unless the origin
    is 'exact'; with `own_only`, neighbours are not looked for. `excluded`: schedules that are not to be had (they
    could not be loaded here)."""
    kernel = normalise(kernel)
    key = key_of(kernel, device, threads, policy)
    found = _own(kernel, device, key, cache, store, excluded)
    if exact_only and (found is None or found.origin != "exact"):
        why = "it was measured with code that has changed since" if found else "nothing that was verified is cached for it"
        raise CacheMiss(
            f"no cached schedule for {kernel.name}: {why} (key: {key}; kernel hash {key.kernel}). Tune it first, or see `tune cache explain`"
        )
    if found is None and not own_only:
        found = _nearest(kernel, device, key, cache, shape, store, excluded)
    found = found or _seed(kernel, device, key, store, excluded)
    if found.origin != "exact" and log.listens():  # what the cache answers is the hot path
        from ..opts.opt import short

        log.debug(
            "%s on %s, %d threads: no exact answer; %s schedule %s", kernel.name, device.name, threads, found.origin, short(found.opts)
        )
    return found


def _own(
    kernel: Kernel, device: Device, key: Key, cache: Cache, store: Artefacts | None, excluded: Collection[tuple[Opt, ...]]
) -> Plan | None:
    """The first of the key's own rows that today's code still makes the source of which was measured; else the first
    that at least applies."""
    stale = None
    for row in cache.answers(key)[:OWN]:
        plan = _cached(kernel, device, key, row, store)
        if plan is None or plan.opts in excluded:
            continue
        if plan.origin == "exact":
            return replace(plan, standing=cache.standing(row))
        stale = stale or plan
    return stale


def _cached(kernel: Kernel, device: Device, key: Key, row: Row, store: Artefacts | None) -> Plan | None:
    """One of the key's own rows; None where its options do not apply any more."""
    try:
        opts = _translated(kernel, row)
        rendered = render(kernel, opts, device, store)
    except OptError as e:
        warnings.warn(f"a cached schedule of {kernel.name} is ignored, its options do not apply any more: {e}", CacheWarning, stacklevel=3)
        return None
    if not rendered.effects <= set(key.policy.split("+")):
        return None
    same = row.tool_version == tool_version() or row.source_sha == rendered.sha
    return Plan(opts, "exact" if same else "stale", row, key, rendered)


def _nearest(
    kernel: Kernel,
    device: Device,
    key: Key,
    cache: Cache,
    shape: Mapping[str, int] | None,
    store: Artefacts | None,
    excluded: Collection[tuple[Opt, ...]],
) -> Plan | None:
    """The closest neighbour whose options apply here and that the model ranks at or above the seed."""
    from ..ir.canonical import loose
    from ..ir.cost import cost

    keys = loose(kernel)
    flops = cost(kernel).flops if not kernel.symbols else None
    rows = cache.nearest(key, keys["extents"], keys["epilogue"], shape=shape, flops=flops, limit=NEIGHBOURS)
    bound = None
    log.debug("%s: %d neighbours in the cache", kernel.name, len(rows))
    for row in rows:
        try:
            opts = _translated(kernel, row)
            seconds = _estimate(kernel, opts, device, key)
        except OptError as e:
            log.debug("the neighbour %s %s does not apply: %s", row.name, row.shape, e)
            continue  # legal at the other extents, not at these
        if opts in excluded:
            continue
        if bound is None:
            bound = _estimate(kernel, _seed(kernel, device, key, store, excluded).opts, device, key)
        if seconds <= bound:
            return Plan(opts, "nearest", row, key)
        log.debug("the neighbour %s %s: %.3g us estimated, the seed %.3g us", row.name, row.shape, 1e6 * seconds, 1e6 * bound)
    return None


def _seed(kernel: Kernel, device: Device, key: Key, store: Artefacts | None, excluded: Collection[tuple[Opt, ...]]) -> Plan:
    """The first seed schedule that the policy allows; in the end no options at all, which always are."""
    from ..heuristics import seeds
    from ..opts import dumps, parse

    at = hashlib.sha256(f"{source_key(kernel, (), device.target, tool_version())} {key.threads} {key.policy}".encode()).hexdigest()
    kept = store.seed(at) if store is not None else None
    if kept is not None and parse(kept) not in excluded:
        return Plan(parse(kept), "seed", None, key)
    for opts in (*seeds(kernel, device.target, key.threads), ()):
        if opts in excluded:
            continue
        try:
            _allowed(kernel, opts, device, key)
        except OptError:
            continue
        break
    if store is not None and not excluded:
        store.put_seed(at, dumps(opts))
    return Plan(tuple(opts), "seed", None, key)


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


def _translated(kernel: Kernel, row: Row) -> tuple[Opt, ...]:
    """A row's options in this kernel's names. Raises OptError."""
    from ..opts import parse
    from ..opts.syntax import SYNTAX

    return parse(canonical_of(kernel).from_canonical(json.loads(row.opts), SYNTAX))
