"""A cache file looked at from end to end: is it sound, and what of it can be saved? Slow on purpose; look-ups check
only what they touch."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from ..ir.errors import CacheError
from . import ours, queries
from .lookup import to_rows
from .recover import CacheWarning, Damaged, classify, schema_of
from .rows import Row
from .version import SCHEMA

_TALLY = """SELECT key_hash, COUNT(*), SUM(verified AND outcome = 'ok') FROM measurement NOT INDEXED GROUP BY key_hash"""


def fault(path: Path) -> str | None:
    """None for a file that is sound, missing or not ours; else the suffix it should be moved to ('corrupt' or 'newer-vN')."""
    if not path.is_file():
        return None
    try:
        ours.check(path, again=True)
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
