"""Whether a file is a cache of ours, told by its bytes alone: SQLite is not asked, for opening a database may change it.

A cache file says so in its header, by SQLite's application id. Files of before that have our tables' names near their beginning."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import NamedTuple

from ..files.kinds import APPLICATION, SQLITE, application, named, opened
from ..ir.errors import CacheError
from .version import SCHEMA

_NAMES = (b"tilewright_meta", b"tilewright_tally")
_SEARCHED = 1 << 20
"""Bytes from the beginning, of the file and of its log, in which our tables are named: they were made first."""
_LEAF, _CELLS, _VERSIONS = 100, 103, 18
"""Where the page that lists the tables says that it is a leaf (13), and how many entries it has; where the header says by two 2s that a
log is written."""


class _Looked(NamedTuple):
    """A file that was looked at: which it is, when it was written and how large it was, and whether it has a log when it is written."""

    file: tuple[int, int]
    state: tuple[int, int]
    logged: bool


_LOOKED: dict[str, _Looked] = {}
"""By path. A file is opened here only once a process, before SQLite has it open: POSIX drops all of a process's locks on a file when
any descriptor of it is closed."""


def check(path: str | os.PathLike[str], again: bool = False) -> int:
    """Raise Stranger where something is there that Tilewright did not make, Unreadable where it cannot be read. The bytes that are
    there: 0 for a missing or an empty file, which is as good as a cache. `again`: nobody here has the file open, so look once more."""
    name = os.path.abspath(path)
    try:
        known = _LOOKED.get(name)
        if known is not None and not again and known.file == _which(st := os.stat(name)):
            return st.st_size
        fd = opened(name)
        if fd is None:
            return 0
        try:
            found = os.fstat(fd)
            why = _why(fd, found, name)
            if why is None and found.st_size:
                _LOOKED[name] = _Looked(_which(found), _when(found), os.pread(fd, 2, _VERSIONS) == b"\x02\x02")
        finally:
            os.close(fd)
    except FileNotFoundError:
        return 0
    except OSError as e:
        raise Unreadable(f"cannot read the cache {path}: {e.strerror}; {ELSEWHERE}") from None
    if why is not None:
        raise Stranger(f"{path} is not a Tilewright cache, {why}: it was left as it is; {ELSEWHERE}")
    return found.st_size


def _which(st: os.stat_result) -> tuple[int, int]:
    return st.st_dev, st.st_ino


def _when(st: os.stat_result) -> tuple[int, int]:
    return st.st_mtime_ns, st.st_size


def _why(fd: int, found: os.stat_result, path: str) -> str | None:
    if not stat.S_ISREG(found.st_mode):
        return "but a folder" if stat.S_ISDIR(found.st_mode) else "but no regular file"
    head = os.pread(fd, _SEARCHED, 0)
    if not head or application(head) == APPLICATION:
        return None  # also where the first bytes are damaged
    if not head.startswith(SQLITE):
        return f"but {named(fd, head)}"
    log = _log(path)
    if not application(head) and not log and head[_LEAF : _LEAF + 1] == b"\x0d" and head[_CELLS : _CELLS + 2] == b"\0\0":
        return None  # without any table
    return None if any(name in text for name in _NAMES for text in (head, log)) else "but a database of another program"


def log_of(path: str) -> str:
    """Where SQLite keeps the log of a database: beside the file that a link names."""
    return f"{os.path.realpath(path)}-wal"


def _log(path: str) -> bytes:
    try:
        with open(log_of(path), "rb") as f:
            return f.read(_SEARCHED)
    except OSError:
        return b""


def at_rest(path: str) -> bool:
    """Whether a file that was checked has a log when it is written, and has none now: then reading it must not make one."""
    known = _LOOKED.get(os.path.abspath(path))
    if known is None or not known.logged or os.path.exists(log_of(path)):
        return False
    try:
        return known.state == _when(os.stat(path))
    except OSError:
        return False


def reading(path: str, immutable: bool) -> sqlite3.Connection:
    """A connection that only reads. `immutable`: nobody writes meanwhile, so neither locks nor a log are needed."""
    uri = f"{Path(path).as_uri()}?mode=ro{'&immutable=1' * immutable}"
    return sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False)


# file errors ------------------------------------------------------------------------------------------------
# What to do about a cache file that cannot be used: whoever writes moves it aside with a warning, whoever reads leaves it alone.


ELSEWHERE = "choose another place with --cache PATH or the environment variable TILEWRIGHT_CACHE"


class CacheWarning(UserWarning):
    """Something about the cache that the user should know, though work goes on."""


class Damaged(CacheError):
    """The file is not a readable database."""


class Newer(CacheError):
    """The file was written by a later Tilewright."""

    def __init__(self, version: int, reads: int = SCHEMA) -> None:
        super().__init__(f"the cache has schema {version}, this Tilewright reads {reads}: upgrade it, or {ELSEWHERE}")
        self.version = version


class Stranger(CacheError):
    """What is there is not a cache of ours: nobody changes it."""


class Unreadable(CacheError):
    """The system does not let this user look into it."""


class Older(CacheError):
    """The file has an earlier schema and waits for its migration."""


class Busy(CacheError):
    """Another process or thread holds the file."""


def classify(error: Exception, place: str, doing: str = "write") -> CacheError:
    """A database driver's error as one that says what to do. `place` is the path or URL for the message, `doing` what failed."""
    text = str(error).strip()
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # in a file whose tables we made
    strange = code == sqlite3.SQLITE_ERROR and (
        text.startswith(("no such column", "no such table", "malformed")) or "has no column named" in text
    )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "Could not decode to UTF-8" in text or strange:
        return Damaged(f"the cache {place} is damaged ({text})")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(f"the cache {place} is locked by another process ({text}): try again when that one is done, or {ELSEWHERE}")
    if code == sqlite3.SQLITE_FULL:
        return CacheError(f"the disk that holds the cache {place} is full: free some space, or {ELSEWHERE}")
    if code == sqlite3.SQLITE_IOERR:
        return CacheError(
            f"the cache {place} could not be read or written ({text}; is the disk or a quota full?): free some space, or {ELSEWHERE}"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return CacheError(f"cannot {doing} the cache {place} ({text}): {ELSEWHERE}")
    return CacheError(f"the cache {place} cannot be used ({text}): {ELSEWHERE}")


def schema_of(connection: sqlite3.Connection, place: str) -> int | None:
    """The schema number of an open file, None where it has no tables yet. Raises CacheError for somebody else's database."""
    tables: set[str] = set()
    foreign: list[str] = []
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master"):
        tables.update([name] * (kind == "table"))
        foreign += [f"{kind} {name!r}"] * (kind not in ("table", "index"))
    if not tables and not foreign:
        return None
    if not tables & {"tilewright_meta", "tilewright_tally"}:
        raise Stranger(f"{place} is a database, but not a Tilewright cache: it was left as it is; {ELSEWHERE}")
    row = connection.execute("SELECT value FROM tilewright_meta WHERE name = 'schema'").fetchone()
    if row is None or not str(row[0]).isdecimal():
        raise Damaged(f"the cache {place} is damaged (it does not say which schema it has)")
    if foreign:  # they could change what is read and written
        raise Damaged(f"the cache {place} holds what no cache has: {', '.join(foreign[:3])}")
    return int(row[0])
