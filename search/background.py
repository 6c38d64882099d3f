"""Tuning beside a running program: kernels are tuned in a process of the lowest priority, and the program hears of each.

`python -m tilewright.search.background READ_FD WRITE_FD PARENT_PID` is that process. Every schedule is verified and timed there
as in any search; the program only looks them up."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.errors import TilewrightError
from ..log import logger
from ..measure.processes import process
from ..measure.processes.protocol import Channel, Closed

if TYPE_CHECKING:
    from ..ir.kernel import Kernel
    from .parallel_builds import BuildPlace

log = logger("search")

MODULE = "tilewright.search.background"
NICE = 19
TUNED = "tuned"


class BackgroundTuner:
    """Tunes kernels one after the other, `seconds` for each. `done(i)` is called when kernel i is tuned, on a thread of this
    object's."""

    def __init__(self, kernels: Sequence[Kernel], place: BuildPlace, seconds: Sequence[float], done: Callable[[int], None]) -> None:
        self._kernels, self._seconds, self._done = list(kernels), list(seconds), done
        self._setup = place.device.spec, place.threads, place.where
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tilewright-background", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        helper, channel = process.start(MODULE, self._setup)
        try:
            for i, (kernel, seconds) in enumerate(zip(self._kernels, self._seconds, strict=True)):
                channel.send((kernel, seconds))
                answer = self._answer(channel)
                if answer is None:
                    return
                log.info("%s in the background: %s", kernel.name, answer)
                if answer == TUNED:
                    self._done(i)
        except Closed:
            log.info("the process that tunes in the background ended; kernels stay as they are")
        finally:
            process.stop(helper, channel)

    def _answer(self, channel: Channel) -> str | None:
        """What became of a kernel; None after `stop`."""
        while not self._stopped.is_set():
            try:
                return str(channel.receive(0.1))
            except TimeoutError:
                continue
        return None

    def stop(self) -> None:
        """End it."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all are tuned; False where `seconds` passed before."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


def serve(channel: Channel, setup: Any) -> None:
    """Tune what comes, and say what became of it."""
    from . import tune

    os.nice(NICE)
    device, threads, cache = setup
    while True:
        kernel, seconds = channel.receive()
        try:
            result = tune(kernel, device=device, threads=threads, cache=cache, budget=seconds)
            channel.send(TUNED if result.exit_code == 0 else f"nothing was found (exit code {result.exit_code})")
        except TilewrightError as e:
            channel.send(f"failed: {e}")


if __name__ == "__main__":
    import sys

    from . import background

    process.main(sys.argv, background.serve)
