"""A rank that measures links: `python -m tilewright.placement.running.link_times FOLDER`. Each collective at sizes from a page to 4 MiB, the least of
some calls, on the slowest rank. Then what work side by side costs: a product, a copy and an all-reduce, in pairs, on one core for each rank."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from threading import Event, Thread
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
    slowed = _slowed(world)
    if world.Get_rank() == 0:
        (folder / "results.json").write_text(json.dumps({"seconds": found, "slowed": slowed}))
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


def _slowed(world: Any) -> dict[str, dict[str, float]]:
    """How many times as long each kind of work takes beside each other kind, on the slowest rank; 1 at least."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if cores:
        os.sched_setaffinity(0, {cores[world.Get_rank() % len(cores)]})  # a device is one core: work beside other work shares it
    a, b = np.ones((256, 256), "float32"), np.ones((256, 256), "float32")
    product, source, copy = np.empty_like(a), np.ones(1 << 22, "float32"), np.ones(1 << 22, "float32")
    terms, sums = np.zeros(1 << 18, "float32"), np.zeros(1 << 18, "float32")
    work: dict[str, Callable[[], Any]] = {
        "network": lambda: world.Allreduce(terms, sums),  # first: only the main thread calls it, equally often on all ranks
        "memory": lambda: np.copyto(copy, source),
        "compute": lambda: np.matmul(a, b, product),
    }
    alone = {kind: _beside(world, call, None)[0] for kind, call in work.items()}
    found: dict[str, dict[str, float]] = {kind: {} for kind in work}
    for main, other in combinations(work, 2):
        mine, theirs = _beside(world, work[main], work[other])
        found[main][other], found[other][main] = max(1.0, mine / alone[main]), max(1.0, theirs / alone[other])
    return found


def _beside(world: Any, call: Callable[[], Any], other: Callable[[], Any] | None) -> tuple[float, float]:
    """(seconds of a call while a second thread does the other over and over, seconds of the other then), on the slowest rank."""
    stop, done = Event(), [0]

    def again() -> None:
        while other is not None and not stop.is_set():
            other()
            done[0] += 1

    thread = Thread(target=again)
    thread.start()
    world.Barrier()
    before, begin, calls, go_on = done[0], time.perf_counter(), 0, True
    while go_on:
        call()
        calls += 1
        go_on = calls % 8 != 0 or not world.bcast(time.perf_counter() > begin + 3 * SECONDS)
    took = time.perf_counter() - begin
    others = done[0] - before
    stop.set()
    thread.join()
    slowest = world.allreduce(took / calls, op=_max())
    return slowest, world.allreduce(took / max(others, 1), op=_max())


def _max() -> Any:
    from mpi4py import MPI

    return MPI.MAX


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
