"""This machine's copy of a server's rows: a cache file that look-ups read as any other, filled by change number.

It lies in the platform's folder for what can be made again. Rows of this machine that the server has not yet are in it
too; until they are sent they wait in a bundle, so nothing is lost with a mirror."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...ir.errors import CacheError
from ..keys import FIELDS as KEY_FIELDS
from ..keys import Key
from ..lookup import Reader
from ..recover import CacheWarning, Damaged, classify
from ..rows import COLUMNS, Row, digest_of_record, now, objective_in
from ..version import SCHEMA
from ..writer import Writer
from .address import Address
from .writer import Changes, ServerWriter

CHUNK = 20_000
"""Rows that are asked for, and written, at a time: some ten megabytes."""
_CACHE_KIB = 65536
"""Memory for pages while rows are added: their digests lie anywhere in the index."""
_NAMES = ("mirror.epoch", "mirror.change", "mirror.pulled")
_WAIT_S = 30.0


@dataclass(frozen=True)
class MirrorPull:
    """What a pull did: rows that are new here, rows that are gone, rows that were not what somebody wrote."""

    added: int
    gone: int
    refused: int = 0


@dataclass(frozen=True)
class Position:
    """How far a mirror has come, and when it last asked (UTC, ISO 8601)."""

    epoch: str
    change: int
    pulled: str


_NOWHERE = Position("", 0, "")


class Mirror:
    """The mirror of one server. `elsewhere`: its rows count as measured elsewhere, whatever they say (see `choice`)."""

    def __init__(self, address: Address, elsewhere: bool = False) -> None:
        # a later schema has a file of its own, so no version moves another's aside
        self.path = folder() / f"{address.name}.v{SCHEMA}.db"
        self.reader = Reader(self.path, elsewhere)
        self._filled = False

    @property
    def there(self) -> bool:
        """Whether it was ever filled."""
        if not self._filled:
            self._filled = self.position() is not None
        return self._filled

    def position(self) -> Position | None:
        """How far it has come; None where there is none. Raises CacheError."""
        if not self.path.is_file():
            return None
        with self._open() as c:
            return _position(c)

    def pull(self, server: ServerWriter, again: bool = False) -> MirrorPull:
        """Take in what is new on the server, and drop what is gone there. `again`: everything anew. Raises CacheError; what came
        until then stays."""
        added = gone = refused = 0
        at = _NOWHERE if again else self.position() or _NOWHERE
        new = server.changes(at.change, at.epoch, CHUNK)
        if again:  # now that the server has answered
            self.discard()
        if not self.path.is_file():
            self._make()
        with self._open() as c, ThreadPoolExecutor(1) as ahead:
            while True:
                # the server reads the next ones while these are checked and written
                coming = ahead.submit(server.changes, new.upto, new.epoch, CHUNK) if new.more else None
                values, bad = _checked(new.records)
                c.execute("BEGIN IMMEDIATE")
                here = _position(c) or _NOWHERE
                mine = here.change == at.change  # else another process pulled too: go on from where it is
                if mine:
                    more = _apply(c, new, values, fresh=new.again and at.change > 0)
                    added, gone, refused = added + more.added, gone + more.gone, refused + bad
                c.execute("COMMIT")
                if mine and coming is None:
                    break
                at = Position(new.epoch, new.upto, "") if mine else here
                new = coming.result() if mine and coming is not None else server.changes(at.change, at.epoch, CHUNK)
        if refused:
            warnings.warn(
                f"{refused} rows of the cache {server.place} are not what was written there; they are left out", CacheWarning, stacklevel=3
            )
        return MirrorPull(added, gone, refused)

    def add(self, rows: Iterable[Row]) -> None:
        """Rows of this machine, at once: a pull that brings them again changes nothing. Raises CacheError."""
        if not self.there:
            return  # the first pull makes it
        with self._open() as c:
            c.execute("BEGIN IMMEDIATE")
            _insert(c, [(r.digest, r.key.hash, *r.to_dict().values()) for r in rows])
            c.execute("COMMIT")

    def discard(self) -> None:
        """Delete it: a damaged one is made again."""
        self.close()
        self._filled = False
        for tail in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}{tail}")

    def close(self) -> None:
        """Let go of the file."""
        self.reader.close()

    def _make(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise CacheError(f"cannot make the folder {self.path.parent} for the mirror ({e.strerror}): set XDG_CACHE_HOME") from None
        writer = Writer(self.path)
        writer.prepare()
        writer.close()

    @contextlib.contextmanager
    def _open(self) -> Any:
        try:
            with contextlib.closing(sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True, timeout=_WAIT_S, isolation_level=None)) as c:
                c.execute("PRAGMA journal_mode = WAL")
                c.execute("PRAGMA synchronous = OFF")  # what a power cut damages is made again
                c.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                c.execute("PRAGMA temp_store = MEMORY")
                c.execute("PRAGMA wal_autocheckpoint = 20000")
                yield c
        except sqlite3.Error as e:
            raise classify(e, str(self.path)) from None


def folder() -> Path:
    """Where mirrors lie."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("tilewright", appauthor=False)) / "mirrors"


