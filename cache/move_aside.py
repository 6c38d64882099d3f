"""Moving a cache file aside that cannot be used: with a warning, never overwritten or deleted."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..ir.errors import CacheError
from ..log import logger
from . import file_check, queries
from .file_check import ELSEWHERE, CacheWarning, Damaged, Older, Unreadable, classify, schema_of
from .lookup import to_rows
from .rows import Row
from .version import SCHEMA

# examine ----------------------------------------------------------------------------------------------------
# A cache file looked at from end to end: is it sound, and what of it can be saved? Slow on purpose; look-ups check only
# what they touch.


_TALLY = """SELECT key_hash, COUNT(*), SUM(verified AND outcome = 'ok') FROM measurement NOT INDEXED GROUP BY key_hash"""


def fault(path: Path) -> str | None:
    """None for a file that is sound, missing or not ours; else the suffix it should be moved to ('corrupt' or 'newer-vN')."""
    if not path.is_file():
        return None
    try:
        file_check.check(path, again=True)
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)) as c:
            found = schema_of(c, str(path))
            if found is None:
                return None
            if found > SCHEMA:
                return f"newer-v{found}"
            return None if c.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",) and _whole(c, found, str(path)) else "corrupt"
    except Damaged:
        return "corrupt"
    except CacheError:
        return None
    except sqlite3.Error as e:
        return "corrupt" if isinstance(classify(e, str(path)), Damaged) else None


def _whole(c: sqlite3.Connection, schema: int, place: str) -> bool:
    """Whether every row is what was written, and none is missing. Raises Damaged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)  # a strange row that was written so is no damage
        for record in c.execute(f"SELECT {queries.FIELDS} FROM measurement NOT INDEXED"):
            to_rows([record], place)
    return schema < 2 or sorted(c.execute(_TALLY)) == sorted(
        c.execute("SELECT key_hash, total, usable FROM tilewright_tally WHERE total > 0")
    )


def rescue(path: Path) -> list[Row]:
    """The rows of a damaged file that are still what was written."""
    out: dict[str, Row] = {}
    for order in ("ASC", "DESC"):  # from both ends, as far as the damage lets one read
        with warnings.catch_warnings(), suppress(sqlite3.Error), closing(_bytes(path)) as c:
            warnings.simplefilter("ignore", CacheWarning)
            for record in c.execute(f"SELECT {queries.FIELDS} FROM measurement NOT INDEXED ORDER BY rowid {order}"):
                for row in _intact(record, str(path)):
                    out[row.digest] = row
    return list(out.values())


def _bytes(path: Path) -> sqlite3.Connection:
    """The file, read-only, its texts not decoded: one that is no UTF-8 must not end the reading."""
    c = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
    c.text_factory = bytes
    return c


def _intact(record: tuple[Any, ...], place: str) -> Iterator[Row]:
    try:
        yield from to_rows([tuple(v.decode() if isinstance(v, bytes) else v for v in record)], place)
    except (UnicodeDecodeError, Damaged):
        return


# move aside -------------------------------------------------------------------------------------------------
log = logger("cache")


def moved_aside(path: Path, damaged: bool) -> list[Row]:
    """Move a cache aside; of one that is `damaged` the rows that are still what was written. Raises CacheError."""
    moved = move_aside(path)
    return rescue(moved) if moved is not None and damaged else []


def move_aside(path: Path) -> Path | None:
    """Move a corrupt or newer cache, with its WAL, to NAME.corrupt-DATE or NAME.newer-vN and warn. Returns the new place, None
    when another process did it first. Raises CacheError where the folder does not allow it."""
    with _exclusive(path.parent):
        suffix = fault(path)
        if suffix is None:
            return None
        reason = (
            "is damaged" if suffix == "corrupt" else f"was written by a later Tilewright (schema {suffix[7:]}, this one reads {SCHEMA})"
        )
        if suffix == "corrupt":
            suffix += datetime.now(UTC).strftime("-%Y%m%dT%H%M%SZ")
        target, i = path.with_name(f"{path.name}.{suffix}"), 1
        while target.exists():
            target, i = path.with_name(f"{path.name}.{suffix}.{i}"), i + 1
        try:
            # the log first: beside a new file of the old name it would be replayed into that
            for tail in ("-wal", "-shm", ""):
                if os.path.exists(f"{path}{tail}"):
                    os.rename(f"{path}{tail}", f"{target}{tail}")
        except OSError as e:
            raise CacheError(f"the cache {path} {reason} and cannot be moved aside ({e.strerror}): {ELSEWHERE}") from None
    log.info("%s %s: moved to %s", path, reason, target)
    warnings.warn(f"the cache {path} {reason}; it was moved to {target} and a new one begins", CacheWarning, stacklevel=2)
    return target


def preserved_rows(error: CacheError, told: set[str]) -> None:
    """Say, once, that a file which only a writer may move aside, or that cannot be read, is read as empty. `told`: what was said."""
    does = "migrates it" if isinstance(error, Older) else "moves it aside"
    then = "" if isinstance(error, Unreadable) else f" and left as it is: a command that writes to it (`tune run`) {does}"
    said = f"{error}; it is read as empty{then}"
    if said not in told:
        told.add(said)
        warnings.warn(said, CacheWarning, stacklevel=5)


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """One process at a time in here for a folder (where the system has flock)."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
