"""Cores are shared: while the runner times a candidate, the builders stand still.

A builder beside a two-thread run on two cores doubles its time. All builders are in one process group, so stopping them is one
system call, takes effect at once however long a compilation is, and is undone by whoever outlives the holder.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def needs_pause(threads: int, builders: int, cores: int) -> bool:
    """Timing on `threads` beside `builders` busy processes does not fit on `cores` usable cores."""
    return threads + builders > cores


def leave_builders() -> None:
    """In a process that prepares beside the builders: from now on it does not stand still with them, but may make them do so."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


class Slots:
    """The right to use the cores, as held by the side that times. `group` is the builders' process group; None: nothing to
    pause."""

    def __init__(self, group: int | None) -> None:
        self.group = group

    def hold(self) -> None:
        """Stop the builders."""
        self._signal(signal.SIGSTOP)

    def release(self) -> None:
        """Let the builders go on (harmless when they were not stopped)."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """The builders stand still inside."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def _signal(self, number: signal.Signals) -> None:
        if self.group is None:
            return
        try:
            os.killpg(self.group, number)
        except ProcessLookupError:
            # every builder has ended: there is nothing to pause
            self.group = None
