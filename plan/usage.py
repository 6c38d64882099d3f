"""What really ran: the kernels, shapes and counts of real programs, kept beside the cache for `tune run --recorded`.

With TILEWRIGHT_TUNE=record, or `jit(tune="record")`, whoever runs kernels counts its runs: one number goes up by one. A thread adds the counts
to a small SQLite file every few seconds, and the end of the process does, so several processes and threads record at once. What is in the
file is data: nothing in it is executed."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import sqlite3
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import folders
from ..files.strict import canon
from ..ir.errors import TilewrightError, UsageError
from ..ir.kernel import Kernel
from .identity import canonical_of

if TYPE_CHECKING:
    from ..cache import Cache

ENV = "TILEWRIGHT_TUNE"
MOST = 2048
"""Kernels in a file; those that ran least go first."""
MOST_BYTES = 1 << 18
"""Bytes of a kernel; a larger one is not recorded."""
FLUSH_S = 5.0
BUSY_S = 5.0
"""Seconds that a writer waits for another."""
_TABLE = """CREATE TABLE IF NOT EXISTS used (digest TEXT PRIMARY KEY, name TEXT NOT NULL, file TEXT NOT NULL, shape TEXT NOT NULL,
device TEXT NOT NULL, threads INTEGER NOT NULL, runs INTEGER NOT NULL, kernel BLOB NOT NULL)"""
_ADD = """INSERT INTO used VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET runs = runs + excluded.runs"""
_BOUND = "DELETE FROM used WHERE digest NOT IN (SELECT digest FROM used ORDER BY runs DESC LIMIT ?)"


def wanted() -> bool:
    """Whether the environment says that this process records. Raises UsageError for what it does not understand."""
    said = os.environ.get(ENV, "")
    if said not in ("", "record"):
        raise UsageError(f"{ENV}={said!r} says nothing: record keeps what this program runs for `tune run --recorded`; else leave it unset")
    return said == "record"


def file_of(cache: Cache) -> Path:
    """Where what ran with a cache is kept: beside its file; of a server, in the user's folder."""
    if cache.path is not None:
        return cache.path.with_name(f"{cache.path.name}.recorded")
    return folders.data() / f"{hashlib.sha256(cache.location.encode()).hexdigest()[:12]}.recorded"


@dataclass(frozen=True)
class UsedKernel:
    """A kernel that ran. `file`: `my.py:function`, where it is one's; `runs`: how often."""

    kernel: Kernel
    file: str
    device: str
    threads: int
    runs: int = 0

    @property
    def digest(self) -> str:
        """Equal for kernels that one answer of the cache serves."""
        return hashlib.sha256(f"{canonical_of(self.kernel).hash} {self.device} {self.threads}".encode()).hexdigest()

    @property
    def where(self) -> str:
        """Where it ran, for people: `cpu, 2 threads`."""
        return f"{self.device}, {self.threads} thread{'s' * (self.threads != 1)}"

    @property
    def gone(self) -> bool:
        """Whether the file that made it is not there any more."""
        return bool(self.file) and not os.path.isfile(self.file.rpartition(":")[0])


class RunCounter:
    """Counts runs of some kernels, each so many `times` a run, on any thread: whoever runs them adds 1 to `runs`, or has a call `counted`. (The
    interpreter changes threads where functions are called and loops go back, and not inside of a sum, so that no thread's run is lost.)"""

    def __init__(self, kernels: Iterable[tuple[UsedKernel, int]]) -> None:
        self.kernels = tuple(kernels)
        self.runs = self._told = 0
        self._reads: list[tuple[weakref.ref[Callable[..., None]], Callable[[], int]]] = []

    def counted(self, call: Callable[..., None]) -> Callable[..., None]:
        """A bound call (`Executable.bind`) whose runs are counted: itself, where it says how often it ran."""
        read = getattr(call, "runs", None)
        if read is not None:
            self._reads.append((weakref.ref(call), read))
            return call

        def counting(*pointers: int) -> None:
            self.runs += 1
            call(*pointers)

        return counting

    def take(self) -> int:
        """Runs since the last time."""
        for dead in [r for r in self._reads if r[0]() is None]:
            self._reads.remove(dead)
            self.runs += dead[1]()
        now = self.runs + sum(read() for _, read in self._reads)
        new, self._told = now - self._told, now
        return new

    def give_back(self, runs: int) -> None:
        """What was taken could not be kept."""
        self._told -= runs


