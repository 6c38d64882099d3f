"""What travels for one entry of a manifest: what is sent to the worker, and what of a search's answer comes back. All plain data,
and read strictly on both sides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cache import bundles
from ..cache.keys import Key
from ..cache.objectives import TIME
from ..files.strict import read
from ..ir.errors import CacheError, FleetError, OptError, UsageError
from ..log import logger
from ..search.result import Result

if TYPE_CHECKING:
    from ..cache import Cache, Row
    from ..ir.kernel import Kernel
    from ..search.manifest.manifest import Entry
    from .seam import FleetSlot

log = logger("fleet")
MAX_RELATED = 4000
"""Rows of the client's cache that travel with an entry, at most."""
MAX_FILE = 4 << 20
"""Bytes of a user's kernel file."""


@dataclass(frozen=True, slots=True)
class EntryTerms:
    """How one entry is to be tuned. `share`: seconds (None: no limit); `trials`: measurements; `wish`: whether a cached answer must
    have had as much (see `Budget.wish`); `again`: search although there is an answer."""

    share: float | None
    trials: int | None
    wish: bool
    strategy: str | None
    again: bool


def payload(entry: Entry, slot: FleetSlot, terms: EntryTerms, cache: Cache, unwritten: Iterable[Row] = ()) -> dict[str, Any]:
    """The job of an entry for a slot, with the rows of `cache`, and those on their way into it, that a search there begins from. Raises
    UsageError where a kernel cannot travel."""
    if entry.given is not None or entry.made is None:
        raise UsageError(f"{entry.title} cannot travel: its kernel has no name or file that another machine could make it from")
    if entry.objective != TIME:
        raise UsageError(f"{entry.title} cannot travel: a fleet tunes for the time; run `tune run --manifest` on its own machine")
    key = key_of(entry, slot)
    rows = [*(r for r in unwritten if r.key == key), *related(entry.made, entry.shape, key, cache)]
    return {
        "kernel": entry.kernel,
        "file": _file(entry),
        "hash": key.kernel,
        "shape": dict(entry.shape),
        "dtype": entry.dtype,
        "threads": key.threads,
        "seconds": terms.share,
        "trials": terms.trials,
        "wish": terms.wish,
        "strategy": terms.strategy,
        "start": entry.start,
        "random_seed": entry.random_seed,
        "again": terms.again,
        "rows": bundle(r for r in rows if not r.imported),
        "imported": bundle(r for r in rows if r.imported),
    }


def key_of(entry: Entry, slot: FleetSlot) -> Key:
    """The strict key of an entry on a slot's device."""
    from ..ir.normal_form.normalise import normalise
    from ..plan.identity import canonical_of

    assert entry.made is not None and slot.device is not None
    device = slot.device
    return Key(canonical_of(normalise(entry.made)).hash, device.target, entry.place.threads or device.threads, device.compiler)


def related(kernel: Kernel, shape: Mapping[str, int], key: Key, cache: Cache) -> list[Row]:
    """What a search of `key` may begin from: all that was measured for it, the newest first, and the winners of its neighbours. Nothing,
    where the cache cannot be read now: that costs a search some time, and no more."""
    from ..ir.normal_form.canonical import loose
    from ..ir.normal_form.normalise import normalise

    names = loose(normalise(kernel))
    try:
        own = cache.rows(kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy)
        near = cache.nearest(key, names.get("extents", ""), names.get("epilogue", ""), shape=shape)
    except CacheError as e:
        log.info("a search of %s begins from nothing: %s", kernel.name, e)
        return []
    own.sort(key=lambda r: (r.verified, r.when), reverse=True)
    return own[:MAX_RELATED] + near


def _file(entry: Entry) -> dict[str, str] | None:
    """A user's kernel file: its text and its digest; None for a kernel that has a name."""
    from .. import kernels

    if not kernels.is_path(entry.kernel):
        return None
    base, _ = kernels.split_name(entry.kernel)
    path, _ = kernels.split_path(base)
    try:
        raw = Path(path).read_bytes()
        if len(raw) > MAX_FILE:
            raise UsageError(f"{path} is larger than a kernel file that travels may be ({MAX_FILE} bytes)")
        return {"path": path, "name": Path(path).name, "text": raw.decode(), "sha256": hashlib.sha256(raw).hexdigest()}
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"cannot read the kernel file {path}: {e}") from None


# back ----------------------------------------------------------------------------------------------------------------
def rows_of(text: Any, key: Key, device: str) -> list[Row]:
    """The rows of a message: a bundle that speaks of `key` and nothing else. Raises FleetError."""
    try:
        if not isinstance(text, str):
            raise CacheError("no text")
        rows = bundles.loads((line.encode() for line in text.split("\n")), f"what {device} sent")
    except CacheError as e:
        raise FleetError(f"a worker sent rows that are none: {e}") from None
    if strange := next((r for r in rows if r.key != key), None):
        raise FleetError(f"a worker sent a row of another key ({strange.key}) than it was asked for ({key})")
    return rows


def result_of(data: Any, entry: Entry) -> Result:
    """A search's result from its JSON form. Raises FleetError for anything else."""
    from ..opts import parse

    try:
        opts, start_opts = (None if data[name] is None else parse(data[name]) for name in ("opts", "start_opts"))
        found = read(Result, data, unknown="ignore", whole=True, opts=opts or (), start_opts=start_opts)
    except (OptError, ValueError, TypeError, KeyError) as e:
        raise FleetError(f"a worker sent a result that cannot be read: {e}") from None
    # there, the kernel's file had another place
    return replace(found, kernel=entry.kernel, reproduce=found.reproduce.replace(found.kernel, entry.kernel))


def bundle(rows: Iterable[Row]) -> str:
    """Rows as a message."""
    return "\n".join(bundles.dumps(rows))
