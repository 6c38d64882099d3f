"""Which options to run a kernel with: the cache's own answer, a neighbour's, or the seed schedule. `origin` always says which."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..cache.keys import DEFAULT_POLICY, Key
from ..cache.recover import CacheWarning
from ..cache.version import tool_version
from ..ir.errors import CacheMiss, OptError
from ..ir.kernel import Kernel
from ..ir.normalise import normalise
from .compile import render
from .identity import canonical_of, key_of, source_key

if TYPE_CHECKING:
    from ..cache import Cache, Row
    from ..devices import Device
    from ..opts import Opt, Scheduled
    from .artefacts import Artefacts
    from .built import Rendered

Origin = Literal["exact", "nearest", "seed", "stale"]
NEIGHBOURS = 8
"""Cached neighbours that are tried."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`origin`: 'exact' (measured for this key), 'stale' (measured for this key, by a version of the tool that made other source of
    it), 'nearest' (measured for a similar kernel or another thread count: `row`), 'seed' (by rule). `rendered`: the source,
    where it was needed to tell."""

    opts: tuple[Opt, ...]
    origin: Origin
    row: Row | None
    key: Key
    rendered: Rendered | None = None


def resolve(
    kernel: Kernel,
    device: Device,
    threads: int,
    cache: Cache,
    exact_only: bool = False,
    *,
    shape: Mapping[str, int] | None = None,
    policy: str = DEFAULT_POLICY,
    store: Artefacts | None = None,
    excluded: Collection[tuple[Opt, ...]] = (),
) -> Plan:
    """The plan for `kernel` on `device` with `threads`; its options are for `ir.normalise.normalise(kernel)`.

    `shape` ranks neighbours by distance. `excluded`: options that are not to be returned, having failed to load, unless nothing else is left. With `exact_only`, raises CacheMiss (which lists the key) unless the origin is 'exact'."""
    kernel = normalise(kernel)
    key = key_of(kernel, device, threads, policy)
    row = cache.best(key)
    found = _cached(kernel, device, key, row, store) if row is not None else None
    found = None if found is not None and found.opts in excluded else found
    if exact_only and (found is None or found.origin != "exact"):
        why = "it was measured with code that has changed since" if found else "nothing that was verified is cached for it"
        raise CacheMiss(f"no cached schedule for {kernel.name}: {why} (key: {key}; kernel hash {key.kernel}). Tune it first, or see `tune cache explain`")
    return found or _nearest(kernel, device, key, cache, shape, store, excluded) or _seed(kernel, device, key, store, excluded)


def _cached(kernel: Kernel, device: Device, key: Key, row: Row, store: Artefacts | None) -> Plan | None:
    """The key's own row; None where its options do not apply any more."""
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
    kernel: Kernel, device: Device, key: Key, cache: Cache, shape: Mapping[str, int] | None, store: Artefacts | None, excluded: Collection[tuple[Opt, ...]]
) -> Plan | None:
    """The closest neighbour whose options apply here and that the model ranks at or above the seed."""
    from ..ir.canonical import loose
    from ..ir.cost import cost

    keys = loose(kernel)
    flops = cost(kernel).flops if not kernel.symbols else None
    rows = cache.nearest(key, keys["extents"], keys["epilogue"], shape=shape, flops=flops, limit=NEIGHBOURS)
    bound = None
    for row in rows:
        try:
            opts = _translated(kernel, row)
            seconds = _estimate(kernel, opts, device, key)
        except OptError:
            continue  # legal at the other extents, not at these
        if opts in excluded:
            continue
        if bound is None:
            bound = _estimate(kernel, _seed(kernel, device, key, store, excluded).opts, device, key)
        if seconds <= bound:
            return Plan(opts, "nearest", row, key)
    return None


def _seed(kernel: Kernel, device: Device, key: Key, store: Artefacts | None, excluded: Collection[tuple[Opt, ...]]) -> Plan:
    """The first seed schedule that the policy allows; in the end no options at all, which always are."""
    from ..opts import dumps, parse, seeds

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
    from ..opts import estimate

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

    return parse(canonical_of(kernel).from_canonical(json.loads(row.opts)))
