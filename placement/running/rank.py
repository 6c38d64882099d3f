"""What the process of a rank does, started by the launcher: FOLDER/asked.json says what; each rank writes where it is into FOLDER/at.RANK, and rank
0 the results into FOLDER/results.json."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import ranks
from .ranks import Ranks

WIDTH = 160


class Whereabouts:
    """The file in which a rank says what it is doing: whoever started it reads that when it dies."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._fd = os.open(folder / f"at.{rank}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._pid = os.getpid()

    def say(self, what: str) -> None:
        os.pwrite(self._fd, f"{self._pid} {what}"[:WIDTH].ljust(WIDTH).encode(), 0)


def as_rank(folder: Path, backend: str, carry_out: Callable[[dict[str, Any], Ranks, Whereabouts], Any]) -> int:
    """What each rank's process does: `carry_out` what the folder asks for, and rank 0 writes what it returns."""
    watched = _watch(folder)
    world = ranks.world(backend)
    at = Whereabouts(folder, world.rank)
    try:
        at.say("begins")
        results = carry_out(json.loads((folder / "asked.json").read_text()), world, at)
        if world.rank == 0:
            (folder / "results.json").write_text(json.dumps(results))
        at.say("done")
        os.write(watched, b".")
        return 0
    except Exception as e:
        at.say(f"failed: {type(e).__name__}: {e}")
        time.sleep(world.patience)
        _note_end(folder, os.getpid())
        os.write(watched, b".")
        traceback.print_exc()
        world.end()
        return 1


def _watch(folder: Path) -> int:
    """A small process that notes when this one is killed: mpiexec ends all ranks when one is gone, and its own account of which was first is not
    to be relied on. Returns where to write a byte before an orderly end."""
    rank, (read, write) = os.getpid(), os.pipe()
    if os.fork():
        os.close(read)
        return write
    os.setsid()  # mpiexec's signals are for the rank
    os.closerange(0, read)
    os.closerange(read + 1, 1024)
    if not os.read(read, 1):
        _note_end(folder, rank)
    os._exit(0)


def _note_end(folder: Path, process: int) -> None:
    """When a rank failed or was killed: the first one is at fault, for the others then miss it."""
    (folder / f"killed.{process}").write_text(str(time.monotonic_ns()))
