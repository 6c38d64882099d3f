"""A team's cache as one object: the server that is written, and the mirror that is read.

Look-ups read the mirror and never wait for the server; the first one of a machine, which has no mirror yet, fetches it. Everything that
lists rows asks for what is new first, as far as the server answers."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from ...files import folders
from ...files.strict import AS_JSON
from ...ir.errors import CacheError
from ..file_check import CacheWarning, Damaged, Older, classify
from ..keys import FIELDS as KEY_FIELDS
from ..keys import Key
from ..lookup import Reader
from ..rows import COLUMNS, TYPES, Row, digest_of_record, now, objective_in
from ..version import SCHEMA
from ..writer import Writer
from .address import Address
from .server_errors import Forbidden, Unreachable
from .server_writer import Changes, ServerWriter

# mirror -----------------------------------------------------------------------------------------------------
# This machine's copy of a server's rows: a cache file that look-ups read as any other, filled by change number.
#
# It lies in the platform's folder for what can be made again. Rows of this machine that the server has not yet are in
# it too; until they are sent they wait in a bundle, so nothing is lost with a mirror.


# records ----------------------------------------------------------------------------------------------------
# Rows as a server sends them, checked.


Record = tuple[Any, ...]
_key = itemgetter(*map(COLUMNS.index, KEY_FIELDS))
_PROVENANCE = COLUMNS.index("provenance")
_SORTED = sorted(COLUMNS)
_PLACES = [(at, COLUMNS.index(c), f'{"," if at else "{"}"{c}":', TYPES[c][0] is str) for at, c in enumerate(_SORTED)]
_TEXTS = [(at, i, name) for at, i, name, text in _PLACES if text]
_OTHERS = [(at, i, name) for at, i, name, text in _PLACES if not text]


class RecordDigests:
    """`digest_of_record` of one record after another. Rows of one search come together and have most texts in common, so a text is
    encoded only where it differs from the one before."""

    def __init__(self) -> None:
        self._pieces = [""] * len(_SORTED) + ["}"]
        self._last: list[str | None] = [None] * len(_SORTED)

    def of(self, record: Record) -> str:
        """The digest of a record's fields, in the order of `COLUMNS`; what follows them is ignored."""
        pieces, last = self._pieces, self._last
        try:
            for at, i, name in _TEXTS:
                text = record[i]
                if text != last[at]:
                    pieces[at], last[at] = name + encode_basestring_ascii(text), text
            for at, i, name in _OTHERS:
                value = record[i]
                pieces[at] = name + AS_JSON[type(value)](value)
        except (KeyError, TypeError):  # a value of another type than its column's
            return digest_of_record(record)
        return hashlib.sha256("".join(pieces).encode()).hexdigest()


def checked(records: Iterable[Record], hashes: dict[Record, str]) -> tuple[list[Record], int]:
    """The records of `queries.FIELDS`: each that is what was written, with the hash of its key at the end, and how many are not. Whether
    the fields make sense is asked when they are read, as of any file. `hashes`: those of keys that were met before."""
    out, bad, digests = [], 0, RecordDigests()
    for record in records:
        if digests.of(record) != record[-1]:
            bad += 1
            continue
        key = (*_key(record), objective_in(record[_PROVENANCE]))
        known = hashes.get(key)
        if known is None:
            known = hashes[key] = Key(*key).hash  # a row under another key's hash would answer for it
        out.append((*record, known))
    return out, bad


# ahead ------------------------------------------------------------------------------------------------------
# What is new on a server, ahead of whoever writes it down: while one part is written, the next is checked and the one
# after it read.
#
# The server, the check (Python) and SQLite (which works without holding up Python's other threads) are busy at the same
# time then.


@dataclass(frozen=True)
class CheckedChanges:
    """Changes with their records checked: `rows` as `records.checked` gives them, and how many records were refused."""

    new: Changes
    rows: list[Record]
    refused: int


FIRST = 2_000
"""Rows of the first part: few, so that checking and writing begin soon, and that a slow line carries them in time."""
QUICK_S = 1.0
"""After a part that came in less, the next one is twice as large."""


