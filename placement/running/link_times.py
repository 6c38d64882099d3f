"""A rank that measures links: `python -m tilewright.placement.running.link_times FOLDER BACKEND`. Each collective as a run calls it, at sizes from a
page to 4 MiB, the least of some calls, on the slowest rank. Then what work side by side costs: a product, a copy and an all-reduce, in pairs, on one
core for each rank."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from ...targets import affinity
from .ranks import Ranks
from .run_spec import Whereabouts, as_rank

SIZES = (1 << 12, 1 << 15, 1 << 18, 1 << 20, 1 << 22)
CALLS, SECONDS = 100, 0.1


def measured(asked: dict[str, Any], world: Ranks, at: Whereabouts) -> Any:
    """(bytes, seconds) by kind, and how many times as long work takes beside other work."""
    found: dict[str, list[tuple[int, float]]] = {}
    for size in SIZES:
        for kind, call in _calls(world, size).items():
            at.say(f"measures {kind} of {size} bytes")
            took = _least_time(world, call) / (2 if kind == "send" else 1)
            found.setdefault(kind, []).append((size, max(world.gather(took))))
    at.say("measures work side by side")
    return {"seconds": found, "slowed": _slowed(world)}


def _calls(world: Ranks, size: int) -> dict[str, Callable[[], Any]]:
    """Each collective on so many bytes."""
    whole, piece, back = np.zeros(size, "uint8"), np.zeros(size // world.size, "uint8"), np.zeros(size, "uint8")
    terms = np.zeros(size // 4 // world.size * world.size, "float32")
    return {
        "send": lambda: _there_and_back(world, whole, back),
        "all-reduce": lambda: world.all_reduce(terms),
        "all-gather": lambda: world.all_gather(piece),
        "reduce-scatter": lambda: world.reduce_scatter(terms),
    }


def _there_and_back(world: Ranks, out: Any, into: Any) -> None:
    for turn in range(2):
        if world.rank == turn:
            world.send(out, 1 - turn, turn).wait()
        elif world.rank == 1 - turn:
            world.receive(into, turn, turn)


def _least_time(world: Ranks, call: Callable[[], Any]) -> float:
    least = float("inf")
    end = time.perf_counter() + SECONDS
    for n in range(CALLS):
        world.barrier()
        begin = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - begin)
        if n % 10 == 9 and world.gather(time.perf_counter() > end)[0]:
            break
    return least


def _slowed(world: Ranks) -> dict[str, dict[str, float]]:
    """How many times as long each kind of work takes beside each other kind, on the slowest rank; 1 at least."""
    cores = sorted(affinity())
    if cores:
        os.sched_setaffinity(0, {cores[world.rank % len(cores)]})  # a device is one core: work beside other work shares it
    a, b = np.ones((256, 256), "float32"), np.ones((256, 256), "float32")
    product, source, copy = np.empty_like(a), np.ones(1 << 22, "float32"), np.ones(1 << 22, "float32")
    terms = np.zeros(1 << 18, "float32")
    work: dict[str, Callable[[], Any]] = {
        "network": lambda: world.all_reduce(terms),  # first: only the main thread calls it, equally often on all ranks
        "memory": lambda: np.copyto(copy, source),
        "compute": lambda: np.matmul(a, b, product),
    }
    alone = {kind: _contended(world, call, None)[0] for kind, call in work.items()}
    found: dict[str, dict[str, float]] = {kind: {} for kind in work}
    for main, other in combinations(work, 2):
        mine, theirs = _contended(world, work[main], work[other])
        found[main][other], found[other][main] = max(1.0, mine / alone[main]), max(1.0, theirs / alone[other])
    return found


def _contended(world: Ranks, call: Callable[[], Any], other: Callable[[], Any] | None) -> tuple[float, float]:
    """(seconds of a call while a second thread does the other over and over, seconds of the other then), on the slowest rank."""
    stop, done = Event(), [0]

    def again() -> None:
        while other is not None and not stop.is_set():
            other()
            done[0] += 1

    thread = Thread(target=again)
    thread.start()
    world.barrier()
    before, begin, calls, go_on = done[0], time.perf_counter(), 0, True
    while go_on:
        call()
        calls += 1
        go_on = calls % 8 != 0 or not world.gather(time.perf_counter() > begin + 3 * SECONDS)[0]
    took = time.perf_counter() - begin
    others = done[0] - before
    stop.set()
    thread.join()
    slowest = max(world.gather(took / calls))
    return slowest, max(world.gather(took / max(others, 1)))


if __name__ == "__main__":
    sys.exit(as_rank(Path(sys.argv[1]), sys.argv[2], measured))
