"""Building many kernels at once: helper processes resolve and compile into the artefact store, beside the process that asks.

Choosing and lowering schedules is Python, so threads would not help. A helper is started only where there is enough for it to do, is given
a kernel whenever it asks for one, by a thread of its own that mostly waits, and ends with its owner.

`python -m tilewright.search.parallel_builds READ_FD WRITE_FD PARENT_PID` is a helper."""

from __future__ import annotations

import gc
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.errors import TilewrightError
from ..ir.normal_form import normalise
from ..log import logger
from ..measure.processes import process
from ..measure.processes.forked import Helper
from ..measure.processes.protocol import Channel, Closed
from ..plan import Artefacts, key_of
from ..plan.find import code_of
from ..plan.resolve import has_start
from ..targets import usable_cores

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
SILENT_S, AGAIN_S = 2.0, 0.2
"""Seconds after which it is said what is built, and seconds between two such lines."""


@dataclass
class BuildPlace:
    """What kernels are built for. `where` names the cache to another process (None: its default)."""

    device: Device
    threads: int
    cache: Cache
    store: Artefacts
    where: str | None = None


class BuildHelpers:
    """The helpers of one `place`. They end when its `with` block does."""

    def __init__(self, place: BuildPlace) -> None:
        self._place = place
        self._helpers: list[tuple[Helper, Channel]] = []

    def __enter__(self) -> BuildHelpers:
        return self

    def __exit__(self, *_: object) -> None:
        while self._helpers:
            process.stop(*self._helpers.pop())

    def expect(self, kernels: int) -> None:
        """Start helpers for about so many kernels, unless there are some: they import what they need before the kernels are known."""
        place = self._place
        spec = place.device.spec
        if not spec or self._helpers or not sys.platform.startswith("linux"):
            return
        setup = spec, place.threads, place.where, str(place.store.folder)
        for _ in range(min(usable_cores() - 1, MOST, kernels // WORTH)):
            self._helpers.append(process.start(MODULE, setup))

    def build(self, kernels: Sequence[Kernel], make: Callable[[Kernel], object]) -> None:
        """Build kernels, those first that come first, in helpers and here: `make` is called here with each of them, mostly when a helper
        has put it into the store. A helper that fails or dies is no loss: what it did not make, `make` does. Raises what `make` raises."""
        left = deque(k for k in kernels if not _built(k, self._place))
        known = [k for k in kernels if not any(k is other for other in left)]
        self.expect(len(left))
        shared = _SharedBuilds([c for _, c in self._helpers], left)
        line = _ProgressLine(len(left))
        try:
            for done, kernel in enumerate(shared.kernels()):
                line.tell(done, kernel.name)
                make(kernel)
        finally:
            line.end()
            if shared.serving.is_alive():  # `make` failed: nobody waits for the others
                for p, _ in self._helpers:
                    p.kill()
            shared.serving.join()
        for kernel in known:
            make(kernel)


class _SharedBuilds:
    """The kernels that are `left` to build, which helpers and this process take from one end."""

    def __init__(self, helpers: Sequence[Channel], left: deque[Kernel]) -> None:
        self._busy: dict[int, Channel] = {c.read_fd: c for c in helpers}
        self._left = left
        self._made: deque[Kernel] = deque()
        self._changed = threading.Condition()
        self.serving = threading.Thread(target=self._serve, daemon=True)
        self.serving.start()

    def kernels(self) -> Iterator[Kernel]:
        """Each kernel once: what a helper has built, or is left for this process to build."""
        while True:
            with self._changed:
                while not self._made and not self._left and self._busy:
                    self._changed.wait()
                if not self._made and not self._left:
                    return
                kernel = (self._made or self._left).popleft()
            yield kernel

    def _serve(self) -> None:
        """Give a kernel to every helper that asks for one, until there are no more."""
        given: dict[int, Kernel] = {}
        while self._busy:
            for fd in select.select(list(self._busy), [], [])[0]:
                channel = self._busy[fd]
                try:
                    channel.receive()
                    self._over(given.pop(fd, None))
                    with self._changed:
                        kernel = self._left.popleft() if self._left else None
                    if kernel is not None:
                        given[fd] = kernel
                        channel.send(kernel)
                        continue
                except Closed:
                    log.info("a process that builds kernels ended; the others go on")
                    self._over(given.pop(fd, None))
                with self._changed:
                    del self._busy[fd]
                    self._changed.notify()

    def _over(self, kernel: Kernel | None) -> None:
        if kernel is not None:
            with self._changed:
                self._made.append(kernel)
                self._changed.notify()


class _ProgressLine:
    """Says on a terminal what is built when that takes long; the log has it in any case."""

    def __init__(self, count: int) -> None:
        self._count, self._began, self._told = count, time.monotonic(), 0.0
        self._width = 0

    def tell(self, done: int, name: str) -> None:
        """Show how many are done and the name of the next one."""
        now = time.monotonic()
        if now - self._began < SILENT_S or now - self._told < AGAIN_S:
            return
        self._told = now
        text = f"building kernels: {done} of {self._count}, {now - self._began:.0f} s: {name}"[:79]
        log.info("%s", text)
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"\r{text:<{self._width}}")
            sys.stderr.flush()
            self._width = len(text)

    def end(self) -> None:
        """Take the line away."""
        if self._width:
            sys.stderr.write(f"\r{'':<{self._width}}\r")
            sys.stderr.flush()


def _built(kernel: Kernel, place: BuildPlace) -> bool:
    """Whether the kernel has been built before, most likely: the store has its start schedule, or the cache an answer."""
    kernel = normalise(kernel)
    key = key_of(kernel, place.device, place.threads)
    return has_start(kernel, place.device, key, place.store) or bool(place.cache.answers(key))


def _build(kernel: Kernel, place: BuildPlace) -> None:
    from ..plan import build, resolve

    try:
        plan = resolve(kernel, place.device, place.threads, place.cache, store=place.store, start="quick")
        build(plan.rendered or code_of(kernel, plan, place.device, place.store)[1], place.device, place.store)
    except TilewrightError as e:  # whoever needs the kernel gets the error
        log.debug("%s was not built ahead: %s", kernel.name, e)


def serve(channel: Channel, setup: Any) -> None:
    """Ask for kernels and build them until there are no more."""
    from ..cache import open as opened
    from ..devices import get

    spec, threads, cache, store = setup
    place = BuildPlace(get(spec), threads, opened(cache), Artefacts(store))
    from .. import heuristics, lower, renderers  # what the first kernel needs, while nobody waits for it yet

    log.debug("%s, %s and %s are there", heuristics.__name__, lower.__name__, renderers.__name__)
    place.device.compiler_id()
    gc.disable()  # (as `jit` does while it compiles: kernels are made of many objects and hardly a cycle)
    channel.send("ready")
    while True:
        _build(channel.receive(), place)
        channel.send("ready")


if __name__ == "__main__":
    from . import parallel_builds

    process.main(sys.argv, parallel_builds.serve)
