"""The client's pen: rows that arrive from everywhere are written by this process alone, many in a transaction."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..cache.recover import CacheWarning
from ..ir.errors import CacheError

if TYPE_CHECKING:
    from ..cache import Cache, Row

WRITE_S = 0.5
"""Rows wait this long for others."""
PATIENCE_S = 0.25
"""How long a write waits for another process that writes, but for the last one."""
LAST_PATIENCE_S = 10.0
AGAIN_S = 5.0
"""After a failed write, rows wait this long before the next."""


class ClientWriter:
    """Rows on their way into a cache. A cache that cannot be written does not end a run: rows wait in memory, and what is left at the
    end goes into a bundle that the next run takes in."""

    def __init__(self, cache: Cache, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache, self._clock = cache, clock
        self._rows: list[Row] = []
        self._next = clock()
        self._trouble = ""

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
            self._try(LAST_PATIENCE_S)
        if not self._rows:
            return ""
        rows, self._rows = self._rows, []
        try:
            kept = self._cache.spill(rows, uuid.uuid4().hex[:16])
        except CacheError as e:
            return f"{len(rows)} measurements are lost: {self._trouble}; {e}"
        return f"the cache could not be written, so {len(rows)} measurements are in {kept}; the next run takes them in"

    def _try(self, patience_s: float) -> None:
        rows, self._rows = self._rows, []
        self._next = self._clock() + WRITE_S
        try:
            self._cache.record(rows, patience_s=patience_s)
            self._trouble = ""
        except CacheError as e:
            self._rows = rows + self._rows
            self._next = self._clock() + AGAIN_S
            if not self._trouble:
                warnings.warn(f"{e}. Tuning goes on; measurements wait in memory", CacheWarning, stacklevel=3)
            self._trouble = str(e)
        except BaseException:  # an interrupt inside the transaction rolls it back
            self._rows = rows + self._rows
            raise
