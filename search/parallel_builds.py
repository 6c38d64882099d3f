"""Building many kernels at once: helper processes resolve and compile into the artefact store, beside the process that asks.

LLVM is used by one thread at a time, and choosing schedules is Python: threads would not help. A helper is started only
where there is enough for it to do, works on the same list as this process, and ends with it.

`python -m tilewright.search.parallel_builds READ_FD WRITE_FD PARENT_PID` is a helper."""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.errors import TilewrightError
from ..log import logger
from ..measure.processes import process
from ..measure.processes.protocol import Channel, Closed

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device
    from ..ir.kernel import Kernel
    from ..plan import Artefacts

log = logger("search")

MODULE = "tilewright.search.parallel_builds"
WORTH = 12
"""Kernels that must be missing for each helper: it takes half a second to begin."""
MOST = 8
"""Helpers at most."""


@dataclass
class BuildPlace:
    """What kernels are built for. `where` names the cache to another process (None: its default)."""

    device: Device
    threads: int
    cache: Cache
    store: Artefacts
    where: str | None = None


def build_ahead(kernels: Sequence[Kernel], place: BuildPlace) -> None:
    """Build kernels, those first that come first, in helpers and here; all are in the store afterwards, if there is one. A
    helper that fails or dies is no loss: what it did not make is made when it is needed."""
    spec = place.device.spec
    if not spec or len(kernels) < WORTH or processors() < 2:
        return
    left = deque(k for k in kernels if not _built(k, place))
    count = min(processors() - 1, MOST, len(left) // WORTH)
    setup = spec, place.threads, place.where, str(place.store.folder)
    helpers = [process.start(MODULE, setup) for _ in range(count)]
    busy = {c.read_fd: c for _, c in helpers}
    idle: set[int] = set()
    try:
        while left and busy:
            _serve(busy, idle, left, 0.0)
            if left:
                _build(left.popleft(), place)
        while busy.keys() - idle:
            _serve(busy, idle, left, 1.0)
    finally:
        for p, c in helpers:
            process.stop(p, c)


def _serve(busy: dict[int, Channel], idle: set[int], left: deque[Kernel], wait: float) -> None:
    """Give a kernel to every helper that asks for one."""
    for fd in select.select([fd for fd in busy if fd not in idle], [], [], wait)[0]:
        try:
            busy[fd].receive()
            if left:
                busy[fd].send(left.popleft())
            else:
                idle.add(fd)
        except Closed:
            log.info("a process that builds kernels ended; the others go on")
            del busy[fd]


def _built(kernel: Kernel, place: BuildPlace) -> bool:
    """Whether the kernel has been built before, most likely: the store has its start schedule, or the cache an answer."""
    from ..ir.normal_form import normalise
    from ..plan import key_of
    from ..plan.resolve import has_start

    kernel = normalise(kernel)
    key = key_of(kernel, place.device, place.threads)
    return has_start(kernel, place.device, key, place.store) or bool(place.cache.answers(key))


def _build(kernel: Kernel, place: BuildPlace) -> None:
    from ..ir.normal_form import normalise
    from ..plan import build, render, resolve

    try:
        plan = resolve(kernel, place.device, place.threads, place.cache, store=place.store, start="quick")
        build(plan.rendered or render(normalise(kernel), plan.opts, place.device, place.store), place.device, place.store)
    except TilewrightError as e:  # whoever needs the kernel gets the error
        log.debug("%s was not built ahead: %s", kernel.name, e)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve(channel: Channel, setup: Any) -> None:
    """Ask for kernels and build them until there are no more."""
    from ..cache import open as opened
    from ..devices import get
    from ..plan import Artefacts

    spec, threads, cache, store = setup
    place = BuildPlace(get(spec), threads, opened(cache), Artefacts(store))
    channel.send("ready")
    while True:
        _build(channel.receive(), place)
        channel.send("ready")


if __name__ == "__main__":
    import sys

    from . import parallel_builds

    process.main(sys.argv, parallel_builds.serve)
