"""Several caches and bundles as one.

Measurements are facts, so a merge is their union: nothing is chosen, changed or lost, and in which order things come
makes no difference. Two things do not travel, for they say something of the place that they were said in. Rows of a
bundle count as measured elsewhere, as they do for an import. And a schedule that somebody pinned on another machine
is no pin here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from . import bundles, layers
from .holdings import Holding, hold, kind_of
from .rows import Row
from .store import Cache


@dataclass(frozen=True, slots=True)
class Merged:
    """`added` and `known`: measurements of each input that were new in the result, and that it had; `unpinned`: pins of
    other machines that were left out; `total`: what the result holds now."""

    added: tuple[int, ...]
    known: tuple[int, ...]
    unpinned: int
    total: int


def merge(inputs: Sequence[Holding], into: str | os.PathLike[str], dry_run: bool = False) -> Merged:
    """Add all that `inputs` hold to the cache file, database URL or bundle `into` (a name that ends with .jsonl, or a
    bundle that is there), all or nothing. It is made where it is not there. Raises CacheError."""
    target = os.fspath(into)
    bundle = is_bundle(target)
    here = {identity(r): r for r in (_rows(target) if _there(target) else ())}
    added: list[int] = []
    known: list[int] = []
    fresh: dict[str, Row] = {}
    unpinned = 0
    for source in inputs:
        before = len(fresh)
        for row in source.rows:
            plain = identity(row)
            if plain in here or plain in fresh:
                continue
            kept, lost = _taken(row, source.kind == "bundle" and not bundle)
            unpinned += lost
            fresh[plain] = kept
        added.append(len(fresh) - before)
        known.append(len(source.rows) - added[-1])
    if not dry_run and (fresh or not _there(target)):
        if bundle:
            bundles.write([*here.values(), *fresh.values()], target)
        else:
            with Cache.open(target) as store:
                store.ensure_writable()
                store.record(fresh.values())
    return Merged(tuple(added), tuple(known), unpinned, len(here) + len(fresh))


def is_bundle(target: str) -> bool:
    """Whether a result is written as a bundle."""
    return kind_of(target) == "bundle" if _there(target) else target.endswith(".jsonl")


def identity(row: Row) -> str:
    """What identifies a measurement wherever it is: its digest without marks of the place that it is in."""
    return row.marked(imported=False).unpinned(row.run_id).digest


def _taken(row: Row, elsewhere: bool) -> tuple[Row, bool]:
    """The row as the result keeps it, and whether a pin was left out."""
    machine = row.facts.get("machine")
    host = machine.get("host") if isinstance(machine, dict) else None
    lost = row.pinned and (elsewhere or host != os.uname().nodename)
    kept = row.unpinned(row.run_id) if lost else row
    return (kept.marked(imported=True) if elsewhere else kept), lost


def _there(target: str) -> bool:
    place = layers.file_of(target)
    return place is None or place.exists()


def _rows(target: str) -> tuple[Row, ...]:
    return hold(target).rows
