"""Where caches are: shipped with the package < the team's < the project's < the user's. A nearer layer's answer wins. The
project's takes part where its user allowed it, the team's where one is named (`server.configured`)."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..files import folders
from ..files.strict import canon
from ..ir.errors import CacheError, UsageError
from . import bundles, project_consent
from .keys import Key
from .lookup import Reader
from .queries import FIELDS
from .ranking import answers
from .rows import Row
from .server import address
from .server.address import EXAMPLE, Address

T = TypeVar("T")
ENV = "TILEWRIGHT_CACHE"
PROJECT = Path(".tilewright") / "cache.db"
SHIPPED_ENV = "TILEWRIGHT_SHIPPED"
"""0: no shipped schedule answers."""
SHIPPED_RUN = "shipped"
"""The `run_id` of what `scripts/ship.py` wrote."""
FOLDER = Path(__file__).resolve().parent.parent / "schedules"
_HEADER = canon(bundles.HEADER).encode()
_KERNEL = re.compile(rb'"kernel":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Layers:
    """`top` is written and read: a path or a database URL. `below` are only read, nearest first: files, servers (which stand for
    their mirrors), and what the package ships."""

    top: str
    below: tuple[Path | Address | Shipped, ...]
    named: bool = True
    """Whether somebody named the top; else it is the user's default one, which is read as empty where it cannot be read."""


def find(location: str | os.PathLike[str] | None = None) -> Layers:
    """The layers for `location` (a path or URL), else for the environment variable TILEWRIGHT_CACHE, else the user's default.

    A cache that is named in either way stands alone: what is in it, and nothing else, decides. Raises UsageError for an empty name."""
    if location is not None and not os.fspath(location):
        raise UsageError(f"the cache has an empty name: give a path or a database URL, or leave it out for {ENV} or the default one")
    named = os.fspath(location) if location is not None else os.environ.get(ENV)
    if named:
        return Layers(named, ())
    project = project_path()
    if project is not None and not project_consent.may_answer(project):
        project = None
    return Layers(str(user_path()), tuple(p for p in (project, address.team(), shipped()) if p is not None), named=False)


def user_path() -> Path:
    """The platform's place for a user's data, e.g. ~/.local/share/tilewright/cache.db."""
    return folders.data() / "cache.db"


def project_path(start: Path | None = None) -> Path | None:
    """The first `.tilewright/cache.db` in `start` (default: the working directory) or a folder above it."""
    try:
        here = (start or Path.cwd()).absolute()
    except FileNotFoundError:
        return None  # the working directory was deleted
    return next((p for p in (d / PROJECT for d in (here, *here.parents)) if _is_file(p)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # a folder that may not be looked into


_MISSPELT = re.compile(r"postgres\w*(\+\w*)?(:|//)|[a-zA-Z+]{2,}(:/{0,2}|//)[^/\s]*@")
"""What was meant as a server's URL: a scheme without all of `://`."""


def is_url(location: str) -> bool:
    """Whether this names a database server (or is written as a SQLAlchemy URL) rather than a file."""
    return "://" in location


def file_of(location: str) -> Path | None:
    """The cache file that a location names, None where it is a server's. Raises CacheError for an sqlite:// URL of one in memory,
    which nobody else could read."""
    if not is_url(location) and _MISSPELT.match(location):
        shown = re.sub(r":[^:/@]+@", ":***@", location)
        raise CacheError(f"the cache {shown} is no URL and looks like one: write {EXAMPLE}, or ./{shown} for a file")
    if not location.startswith("sqlite"):
        return None if is_url(location) else folders.expanded(location).absolute()
    path = location.partition("://")[2]
    if not path.startswith("/") or path == "/" or "?" in path or ":memory:" in path:
        raise CacheError(f"the cache {location} is not a file: use a path, or sqlite:///PATH")
    return Path(path[1:]).absolute()


class Shipped(Reader):
    """The bundles of a folder as a layer that is only read, where they lie. What is no bundle there is a CacheError at the first look-up.

    A bundle is text, so a line is looked for by the kernel's hash and read only where it is there: a look-up of a kernel that nobody
    shipped costs a microsecond. SQL, which only commands that list rows need, gets a database in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, elsewhere=True)
        self._lines: dict[str, list[tuple[bytes, str]]] | None = None
        self._rows: dict[str, tuple[Row, ...]] = {}

    def answers(self, key: Key) -> tuple[Row, ...]:
        """The rows that may answer a look-up of `key`, the best first (see `ranking.answers`)."""
        return tuple(answers((r for r in self.of_kernel(key.kernel) if r.key == key), elsewhere=True))

    def of_kernel(self, kernel: str) -> tuple[Row, ...]:
        """All rows of a kernel, by its canonical hash."""
        with self._lock:
            if kernel not in self._rows:
                lines = self._by_kernel().get(kernel, ())
                found = [
                    bundles.loads([_HEADER, line], place)[0].marked(imported=True) for line, place in lines
                ]  # (none was measured here)
                if not found:
                    return ()
                self._rows[kernel] = tuple(found)
            return self._rows[kernel]

    def state(self) -> str:
        return hashlib.sha256(b"".join(line for lines in self._by_kernel().values() for line, _ in lines)).hexdigest()

    def close(self) -> None:
        """Nothing is held open."""

    def _asked(self, look: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(f"CREATE TABLE measurement (key_hash, {FIELDS})")
            for kernel in self._by_kernel():
                for r in self.of_kernel(kernel):
                    values = [r.key.hash, *r.stored().values(), r.digest]
                    connection.execute(f"INSERT INTO measurement VALUES ({', '.join('?' * len(values))})", values)
            return look(connection)

    def _by_kernel(self) -> Mapping[str, list[tuple[bytes, str]]]:
        """Lines and where they are, by the kernel's hash."""
        if self._lines is None:
            lines: dict[str, list[tuple[bytes, str]]] = {}
            for file in sorted(Path(self.path).glob("*.jsonl")):
                for number, line in enumerate(bundles.content(file).splitlines(), 1):
                    said = _KERNEL.search(line)
                    if said is not None:
                        lines.setdefault(said[1].decode(), []).append((line, f"{file}, line {number}"))
                    elif number > 1 or line != _HEADER:
                        raise CacheError(f"{file}, line {number}: not a bundle of this version; install Tilewright again")
            self._lines = lines
        return self._lines


@functools.cache
def _shipped(folder: Path) -> Shipped:
    return Shipped(folder)


def shipped() -> Shipped | None:
    """The process's one reader of what is shipped; None where nothing is, or where the environment variable says 0."""
    return _shipped(FOLDER) if os.environ.get(SHIPPED_ENV) != "0" and FOLDER.is_dir() else None
