"""All that one place holds, read and never changed: a cache file, a bundle, or a server's cache.

`compare` and `merged` work on these. Unlike a `Cache`, nothing is made, migrated or moved aside: a damaged file is an
error, and so is one that is not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..ir.errors import CacheError
from . import bundles, layers, queries
from .lookup import Reader
from .recover import Damaged, Newer
from .rows import Row
from .store import Cache

Kind = Literal["file", "bundle", "server"]
_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Holding:
    """`place`: its name for people, without a password; `rows`: every measurement, each once."""

    place: str
    kind: Kind
    rows: tuple[Row, ...]


def hold(location: str | os.PathLike[str], checked: Callable[[bytes, str], None] | None = None) -> Holding:
    """Read all of a cache file, a bundle or a database URL. Raises CacheError where that is not possible.

    `checked`: called with a bundle's bytes and its name before they are read, to refuse it (a signature, say)."""
    name = os.fspath(location)
    file = layers.file_of(name)
    if file is None:
        with Cache.open(name) as store:
            if store.team is not None:
                store.team.refresh()
            return Holding(store.location, "server", tuple(store.rows()))
    path = file
    if kind_of(name) == "bundle":
        raw = bundles.content(path)
        if checked is not None:
            checked(raw, str(path))
        return Holding(str(path), "bundle", tuple(bundles.loads(raw.splitlines(keepends=True), str(path))))
    reader = Reader(path)
    try:
        return Holding(str(path), "file", tuple(reader.select(*queries.rows({}))))
    except Damaged as e:
        raise CacheError(f"{e}; a command that writes to it (`tune run`) moves it aside and saves what is intact") from None
    except Newer as e:
        raise CacheError(f"{path} was written by a later Tilewright ({e}): read it with that one") from None
    finally:
        reader.close()


def kind_of(location: str | os.PathLike[str]) -> Kind:
    """What is at a path or URL. Raises CacheError where a file is missing, or is no cache and cannot be a bundle."""
    name = os.fspath(location)
    path = layers.file_of(name)
    if path is None:
        return "server"
    try:
        if path.is_dir():
            raise CacheError(f"{path} is a folder: name the cache file or the bundle in it")
        if not path.is_file():
            # a pipe is read once, so it is not looked into: only a bundle can come through one
            path.stat()
            return "bundle"
        with open(path, "rb") as f:
            start = f.read(len(_MAGIC))
    except OSError as e:
        raise CacheError(f"cannot read {path}: {e.strerror}") from None
    return "file" if start == _MAGIC or not start else "bundle"
