"""The fast read path: stdlib sqlite3, read-only, with a memo in memory. Never imports SQLAlchemy.

A look-up in the memo costs one stat (was the file replaced?) and one `PRAGMA data_version` (did anyone commit?).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..ir.errors import CacheError
from . import file_check, queries
from .file_check import ELSEWHERE, CacheWarning, Damaged, Newer, Older, Stranger, Unreadable, classify, schema_of
from .keys import Key
from .ranking import answers
from .rows import COLUMNS, Row, digest_of, from_dict
from .version import OLDEST, SCHEMA

T = TypeVar("T")
MEMO = 4096
"""Keys remembered; the memo starts again when it is full."""

_TRIES = 8
"""How often a file is read again that cannot be read, or changes each time."""

_BOOLS = tuple(c for c in COLUMNS if c == "verified")


class Reader:
    """Reads one SQLite file. A missing or empty file reads as an empty cache. Usable from several threads, and after a fork.

    Raises Damaged, Newer, Older (see `recover`) or CacheError."""

    def __init__(self, path: str | os.PathLike[str], elsewhere: bool = False, kept: bool = False) -> None:
        """`elsewhere`: others fill this file (see `choice`). `kept`: its name is ours, so what is no cache there is damage."""
        self.path = os.path.abspath(path)
        self.elsewhere, self.kept = elsewhere, kept
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, ...] = ()
        self._version = -1
        self._immutable = False
        self._tallied = False
        self._memo: dict[Key, tuple[Row, ...]] = {}

    def answers(self, key: Key) -> tuple[Row, ...]:
        """The rows that may answer a look-up of `key`, the best first (see `choice`)."""

        def look(connection: sqlite3.Connection) -> tuple[Row, ...]:
            if key in self._memo:
                return self._memo[key]
            self._check_tally(connection, key)
            found = self._select(connection, queries.ANSWERS, {"key": key.hash})
            if len(self._memo) >= MEMO:
                self._memo.clear()
            rows = self._memo[key] = tuple(answers(found, elsewhere=self.elsewhere))
            return rows

        return self._asked(look, ())

    def select(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Rows of a query over `queries.FIELDS`."""
        return self._asked(lambda connection: self._select(connection, sql, parameters), [])

    def state(self) -> str:
        """A text that changes with the rows."""
        return str([[*row.values()] for row in self.table(queries.STATE)])

    def table(self, sql: str) -> list[dict[str, Any]]:
        """Any query, as dictionaries by column."""

        def look(connection: sqlite3.Connection) -> list[dict[str, Any]]:
            try:
                cursor = connection.execute(sql)
                names = [d[0] for d in cursor.description]
                return [dict(zip(names, r, strict=True)) for r in cursor]
            except sqlite3.Error as e:
                raise self._failed(e) from None

        return self._asked(look, [])

    def close(self) -> None:
        """Let go of the file; the next look-up opens it again."""
        with self._lock:
            self._drop()

    def _asked(self, look: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """What `look` finds; `nothing` without tables. A file that changed meanwhile is asked again: what was read without locks may be
        of two states, and a log that somebody ends at that moment cannot be opened."""
        with self._lock:
            tries = 0
            while True:
                careful = tries > 0 or self._connection is None or self._immutable
                before = self._now(True) if careful else ()
                try:
                    connection = self._fresh(tries > 0 or not careful)
                    found = nothing if connection is None else look(connection)
                except (Stranger, Newer, Older, Unreadable):
                    raise
                except CacheError:  # times of files are too coarse to tell whether somebody was at it
                    if tries == _TRIES:
                        raise
                else:
                    sure = not careful or (connection is not None and not self._immutable)
                    if sure or tries == _TRIES or before == self._now(True):
                        return found
                self._drop()
                tries += 1
                time.sleep(0.001 * tries)

    def _check_tally(self, connection: sqlite3.Connection, key: Key) -> None:
        """A damaged index hides rows without a word: as many must be found as were written."""
        if not self._tallied:
            return
        try:
            found, found_usable, total, usable = connection.execute(queries.TALLIES, {"key": key.hash}).fetchone()
        except sqlite3.Error as e:
            raise self._failed(e) from None
        if (found, found_usable) != (total or 0, usable or 0):
            self._drop()
            raise Damaged(f"the cache {self.path} is damaged (of {total or 0} measurements of a key, {found} are found)")

    def _select(self, connection: sqlite3.Connection, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        try:
            return to_rows(connection.execute(sql, dict(parameters)), self.path)
        except sqlite3.Error as e:
            raise self._failed(e) from None
        except Damaged:
            self._drop()
            raise

    def _fresh(self, locking: bool) -> sqlite3.Connection | None:
        """An open connection; the memo holds nothing that is older than the file."""
        identity = self._now(self._immutable)
        if not identity:
            self._drop()
            return None
        try:
            if self._connection is None or identity != self._identity:
                self._drop()
                before = self._now(True)  # what is written from here on is seen by the next look
                if not self._open(locking):
                    return None
                self._identity = before if self._immutable else identity[:3]
            assert self._connection is not None
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as e:
            raise self._failed(e) from None
        if version != self._version:
            self._memo.clear()
            self._version = version
        return self._connection

    def _now(self, immutable: bool) -> tuple[int, ...]:
        """What the file is at the moment, () where there is none. An immutable connection sees no commits: there the file's time, its
        size, and whether it has a log have to tell."""
        try:
            st = os.stat(self.path)
        except FileNotFoundError:
            return ()
        except OSError as e:
            raise Unreadable(f"cannot read the cache {self.path}: {e.strerror}; {ELSEWHERE}") from None
        log = (st.st_mtime_ns, st.st_size, os.path.exists(file_check.log_of(self.path))) if immutable else ()
        return (os.getpid(), st.st_ino, st.st_dev, *log)

    def _open(self, locking: bool) -> bool:
        """Connect; False for a file without tables. Immutable where a log would have to be made first, and on read-only media, where
        none can be. Raises Stranger for a file that is not ours."""
        try:
            if not file_check.check(self.path):
                return False
        except Stranger as e:
            raise (Damaged(f"the cache {self.path} is damaged ({e})") if self.kept else e) from None
        for immutable in (False, True) if locking or not file_check.at_rest(self.path) else (True,):
            connection = file_check.reading(self.path, immutable)
            try:
                found = schema_of(connection, self.path)
                break
            except sqlite3.OperationalError as e:
                connection.close()
                log = file_check.log_of(self.path)
                logged = os.path.exists(log) and os.path.getsize(log) > 0
                if immutable or logged or e.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                    raise
            except BaseException:
                connection.close()
                raise
        if found is None or not OLDEST <= found <= SCHEMA:
            connection.close()
            if found is None:
                return False
            raise Newer(found) if found > SCHEMA else Older(f"the cache {self.path} has schema {found}, this Tilewright reads {SCHEMA}")
        self._connection, self._immutable, self._tallied = connection, immutable, found >= 2
        return True

    def _drop(self) -> None:
        # a connection opened before a fork is not ours to close: only forget it
        if self._connection is not None and self._identity[0] == os.getpid():
            self._connection.close()
        elif self._connection is not None:
            _ORPHANS.append(self._connection)
        self._connection, self._version, self._immutable = None, -1, False
        self._memo.clear()

    def _failed(self, error: sqlite3.Error) -> CacheError:
        self._drop()
        return classify(error, self.path, "read")


_ORPHANS: list[sqlite3.Connection] = []
_READERS: dict[str, Reader] = {}


def reader(path: str | os.PathLike[str]) -> Reader:
    """The process's one Reader of a file."""
    # absolute names only are keys: a relative one means another file after a change of directory
    found = _READERS.get(os.fspath(path))
    if found is None:
        name = os.path.abspath(path)
        found = _READERS.get(name) or _READERS.setdefault(name, Reader(name))
    return found


def lookup(path: str | os.PathLike[str], key: Key) -> Row | None:
    """The row that answers a look-up of `key` in the SQLite cache at `path` (see `choice`); None where there is none
    or no file. The first call after import takes about a millisecond, a repeated one some microseconds; a commit by
    any process is seen by the next call."""
    found = reader(path).answers(key)
    return found[0] if found else None


def to_rows(records: Iterable[Iterable[Any]], place: str) -> list[Row]:
    """Rows of a query over `queries.FIELDS`. One that does not hold what a row must is left out with a warning; one
    that is not what was written (its digest differs) raises Damaged."""
    out: list[Row] = []
    for record in records:
        *content, digest = record
        values = dict(zip(COLUMNS, content, strict=True))
        for c in _BOOLS:
            values[c] = bool(values[c])
        try:
            row = from_dict(values)
        except CacheError as e:
            if digest_of(values) != digest:
                raise Damaged(f"the cache {place} is damaged (a row is not what was written: {e})") from None
            warnings.warn(f"a row of the cache {place} is ignored: {e}", CacheWarning, stacklevel=3)
            continue
        if row.digest != digest:
            raise Damaged(f"the cache {place} is damaged (a row is not what was written)")
        out.append(row)
    return out
