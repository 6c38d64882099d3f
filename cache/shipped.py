"""Schedules that come with the package: bundles for kinds of processors, read where they lie, as the cache's lowest layer.

A bundle is text, so a line is looked for by the kernel's hash and read only where it is there: a look-up of a kernel
that nobody shipped costs a microsecond. SQL, which only commands that list rows need, gets a database in memory."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from ..files.strict import canon
from ..ir.errors import CacheError
from . import bundles
from .keys import Key
from .lookup import Reader
from .queries import FIELDS
from .ranking import answers
from .rows import Row

T = TypeVar("T")
ENV = "TILEWRIGHT_SHIPPED"
"""0: no shipped schedule answers."""
RUN = "shipped"
"""The `run_id` of what `scripts/ship.py` wrote."""
FOLDER = Path(__file__).resolve().parent.parent / "schedules"
_HEADER = canon(bundles.HEADER).encode()
_KERNEL = re.compile(rb'"kernel":"([^"]+)"')


class Shipped(Reader):
    """The bundles of a folder as a layer that is only read. What is no bundle there is a CacheError at the first look-up."""

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
                found = [bundles.loads([_HEADER, line], place)[0] for line, place in self._by_kernel().get(kernel, ())]
                if not found:
                    return ()
                self._rows[kernel] = tuple(found)
            return self._rows[kernel]

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
def _layer(folder: Path) -> Shipped:
    return Shipped(folder)


def layer() -> Shipped | None:
    """The process's one reader of what is shipped; None where nothing is, or where the environment variable says 0."""
    return _layer(FOLDER) if os.environ.get(ENV) != "0" and FOLDER.is_dir() else None