def _position(c: sqlite3.Connection) -> Position | None:
    found = dict(c.execute("SELECT name, value FROM tilewright_meta WHERE name LIKE 'mirror.%'").fetchall())
    if not found.keys() >= set(_NAMES):
        return None
    epoch, change, pulled = (found[n] for n in _NAMES)
    if not change.isdecimal():
        raise Damaged("the mirror does not say how far it has come")
    return Position(epoch, int(change), pulled)


def _checked(records: Iterable[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], int]:
    """(digest, hash of the key, fields) of each row that is what was written, and how many are not. Whether the fields
    make sense is asked when they are read, as of any file."""
    hashes: dict[tuple[Any, ...], str] = {}
    places = [COLUMNS.index(f) for f in KEY_FIELDS]
    told = COLUMNS.index("provenance")
    out, bad = [], 0
    for *content, digest in records:
        if digest_of_record(content) != digest:
            bad += 1
            continue
        key = (*(content[p] for p in places), objective_in(content[told]))
        if key not in hashes:
            hashes[key] = Key(*key).hash  # a row under another key's hash would answer for it
        out.append((digest, hashes[key], *content))
    return out, bad


def _apply(c: sqlite3.Connection, new: Changes, values: list[tuple[Any, ...]], *, fresh: bool) -> MirrorPull:
    """Deletions first: a row that is there now was added after its deletion."""
    gone = 0
    if fresh:
        gone = c.execute("DELETE FROM measurement").rowcount
        c.execute("DELETE FROM tilewright_tally")
    elif new.deleted:
        c.execute("CREATE TEMP TABLE gone (digest TEXT PRIMARY KEY)")
        c.executemany("INSERT OR IGNORE INTO gone VALUES (?)", [(d,) for d in new.deleted])
        touched = [k for (k,) in c.execute("SELECT DISTINCT key_hash FROM measurement WHERE digest IN (SELECT digest FROM gone)")]
        gone = c.execute("DELETE FROM measurement WHERE digest IN (SELECT digest FROM gone)").rowcount
        _count(c, touched)
        c.execute("DROP TABLE gone")
    added = _insert(c, values)
    c.executemany("INSERT OR REPLACE INTO tilewright_meta VALUES (?, ?)", zip(_NAMES, (new.epoch, str(new.upto), now()), strict=True))
    return MirrorPull(added, gone)


def _insert(c: sqlite3.Connection, values: list[tuple[Any, ...]]) -> int:
    """Add rows that are not there; how many were added."""
    names = ", ".join(f'"{n}"' for n in ("digest", "key_hash", *COLUMNS))
    marks = ", ".join("?" * (2 + len(COLUMNS)))
    before = c.total_changes
    c.executemany(f"INSERT OR IGNORE INTO measurement ({names}) VALUES ({marks})", values)
    added = c.total_changes - before
    if added:
        _count(c, {v[1] for v in values})
    return added


def _count(c: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Bring the tally of these keys up to date."""
    c.execute("CREATE TEMP TABLE touched (key_hash TEXT PRIMARY KEY)")
    c.executemany("INSERT OR IGNORE INTO touched VALUES (?)", [(k,) for k in keys])
    c.execute("DELETE FROM tilewright_tally WHERE key_hash IN (SELECT key_hash FROM touched)")
    c.execute(
        "INSERT INTO tilewright_tally SELECT key_hash, COUNT(*), SUM(verified AND outcome = 'ok') FROM measurement "
        "WHERE key_hash IN (SELECT key_hash FROM touched) GROUP BY key_hash"
    )
    c.execute("DROP TABLE touched")
