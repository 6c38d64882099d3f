"""A rank that measures links: `python -m tilewright.placement.running.link_times FOLDER`. Each collective at sizes from a page to 4 MiB, the least of
some calls, on the slowest rank."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (1 << 12, 1 << 15, 1 << 18, 1 << 20, 1 << 22)
CALLS, SECONDS = 100, 0.1


def main(folder: Path) -> int:
    """Measure, and write (bytes, seconds) by kind."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    found: dict[str, list[tuple[int, float]]] = {}
    for size in SIZES:
        calls = _calls(world, size)
        for kind, call in calls.items():
            took = _least(world, call) / (2 if kind == "send" else 1)
            found.setdefault(kind, []).append((size, world.allreduce(took, MPI.MAX)))
    if world.Get_rank() == 0:
        (folder / "results.json").write_text(json.dumps(found))
    return 0


def _calls(world: Any, size: int) -> dict[str, Callable[[], Any]]:
    """Each collective on so many bytes."""
    n = world.Get_size()
    whole, piece, result = np.zeros(size, "uint8"), np.zeros(size // n, "uint8"), np.zeros(size // n * n, "uint8")
    back = np.zeros_like(whole)
    part = np.zeros(size // 4 // n, "float32")
    terms, sums = np.zeros(part.size * n, "float32"), np.zeros(part.size * n, "float32")
    return {
        "send": lambda: _there_and_back(world, whole, back),
        "all-reduce": lambda: world.Allreduce(terms, sums),
        "all-gather": lambda: world.Allgather(piece, result),
        "reduce-scatter": lambda: world.Reduce_scatter_block(terms, part),
    }


def _there_and_back(world: Any, out: Any, into: Any) -> None:
    if world.Get_rank() == 0:
        world.Send(out, 1)
        world.Recv(into, 1)
    elif world.Get_rank() == 1:
        world.Recv(into, 0)
        world.Send(out, 0)


def _least(world: Any, call: Callable[[], Any]) -> float:
    least = float("inf")
    world.Barrier()
    end = world.bcast(time.perf_counter() + SECONDS)
    for n in range(CALLS):
        world.Barrier()
        begin = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - begin)
        if n % 10 == 9 and world.bcast(time.perf_counter() > end):
            break
    return least


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
