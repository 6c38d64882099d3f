"""Measurements that could not be written into the cache: a bundle that the next run which can write takes in.

It lies beside the cache file, else (a full disk, a server) in the user's data folder, else in the folder for
temporary files, from where it is imported by hand."""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..ir.errors import CacheError
from . import bundles
from .layers import user_path
from .recover import CacheWarning
from .rows import Row
from .server.errors import Unreachable


class UnsentRows:
    """What waits for one cache: `names` are those under which it may have been kept, today's first (a path or the name of a
    server); `path`, where it is a file."""

    def __init__(self, names: Iterable[str], path: Path | None) -> None:
        self.names, self.path = tuple(dict.fromkeys(names)), path

    def keep(self, rows: Iterable[Row], run: str) -> Path:
        """Write `rows` of the run `run` to the first place that takes them; where. Raises CacheError."""
        kept = list(rows)
        error: CacheError | None = None
        for folder, name in (*_places(self.names[0], self.path), (Path(tempfile.gettempdir()), "tilewright")):
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

    def advice(self, kept: Iterable[Path]) -> str:
        """What comes of bundles that `keep` made, for whoever reads where they are: those in the folder of temporary files are looked for
        by nobody, as others could put some there."""
        apart = [f for f in kept if f not in self.files()]
        if not apart:
            return "the next run takes them in"
        return f"take them in with `tune cache import {' '.join(shlex.quote(str(f)) for f in apart)}`"

    def files(self) -> list[Path]:
        """The bundles that wait to be taken in: this user's own files only."""
        return list(dict.fromkeys(file for name in self.names for file in self._named(name)))

    def _named(self, wanted: str) -> Iterator[Path]:
        for folder, name in _places(wanted, self.path):
            try:
                found = sorted(folder.glob(f"{_literal(name)}.spill-*.jsonl"))
                yield from (f for f in found if not f.is_symlink() and f.stat().st_uid == os.getuid())
            except OSError:  # a folder that cannot be looked into holds none of ours
                continue

    def take_in(self, record: Callable[[list[Row]], int]) -> int:
        """Have `record` add what waits; how many rows were new. Warns of what it took, and of what cannot be recorded now
        either. Raises Unreachable where the server does not answer."""
        done = 0
        for file in self.files():
            try:
                added = record(bundles.read(file))
                file.unlink(missing_ok=True)
            except Unreachable:
                raise
            except (CacheError, OSError) as e:
                said = f"{file} holds measurements that could not be written to this cache, nor can they now: {e}"
            else:
                done += added
                said = f"took in {added} measurements that an earlier run could not write ({file})"
            warnings.warn(said, CacheWarning, stacklevel=4)
        return done


def _places(location: str, path: Path | None) -> list[tuple[Path, str]]:
    """Folder and first part of the name."""
    about = hashlib.sha256(location.encode(errors="surrogateescape")).hexdigest()[:12]
    beside = [(path.parent, path.name)] if path is not None else []
    return [*beside, (user_path().parent, f"cache-{about}")]


def _literal(name: str) -> str:
    """A name as a pattern that only it matches."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
