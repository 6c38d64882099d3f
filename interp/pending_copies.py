"""Copies that were begun and have not landed: what each thread closed as a group (`commit`), and which land at a `wait`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from ..program.program import Instr
from .ops import Array
from .threads import On, ThreadBatch


class Begun(Protocol):
    """Elements that one instruction began to copy."""

    instr: Instr
    lane: Array
    """The thread of each element."""
    group: Array
    """The number of the group that each belongs to among its thread's."""

    def kept(self, which: Array) -> Self:
        """Some of the elements."""
        ...


B = TypeVar("B", bound=Begun)


class PendingCopies(ABC, Generic[B]):
    """The copies under way of some threads."""

    def __init__(self, batch: ThreadBatch) -> None:
        self.batch = batch
        self.committed: Array = np.zeros(0, np.int64)
        """Groups that each thread has closed."""
        self.pending: list[B] = []

    def begin(self) -> None:
        """Other groups of threads run from now on."""
        self.committed, self.pending = np.zeros(self.batch.count, np.int64), []

    def end(self) -> None:
        """They have ended: every copy must have been waited for. Raises VerifyError."""
        if self.pending:
            p = self.pending[0]
            who = int(self.batch.me[p.lane[0]])
            self.batch.fail("a copy is under way when its thread ends: nobody waited for it", p.instr, who)

    def commit(self, on: On) -> None:
        """The copies of these threads since their last group are a group."""
        self.committed[slice(None) if on is None else on] += 1

    def wait(self, on: On, groups: int) -> None:
        """Land what these threads began, but for their newest groups."""
        left: list[B] = []
        for p in self.pending:
            lands = p.group < self.committed[p.lane] - groups
            if on is not None:
                lands &= on[p.lane]
            if lands.any():
                self._land(p.kept(lands))
            if not lands.all():
                left.append(p.kept(~lands))
        self.pending = left

    @abstractmethod
    def _land(self, p: B) -> None:
        """Make these elements their threads' writes. Raises VerifyError where what they read has changed since."""
