"""The ranks of a run as threads of this process: what ranks say to each other, without MPI."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np
from tilewright.placement.running import PlannedRun, planned_run


class _Shared:
    """What all ranks of a group see."""

    def __init__(self, members: Sequence[int], mail: dict[tuple[int, int, int], SimpleQueue[Any]]) -> None:
        self.members, self.mail = list(members), mail
        self.barrier, self.said = threading.Barrier(len(self.members), timeout=60), [None] * len(self.members)
        self.groups: dict[int, _Shared] = {}
        self.lock = threading.Lock()


class ThreadRanks:
    """One rank of a group."""

    patience = 0.0

    def __init__(self, shared: _Shared, rank: int) -> None:
        self.shared, self.rank, self.size = shared, rank, len(shared.members)

    def gather(self, value: Any) -> list[Any]:
        self.shared.said[self.rank] = value
        self.shared.barrier.wait()
        found = list(self.shared.said)
        self.shared.barrier.wait()
        return found

    def split(self, color: int, key: int) -> ThreadRanks:
        said = self.gather((color, key, self.rank))
        members = [rank for c, _, rank in sorted(said) if c == color]
        with self.shared.lock:
            group = self.shared.groups.setdefault(color, _Shared([self.shared.members[r] for r in members], self.shared.mail))
        self.barrier()
        self.shared.groups.clear()
        self.barrier()
        return ThreadRanks(group, members.index(self.rank))

    def barrier(self) -> None:
        self.shared.barrier.wait()

    def all_reduce(self, terms: Any) -> Any:
        return sum(self.gather(terms)[1:], self.gather(terms)[0])

    def all_gather(self, piece: Any) -> Any:
        return np.concatenate([p.ravel() for p in self.gather(piece.copy())])

    def reduce_scatter(self, terms: Any) -> Any:
        return np.split(self.all_reduce(terms), self.size)[self.rank]

    def _mail(self, source: int, target: int, tag: int) -> SimpleQueue[Any]:
        with self.shared.lock:
            return self.shared.mail.setdefault((self.shared.members[source], self.shared.members[target], tag), SimpleQueue())

    def send(self, value: Any, to: int, tag: int) -> ThreadRanks:
        self._mail(self.rank, to, tag).put(value.copy())
        return self

    def wait(self) -> None:
        """A send is done at once."""

    def receive(self, value: Any, source: int, tag: int) -> None:
        value[...] = self._mail(source, self.rank, tag).get(timeout=60)

    def free(self) -> None:
        """The group is no longer needed."""

    def end(self) -> None:
        """The error ends the thread."""


class Silent:
    """Where a rank is, said to nobody."""

    def say(self, what: str) -> None:
        """Nothing."""


def in_threads(run: PlannedRun) -> list[str]:
    """What differs from one process."""
    shared = _Shared(range(run.ranks), {})
    carry: Callable[..., Any] = planned_run.carried_out
    with ThreadPoolExecutor(run.ranks) as pool:
        waiting = [pool.submit(carry, run, ThreadRanks(shared, rank), Silent()) for rank in range(run.ranks)]
        return [why for found in waiting for why in found.result()["wrong"]]
