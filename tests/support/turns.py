"""Who may run beside whom, where several processes run the tests (pytest-xdist).

A test marked `alone` compares times that were measured, or needs what a machine has once; while it runs, the other
processes wait between two tests. `Turns` is a lock that many may share or one may have. A second lock, the gate, is
held by whoever waits, so that those who share cannot pass the right to each other for ever."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Turns:
    """The locks lie in `folder`, which all processes of a run are given. One object for each process."""

    def __init__(self, folder: Path) -> None:
        self._gate, self._room = (os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) for name in ("gate", "room"))
        self._alone = False

    def enter(self, alone: bool) -> None:
        """Waits until a test may begin."""
        if self._alone:
            return  # kept by `leave`
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        self._alone = alone

    def leave(self, alone_next: bool) -> None:
        """The test has ended. Where the next one here runs alone as well, nobody comes between."""
        if not (self._alone and alone_next):
            # explicitly, and not by closing: children that a test forked have the same open file
            fcntl.flock(self._room, fcntl.LOCK_UN)
            self._alone = False
