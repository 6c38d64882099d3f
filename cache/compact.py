"""Giving the space of deleted rows back to the disk."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from .recover import classify


def compact(path: Path) -> tuple[int, int]:
    """Rewrite a cache file without its empty pages; (bytes before, bytes after). It needs that much free space meanwhile.
    Raises CacheError, also while another process writes; then the file is as it was."""
    before = path.stat().st_size
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=2, isolation_level=None)) as c:
            c.execute("VACUUM")
            c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as e:
        raise classify(e, str(path)) from None
    return before, path.stat().st_size
