"""What is new on a server, ahead of whoever writes it down: while one part is written, the next is checked and the one after it read.

The server, the check (Python) and SQLite (which works without holding up Python's other threads) are busy at the same time then."""

from __future__ import annotations

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


class ReadAhead:
    """Changes of `server`, `chunk` rows at a time. A context manager; `begin` first."""

    def __init__(self, server: ServerWriter, chunk: int) -> None:
        self._server, self._chunk = server, chunk
        self._reading, self._checking = ThreadPoolExecutor(1, "reads ahead"), ThreadPoolExecutor(1, "checks ahead")
        self._hashes: dict[Record, str] = {}
        self._read: Future[Changes]
        self._checked: Future[CheckedChanges] | None = None

    def begin(self, after: int, epoch: str) -> None:
        """Go on behind change number `after` of `epoch`, wherever it was before."""
        if self._checked is not None:
            wait([self._checked])
        self._read = self._reading.submit(self._server.changes, after, epoch, self._chunk)
        self._checked = self._checking.submit(self._check, self._read)

    def take(self) -> CheckedChanges:
        """The next part. Raises what `ServerWriter.changes` does."""
        assert self._checked is not None
        part = self._checked.result()
        if part.new.more:
            self._checked = self._checking.submit(self._check, self._read)
        return part

    def _check(self, read: Future[Changes]) -> CheckedChanges:
        new = read.result()
        if new.more:
            self._read = self._reading.submit(self._server.changes, new.upto, new.epoch, self._chunk)
        return CheckedChanges(new, *checked(new.records, self._hashes))

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pool in (self._reading, self._checking):
            pool.shutdown(wait=True, cancel_futures=True)
