"""Moving a cache file aside that cannot be used: with a warning, never overwritten or deleted."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ..ir.errors import CacheError
from ..log import logger
from .examine import fault, rescue
from .recover import ELSEWHERE, CacheWarning, Older, Unreadable
from .rows import Row
from .version import SCHEMA

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


def left(error: CacheError, told: set[str]) -> None:
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
