"""Measurements that could not be written into the cache: a bundle that the next run which can write takes in.

It lies beside the cache file, else (a full disk, a server) in the user's data folder, else in the folder for
temporary files, from where it is imported by hand."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..ir.errors import CacheError
from . import bundles
from .layers import user_path
from .rows import Row


def write(rows: Iterable[Row], location: str, path: Path | None, run: str) -> Path:
    """Write `rows` of the run `run` for the cache at `location` (`path`, where it is a file) to the first place that
    takes them. Raises CacheError."""
    kept = list(rows)
    error: CacheError | None = None
    for folder, name in (*_places(location, path), (Path(tempfile.gettempdir()), "tilewright")):
        file = folder / f"{name}.spill-{run}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            bundles.write(kept, file)
        except CacheError as e:
            error = error or e
        except OSError as e:
            error = error or CacheError(f"cannot write {file}: {e.strerror}")
        else:
            return file
    assert error is not None
    raise error


def waiting(location: str, path: Path | None) -> Iterator[Path]:
    """The bundles of this cache that wait to be taken in: this user's own files only."""
    for folder, name in _places(location, path):
        try:
            found = sorted(folder.glob(f"{_literal(name)}.spill-*.jsonl"))
            yield from (f for f in found if not f.is_symlink() and f.stat().st_uid == os.getuid())
        except OSError:  # a folder that cannot be looked into holds none of ours
            continue


def _places(location: str, path: Path | None) -> list[tuple[Path, str]]:
    """Folder and first part of the name."""
    about = hashlib.sha256(location.encode(errors="surrogateescape")).hexdigest()[:12]
    beside = [(path.parent, path.name)] if path is not None else []
    return [*beside, (user_path().parent, f"cache-{about}")]


def _literal(name: str) -> str:
    """A name as a pattern that only it matches."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
