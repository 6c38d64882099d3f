"""What is new on a server, ahead of whoever writes it down: while one part is written, the next is checked and the one after it read.

The server, the check (Python) and SQLite (which works without holding up Python's other threads) are busy at the same time then."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType

from .records import Record, checked
from .writer import Changes, ServerWriter


@dataclass(frozen=True)
class CheckedChanges:
    """Changes with their records checked: `rows` as `records.checked` gives them, and how many records were refused."""

    new: Changes
    rows: list[Record]
    refused: int


FIRST = 2_000
"""Rows of the first part: few, so that checking and writing begin soon, and that a slow line carries them in time."""
QUICK_S = 1.0
"""After a part that came in less, the next one is twice as large."""


class ReadAhead:
    """Changes of `server`, at most `most` rows at a time. A context manager; `begin` first."""

    def __init__(self, server: ServerWriter, most: int) -> None:
        self._server, self._most, self._chunk = server, most, min(FIRST, most)
        self._reading, self._checking = ThreadPoolExecutor(1, "reads ahead"), ThreadPoolExecutor(1, "checks ahead")
        self._hashes: dict[Record, str] = {}
        self._read: Future[Changes]
        self._checked: Future[CheckedChanges] | None = None

    def begin(self, after: int, epoch: str) -> None:
        """Go on behind change number `after` of `epoch`, wherever it was before."""
        if self._checked is not None:
            wait([self._checked])
        self._read = self._reading.submit(self._changes, after, epoch)
        self._checked = self._checking.submit(self._check, self._read)

    def take(self) -> CheckedChanges:
        """The next part. Raises what `ServerWriter.changes` does."""
        assert self._checked is not None
        part = self._checked.result()
        if part.new.more:
            self._checked = self._checking.submit(self._check, self._read)
        return part

    def _changes(self, after: int, epoch: str) -> Changes:
        begun = time.monotonic()
        new = self._server.changes(after, epoch, self._chunk)
        if time.monotonic() - begun < QUICK_S:
            self._chunk = min(2 * self._chunk, self._most)
        return new

    def _check(self, read: Future[Changes]) -> CheckedChanges:
        new = read.result()
        if new.more:
            self._read = self._reading.submit(self._changes, new.upto, new.epoch)
        return CheckedChanges(new, *checked(new.records, self._hashes))

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pool in (self._reading, self._checking):
            pool.shutdown(wait=True, cancel_futures=True)
