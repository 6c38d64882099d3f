"""What to do about a cache file that cannot be used: whoever writes moves it aside with a warning, whoever reads leaves it alone."""

from __future__ import annotations

import sqlite3

from ..ir.errors import CacheError
from .version import SCHEMA

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
