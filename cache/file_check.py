"""Whether a file is a cache of ours, told by its bytes alone: SQLite is not asked, for opening a database may change it.

A cache file says so in its header, by SQLite's application id. Files of before that have our tables' names near their beginning."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import NamedTuple

from ..files.kinds import APPLICATION, SQLITE, application, named, opened
from .file_errors import ELSEWHERE, Stranger, Unreadable

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
