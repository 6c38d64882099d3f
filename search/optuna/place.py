"""Whether a study may be kept where somebody says: Optuna makes its tables in any SQLite file, and adds to any text."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path

from ...files.kinds import APPLICATION, SQLITE, application, foreign, named, opened
from ...ir.errors import UsageError

_FIRST = {"version_info", "alembic_version"}
"""Tables that a study's database may have before that of its studies."""


def refuse_strangers(path: str, sqlite: bool, shown: str) -> None:
    """Raise UsageError where something is at `path` that is no study: for an SQLite URL, or the path of a journal file.
    What is missing or empty may become one. Nothing is changed."""
    try:
        why = _why(path, sqlite)
    except OSError as e:
        why = f"it cannot be read ({e.strerror})"
    if why is not None:
        raise UsageError(f"--study {shown}: {why}; it was left as it is: name another file")


def _why(path: str, sqlite: bool) -> str | None:
    fd = opened(path)
    if fd is None:
        return None
    try:
        mode, head = os.fstat(fd).st_mode, b""
        if stat.S_ISDIR(mode) or not stat.S_ISREG(mode):
            return "it is a folder" if stat.S_ISDIR(mode) else "it is no regular file"
        head = os.pread(fd, 1 << 12, 0)
        if sqlite and head and not head.startswith(SQLITE):
            return f"it is {named(fd, head)}"
    finally:
        os.close(fd)
    if not sqlite:
        return foreign(path, "journal")
    if application(head) == APPLICATION:
        return "it is a Tilewright cache"
    return _other_tables(path) if head else None


def _other_tables(path: str) -> str | None:
    with contextlib.closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as c:
        try:
            tables = {name for (name,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except sqlite3.OperationalError:  # locked, say: opening it tells
            return None
        except sqlite3.DatabaseError as e:
            return f"it cannot be read ({e})"
    # (another search may be making its tables at this moment)
    return None if "studies" in tables or tables <= _FIRST else "it is a database of another program"
