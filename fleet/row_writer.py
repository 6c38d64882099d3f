"""The client's pen: rows that arrive from everywhere are written by this process alone, many in a transaction."""

from __future__ import annotations

import contextlib
import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..cache.recover import CacheWarning
from ..cache.server.errors import Unreachable
from ..ir.errors import CacheError

if TYPE_CHECKING:
    from ..cache import Cache, Row

WRITE_S = 0.25
"""Rows wait this long for others. Whoever waits for workers looks five times a second, so a row is written half a second after it came."""
PATIENCE_S = 0.25
"""How long a write waits for another process that writes, but for the last one."""
LAST_PATIENCE_S = 10.0
AGAIN_S = 5.0
"""After a failed write, rows wait this long before the next."""


class ClientWriter:
    """Rows on their way into a cache. A cache that cannot be written does not end a run: rows wait in memory, those for a server that does
    not answer in bundles too, and what is left at the end goes into a bundle that the next run takes in."""

    def __init__(self, cache: Cache, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache, self._clock = cache, clock
        self._rows: list[Row] = []
        self._next = clock()
        self._trouble = ""
        self._kept: list[Path] = []
        self._safe = 0
        """So many of the rows, from the first, are in the bundles `_kept` too."""

    @property
    def unwritten(self) -> list[Row]:
        """Rows that wait."""
        return list(self._rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Rows to be written soon."""
        self._rows += rows

    def write(self, now: bool = False) -> None:
        """Write what waits if it waited long enough, or `now`."""
        if self._rows and (self._clock() >= self._next or (now and not self._trouble)):
            self._try(PATIENCE_S)

    def close(self) -> str:
        """Write what waits, for the last time; what there is to say about it, or ''."""
        if self._rows:
            try:
                self._try(LAST_PATIENCE_S)
            except BaseException:  # an interrupt, by who did not want to wait
                self._keep()
                raise
        if not self._rows:
            return ""
        count = len(self._rows)
        try:
            self._keep()
        except CacheError as e:
            return f"{count - self._safe} measurements are lost: {self._trouble}; {e}"
        finally:
            self._rows = []
        where = ", ".join(map(str, self._kept))
        return f"the cache could not be written, so {count} measurements are in {where}; {self._cache.waiting.advice(self._kept)}"

    def _keep(self) -> None:
        """Put what is in no bundle yet into one. Raises CacheError."""
        if fresh := self._rows[self._safe :]:
            self._kept.append(self._cache.spill(fresh, uuid.uuid4().hex[:16]))
            self._safe = len(self._rows)

    def _try(self, patience_s: float) -> None:
        rows, self._rows = self._rows, []
        self._next = self._clock() + WRITE_S
        try:
            self._cache.record(rows, patience_s=patience_s)
            self._trouble, self._safe = "", 0
            while self._kept:
                self._kept.pop().unlink(missing_ok=True)
        except CacheError as e:
            self._rows = rows + self._rows
            self._next = self._clock() + AGAIN_S
            away = isinstance(e, Unreachable)
            if not self._trouble:
                waits = "a bundle" if away else "memory"
                warnings.warn(f"{e}. Tuning goes on; measurements wait in {waits}", CacheWarning, stacklevel=3)
            self._trouble = str(e)
            if away:
                with contextlib.suppress(CacheError):  # they stay in memory; `close` says so
                    self._keep()
        except BaseException:  # an interrupt inside the transaction rolls it back
            self._rows = rows + self._rows
            raise
