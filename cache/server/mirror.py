"""This machine's copy of a server's rows: a cache file that look-ups read as any other, filled by change number.

It lies in the platform's folder for what can be made again. Rows of this machine that the server has not yet are in it
too; until they are sent they wait in a bundle, so nothing is lost with a mirror."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import uuid
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ...files import folders
from ...ir.errors import CacheError
from ..lookup import Reader
from ..recover import CacheWarning, Damaged, classify
from ..rows import COLUMNS, Row, now
from ..version import SCHEMA
from ..writer import Writer
from .address import Address
from .ahead import CheckedChanges, ReadAhead
from .records import Record
from .writer import ServerWriter

CHUNK = 10_000
"""Rows that are asked for, and written, at a time, at most: some ten megabytes."""
_CACHE_KIB = 65536
"""Memory for pages while rows are added: their digests lie anywhere in the index."""
_VERIFIED, _OUTCOME = COLUMNS.index("verified"), COLUMNS.index("outcome")
_TOGETHER = 1000
"""Rows that one statement adds. SQLite writes for tens of milliseconds then without holding up Python's other threads."""
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
        self.reader = Reader(self.path, elsewhere, kept=True)
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
        with ReadAhead(server, CHUNK) as ahead:
            ahead.begin(at.change, at.epoch)
            part = ahead.take()
            if again:  # now that the server has answered
                self.discard()
            if not self.path.is_file():
                self._make()
            with self._open() as c:
                while True:
                    c.execute("BEGIN IMMEDIATE")
                    here = _position(c) or _NOWHERE
                    mine = here.change == at.change  # else another process pulled too: go on from where it is
                    if mine:
                        more = _apply(c, part, fresh=part.new.again and at.change > 0)
                        added, gone, refused = added + more.added, gone + more.gone, refused + part.refused
                    c.execute("COMMIT")
                    if mine and not part.new.more:
                        break
                    at = Position(part.new.epoch, part.new.upto, "") if mine else here
                    if not mine:
                        ahead.begin(at.change, at.epoch)
                    part = ahead.take()
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
            _insert(c, [(*r.to_dict().values(), r.digest, r.key.hash) for r in rows])
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
        # whole before anybody sees it: another process may look for it at any moment
        made = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex[:8]}")
        try:
            writer = Writer(made)
            writer.prepare()
            writer.close()
            with contextlib.suppress(FileExistsError):
                os.link(made, self.path)
        finally:
            for tail in ("-wal", "-shm", ""):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{made}{tail}")

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
    return folders.made() / "mirrors"


def _position(c: sqlite3.Connection) -> Position | None:
    found = dict(c.execute("SELECT name, value FROM tilewright_meta WHERE name LIKE 'mirror.%'").fetchall())
    if not found.keys() >= set(_NAMES):
        return None
    epoch, change, pulled = (found[n] for n in _NAMES)
    if not change.isdecimal():
        raise Damaged("the mirror does not say how far it has come")
    return Position(epoch, int(change), pulled)


def _apply(c: sqlite3.Connection, part: CheckedChanges, *, fresh: bool) -> MirrorPull:
    """Deletions first: a row that is there now was added after its deletion."""
    new = part.new
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
    added = _insert(c, part.rows)
    c.executemany("INSERT OR REPLACE INTO tilewright_meta VALUES (?, ?)", zip(_NAMES, (new.epoch, str(new.upto), now()), strict=True))
    return MirrorPull(added, gone)


def _insert(c: sqlite3.Connection, values: list[Record]) -> int:
    """Add rows that are not there: fields, digest, hash of the key. How many were added."""
    names = (*COLUMNS, "digest", "key_hash")
    marks = f"({', '.join('?' * len(names))})"
    before = c.total_changes
    most = min(_TOGETHER, c.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(names))
    whole = len(values) - len(values) % most
    for n, rows in ((most, values[:whole]), (1, values[whole:])):
        given = (tuple(chain.from_iterable(rows[i : i + n])) for i in range(0, len(rows), n))
        c.executemany(f"INSERT OR IGNORE INTO measurement ({', '.join(map(_quoted, names))}) VALUES {', '.join([marks] * n)}", given)
    added = c.total_changes - before
    if added == len(values):
        _count_more(c, values)
    elif added:
        _count(c, {v[-1] for v in values})
    return added


def _count_more(c: sqlite3.Connection, values: list[Record]) -> None:
    """Add rows that were all new to the tally."""
    total = Counter([v[-1] for v in values])
    usable = Counter([v[-1] for v in values if v[_VERIFIED] and v[_OUTCOME] == "ok"])
    some = c.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // 3
    counts = [(k, n, usable[k]) for k, n in total.items()]
    for i in range(0, len(counts), some):
        part = counts[i : i + some]
        c.execute(
            f"INSERT INTO tilewright_tally VALUES {', '.join(['(?, ?, ?)'] * len(part))} "
            "ON CONFLICT (key_hash) DO UPDATE SET total = total + excluded.total, usable = usable + excluded.usable",
            tuple(chain.from_iterable(part)),
        )


def _quoted(name: str) -> str:
    return f'"{name}"'


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