class UsageRecorder:
    """Adds what counters counted to one file. Whatever goes wrong is said once, and the program goes on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._counters: list[RunCounter] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._trouble = False
        self._rows: dict[int, tuple[Any, ...]] = {}

    def counter(self, kernels: Iterable[tuple[UsedKernel, int]]) -> RunCounter:
        """A counter whose counts are kept from now on."""
        made = RunCounter(kernels)
        with self._lock:
            self._counters.append(made)
            self._start()
        return made

    def flush(self) -> None:
        """Keep what was counted since the last time."""
        with self._lock:
            taken = [(c, n) for c in self._counters if (n := c.take())]
            if not taken:
                return
            try:
                self._add([(k, times * n) for c, n in taken for k, times in c.kernels])
            except (OSError, sqlite3.Error, TilewrightError) as e:
                for c, n in taken:
                    c.give_back(n)
                if not self._trouble:
                    warnings.warn(
                        f"what this program runs cannot be recorded in {self.file}: {e}; it goes on", RuntimeWarning, stacklevel=2
                    )
                self._trouble = True

    def _add(self, runs: Iterable[tuple[UsedKernel, int]]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        rows = [(*row[:6], n, row[6]) for used, n in runs if (row := self._row(used)) is not None]
        with _opened(self.file) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_TABLE)
            connection.executemany(_ADD, rows)
            if connection.execute("SELECT count(*) FROM used").fetchone()[0] > MOST:
                connection.execute(_BOUND, (MOST,))
            connection.execute("COMMIT")

    def _row(self, used: UsedKernel) -> tuple[Any, ...] | None:
        """The row but for its count, made once; None for a kernel that is too large."""
        from ..named_kernels import user_file

        if id(used) not in self._rows:
            k = used.kernel
            blob = user_file.dumps(("kernel", k.name, k.body, k.stores, k.buffers, k.blocks, k.fixed))
            shape = canon({b.name: [str(d) for d in b.shape] for b in k.buffers})
            self._rows[id(used)] = (used.digest, k.name, used.file, shape, used.device, used.threads, blob)
        row = self._rows[id(used)]
        return row if len(row[6]) <= MOST_BYTES else None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tilewright-recorder", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(FLUSH_S):
            self.flush()

    def forked(self) -> None:
        """Begin anew in a child process: what the parent counted is the parent's, and its thread is not here."""
        self._lock, self._thread = threading.Lock(), None
        for c in self._counters:
            c.take()
        if self._counters:
            self._start()


_recorders: dict[Path, UsageRecorder] = {}
_lock = threading.Lock()


def recorder(cache: Cache) -> UsageRecorder:
    """The process's one recorder of a cache."""
    file = file_of(cache).absolute()
    with _lock:
        if not _recorders:
            atexit.register(flush)
            os.register_at_fork(after_in_child=_forked)
        return _recorders.setdefault(file, UsageRecorder(file))


def flush() -> None:
    """Keep what every recorder counted."""
    for r in list(_recorders.values()):
        r.flush()


def _forked() -> None:
    for r in _recorders.values():
        r.forked()


def recorded(file: Path) -> tuple[list[UsedKernel], list[str]]:
    """(what a file holds, the most runs first; a sentence for each row that cannot be read). Raises UsageError for a file that is none of
    ours, or damaged."""
    from ..named_kernels import user_file

    if not file.is_file():
        return [], []
    try:
        with _opened(file) as connection:
            rows = connection.execute("SELECT name, file, device, threads, runs, kernel FROM used ORDER BY runs DESC, digest").fetchall()
    except sqlite3.Error as e:
        raise UsageError(f"what ran cannot be read from {file} ({e}): delete it, and let the program run again") from None
    found, wrong = [], []
    for name, source, device, threads, runs, blob in rows:
        try:
            payload = user_file.unframed(blob)
            kind, *parts = user_file.loads(payload or b"")
            if kind != "kernel" or not (isinstance(source, str) and isinstance(device, str)):
                raise ValueError("no kernel")
            found.append(UsedKernel(Kernel(*parts), source, device, int(threads), int(runs)))
        except Exception as e:  # whatever bytes somebody put there
            wrong.append(f"a recorded kernel {json.dumps(str(name))} cannot be read ({type(e).__name__}): it is left out")
    return found, wrong


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        yield connection
    finally:
        connection.close()
