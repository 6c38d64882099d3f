"""One lock a machine: what times on the processor has it alone, and what times on GPUs or compiles shares it.

It is a lock on a file in the user's state folder, which the system lets go of when a process ends, however it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..files import folders
from ..ir.errors import FleetError

POLL_S = 0.002
"""How often a waiter asks. Once what is timed takes seconds, it asks less often."""
POLL_LATER_S = 0.02


def default_path() -> Path:
    """The lock of this machine and user."""
    return folders.state() / "fleet.lock"


@contextmanager
def held(path: str | os.PathLike[str], alone: bool, stopped: Callable[[], bool] = lambda: False) -> Iterator[float]:
    """Inside, nobody else has the lock (`alone`), or only others who share it. Gives the seconds that were waited. Raises
    KeyboardInterrupt when `stopped` becomes true while waiting, and FleetError where there can be no such file."""
    import fcntl

    began = time.monotonic()
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as e:
        raise FleetError(f"cannot open the lock {path} that keeps timings apart: {e.strerror}") from None
    try:
        while True:
            try:
                fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stopped():
                    raise KeyboardInterrupt from None
                time.sleep(POLL_S if time.monotonic() - began < 1.0 else POLL_LATER_S)
        yield time.monotonic() - began
    finally:
        os.close(fd)