class ReadAhead:
    """Changes of `server`, at most `most` rows at a time. A context manager; `begin` first."""

    def __init__(self, server: ServerWriter, most: int) -> None:
        self._server, self._most, self._chunk = server, most, min(FIRST, most)
        self._reading, self._checking = ThreadPoolExecutor(1, "reads ahead"), ThreadPoolExecutor(1, "checks ahead")
        self._hashes: dict[Record, str] = {}
        self._read: Future[Changes]
        self._checked: Future[CheckedChanges] | None = None

    def begin(self, after: int, epoch: str) -> None:
        """Go on behind change number `after` of `epoch`, wherever it was before."""
        if self._checked is not None:
            wait([self._checked])
        self._read = self._reading.submit(self._changes, after, epoch)
        self._checked = self._checking.submit(self._check, self._read)

    def take(self) -> CheckedChanges:
        """The next part. Raises what `ServerWriter.changes` does."""
        assert self._checked is not None
        part = self._checked.result()
        if part.new.more:
            self._checked = self._checking.submit(self._check, self._read)
        return part

    def _changes(self, after: int, epoch: str) -> Changes:
        begun = time.monotonic()
        new = self._server.changes(after, epoch, self._chunk)
        if time.monotonic() - begun < QUICK_S:
            self._chunk = min(2 * self._chunk, self._most)
        return new

    def _check(self, read: Future[Changes]) -> CheckedChanges:
        new = read.result()
        if new.more:
            self._read = self._reading.submit(self._changes, new.upto, new.epoch)
        return CheckedChanges(new, *checked(new.records, self._hashes))

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pool in (self._reading, self._checking):
            pool.shutdown(wait=True, cancel_futures=True)


# mirror -----------------------------------------------------------------------------------------------------
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


# team -------------------------------------------------------------------------------------------------------
QUIET_S = 30.0
"""How long a server that did not answer is left alone by what can do without it."""

HURRY_S = 0.9
"""How long a server is waited for where there is a mirror already (see `writer.HURRIED_S`)."""


class Team:
    """One server and this machine's mirror of it. `elsewhere`: its rows count as measured elsewhere."""

    def __init__(self, address: Address, elsewhere: bool = False) -> None:
        self.address = address
        self.mirror = Mirror(address, elsewhere)
        self.writer = ServerWriter(address)
        self._quiet_until = 0.0

    def pull(self, again: bool = False) -> MirrorPull:
        """Bring the mirror up to date; tables of an earlier schema are migrated where this user may. Raises CacheError."""
        try:
            return self._pull(again)
        except Damaged:
            return self._pull(True)

    def _pull(self, again: bool) -> MirrorPull:
        try:
            return self.mirror.pull(self.writer, again)
        except Older as old:
            try:
                self.writer.prepare()
            except Forbidden:
                raise old from None
            return self.mirror.pull(self.writer, again)

    def fetch(self) -> None:
        """See that there is a mirror. Raises CacheError where there is none and the server does not answer."""
        if not self.mirror.there:
            self.pull()

    def refresh(self) -> None:
        """Bring the mirror up to date as far as the server answers; says so where it does not. Raises CacheError where there is no
        mirror either, or this user may not read the server."""
        if time.monotonic() < self._quiet_until and self.mirror.there:
            return
        patience, self.writer.patience_s = self.writer.patience_s, HURRY_S if self.mirror.there else self.writer.patience_s
        try:
            self.pull()
        except Unreachable as e:
            if not self.mirror.there:
                raise
            self.went_away(e)
        finally:
            self.writer.patience_s = patience

    def push(self, rows: list[Row]) -> int:
        """Add rows to the server; how many it did not have. Raises CacheError."""
        sent = self.writer.record(rows) if rows else 0
        self.add(rows)
        return sent

    def add(self, rows: list[Row]) -> None:
        """Let rows of this machine answer here at once, whether the server has them or not."""
        try:
            self.mirror.add(rows)
        except CacheError as e:
            warnings.warn(f"the mirror of {self.address} is behind until the next pull: {e}", CacheWarning, stacklevel=4)

    def renew(self) -> None:
        """Make a damaged mirror again. Raises CacheError where the server does not answer."""
        warnings.warn(f"the mirror of {self.address} is damaged and made anew", CacheWarning, stacklevel=4)
        self.mirror.discard()
        self.fetch()

    def dropped(self, reader: Reader, error: CacheError) -> None:
        """Somebody cannot read `reader`: where that is this mirror, and it is damaged, the next pull makes it anew."""
        if reader is self.mirror.reader and isinstance(error, Damaged):
            self.mirror.discard()

    def went_away(self, error: Unreachable) -> None:
        """Say that the server does not answer, and leave it alone for a while."""
        self._quiet_until = time.monotonic() + QUIET_S
        at = self.mirror.position()
        since = f" of {at.pulled[:16].replace('T', ' ')} UTC" if at is not None else ""
        warnings.warn(f"{error}. Until then its mirror{since} is read", CacheWarning, stacklevel=4)

    def close(self) -> None:
        """Let go of the connection and of the file."""
        self.mirror.close()
        self.writer.close()
