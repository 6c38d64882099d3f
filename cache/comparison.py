"""Caches, bundles and servers read whole (`hold`), compared key by key (`compare`), and merged into one (`merge`).

Unlike a `Cache`, nothing is made, migrated or moved aside by reading: a damaged file is an error, and so is one that is not there.

Measurements are facts, so a merge is their union: nothing is chosen, changed or lost, and the order of the inputs makes no difference.
Two things do not travel, because they describe the place where they were said. Rows of a bundle count as measured elsewhere, and a pin
of another cache is no pin here."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from ..ir.errors import CacheError
from . import bundles, layers, queries
from .file_check import Damaged, Newer
from .keys import Key
from .lookup import Reader
from .ranking import answers
from .rows import Row
from .store import Cache

Kind = Literal["file", "bundle", "server"]
_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Holding:
    """`place`: its name for people, without a password; `rows`: every measurement, each once."""

    place: str
    kind: Kind
    rows: tuple[Row, ...]


def hold(location: str | os.PathLike[str], checked: Callable[[bytes, str], None] | None = None) -> Holding:
    """Read all of a cache file, a bundle or a database URL. Raises CacheError where that is not possible.

    `checked`: called with a bundle's bytes and its name before they are read, to refuse it (a signature, say)."""
    name = os.fspath(location)
    file = layers.file_of(name)
    if file is None:
        with Cache.open(name) as store:
            if store.team is not None:
                store.team.refresh()
            return Holding(store.location, "server", tuple(store.rows()))
    path = file
    if kind_of(name) == "bundle":
        raw = bundles.content(path)
        if checked is not None:
            checked(raw, str(path))
        return Holding(str(path), "bundle", tuple(bundles.loads(raw.splitlines(keepends=True), str(path))))
    reader = Reader(path)
    try:
        return Holding(str(path), "file", tuple(reader.select(*queries.rows({}))))
    except Damaged as e:
        raise CacheError(f"{e}; a command that writes to it (`tune run`) moves it aside and saves what is intact") from None
    except Newer as e:
        raise CacheError(f"{path} was written by a later Tilewright ({e}): read it with that one") from None
    finally:
        reader.close()


def kind_of(location: str | os.PathLike[str]) -> Kind:
    """What is at a path or URL. Raises CacheError where a file is missing, or is no cache and cannot be a bundle."""
    name = os.fspath(location)
    path = layers.file_of(name)
    if path is None:
        return "server"
    try:
        if path.is_dir():
            raise CacheError(f"{path} is a folder: name the cache file or the bundle in it")
        if not path.is_file():
            # a pipe is read once, so it is not looked into: only a bundle can come through one
            path.stat()
            return "bundle"
        with open(path, "rb") as f:
            start = f.read(len(_MAGIC))
    except OSError as e:
        raise CacheError(f"cannot read {path}: {e.strerror}") from None
    return "file" if start == _MAGIC or not start else "bundle"


class Difference(StrEnum):
    """What becomes of a key's answer between two caches."""

    only_a = "only in A"
    only_b = "only in B"
    schedule = "other schedule"
    same = "same"
    """The same schedule answers; its times may be of different runs."""
    none = "no answer"
    """Neither has an answer: there are failures or unverified measurements only."""


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """One key. `about`: a row of it, for its name and shape; `a`, `b`: the rows that answer (see `choice`), None for
    none; `both`, `more_a`, `more_b`: how many measurements both have, and only one."""

    key: Key
    about: Row
    state: Difference
    a: Row | None
    b: Row | None
    both: int
    more_a: int
    more_b: int

    @property
    def ratio(self) -> float | None:
        """B's time over A's, None without both."""
        if self.a is None or self.b is None or not self.a.t_med or self.b.t_med is None:
            return None
        return (self.b.t_min or self.b.t_med) / (self.a.t_min or self.a.t_med)


def compare(a: Iterable[Row], b: Iterable[Row]) -> list[KeyDifference]:
    """Every key of either side, by name, dtype, shape, target and threads. A measurement that came with a bundle is
    the one that it was where it was made."""
    left, right = _by_key(a), _by_key(b)
    return sorted((_key_difference(k, left.get(k, ()), right.get(k, ())) for k in left.keys() | right.keys()), key=_order)


def _key_difference(key: Key, a: Iterable[Row], b: Iterable[Row]) -> KeyDifference:
    rows_a, rows_b = list(a), list(b)
    best_a, best_b = (next(iter(answers(rows)), None) for rows in (rows_a, rows_b))
    seen_a, seen_b = ({r.marked(imported=False).digest for r in rows} for rows in (rows_a, rows_b))
    if best_a is None and best_b is None:
        state = Difference.none
    elif best_a is None:
        state = Difference.only_b
    elif best_b is None:
        state = Difference.only_a
    else:
        state = Difference.same if best_a.opts == best_b.opts else Difference.schedule
    about = best_a or best_b or (rows_a or rows_b)[-1]
    return KeyDifference(key, about, state, best_a, best_b, len(seen_a & seen_b), len(seen_a - seen_b), len(seen_b - seen_a))


def _by_key(rows: Iterable[Row]) -> Mapping[Key, list[Row]]:
    out: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        out[row.key].append(row)
    return out


def _order(d: KeyDifference) -> tuple[str, str, list[tuple[str, int]], str, int, str]:
    r = d.about
    return r.name, r.dtype, sorted(r.shape_dict.items()), r.target, r.threads, r.key.hash


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
    here = {identity(r): r for r in (_rows(target) if _is_present(target) else ())}
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
            kept, lost = _as_compared(row, source.kind == "bundle" and not bundle)
            unpinned += lost
            fresh[plain] = kept
        added.append(len(fresh) - before)
        known.append(len(source.rows) - added[-1])
    if not dry_run and (fresh or not _is_present(target)):
        if bundle:
            bundles.write([*here.values(), *fresh.values()], target)
        else:
            with Cache.open(target) as store:
                store.ensure_writable()
                store.record(fresh.values())
    return Merged(tuple(added), tuple(known), unpinned, len(here) + len(fresh))


def is_bundle(target: str) -> bool:
    """Whether a result is written as a bundle."""
    return kind_of(target) == "bundle" if _is_present(target) else target.endswith(".jsonl")


def identity(row: Row) -> str:
    """What identifies a measurement wherever it is: its digest without marks of the place that it is in."""
    return row.marked(imported=False).unpinned(row.run_id).digest


def _as_compared(row: Row, elsewhere: bool) -> tuple[Row, bool]:
    """The row as the result keeps it, and whether a pin was left out."""
    machine = row.facts.get("machine")
    host = machine.get("host") if isinstance(machine, dict) else None
    lost = row.pinned and (elsewhere or host != os.uname().nodename)
    kept = row.unpinned(row.run_id) if lost else row
    return (kept.marked(imported=True) if elsewhere else kept), lost


def _is_present(target: str) -> bool:
    place = layers.file_of(target)
    return place is None or place.exists()


def _rows(target: str) -> tuple[Row, ...]:
    return hold(target).rows
