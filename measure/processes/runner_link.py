"""The main process's end of a runner: started, told what to prepare, asked, and started again when it was lost."""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.errors import MeasureError
from ...log import logger
from ..bench import Data, RunnerSetup
from . import process, runner
from .process import STILL_S, Slots, Stillness
from .protocol import Closed

if TYPE_CHECKING:
    from .buildpool import BuildPool
    from .forked import Helper


log = logger("measure")


class RunnerLink:
    """One runner process, or its successor."""

    def __init__(self, setup: RunnerSetup, pool: BuildPool, longest_s: float, prepared: Sequence[Data], beside: bool = False) -> None:
        """`prepared`: the inputs that it makes at once, with their references, before it is asked anything. `longest_s`: seconds
        that a step of a child may take: while one runs, the runner itself waits. `beside`: it makes them as a builder works, so
        it stands still while something is timed, until it is asked to measure."""
        self.longest_s = longest_s
        self.prepared_s: list[tuple[float, float] | None] = []
        """Processor seconds that inputs and references took, and copies of operands, of all that is prepared by now (None: not known)."""
        self._setup, self._pool, self._wanted, self._beside = setup, pool, tuple(prepared), beside
        self.process: Helper
        self._start()

    def _start(self) -> None:
        self._lost = False
        self.process, self.channel = process.start(runner.MODULE, self._setup, self._pool.group if self._beside else 0)
        self.prepared_s = []
        for data in self._wanted:
            self.channel.send(("prepare", data))
        self._busy = True

    @property
    def preparing(self) -> bool:
        """Something that was to be prepared at once is not known to be there."""
        return len(self.prepared_s) < len(self._wanted)

    def still_to_make(self, estimate_s: float) -> float:
        """Seconds that what is to be prepared will still take, where all of it takes `estimate_s`: what it had no room for, or was lost,
        is made when it is asked."""
        self._pump()
        if self._lost:
            return estimate_s
        later = estimate_s * self.prepared_s.count(None) / max(1, len(self._wanted))
        return max(later, estimate_s - self.used_s()) if self.preparing else later

    def _pump(self) -> None:
        """Take what it has said of its preparations by now. What went wrong is an error when it is asked."""
        try:
            while not self._lost and self.preparing and (self.channel.pending() or select.select([self.channel], [], [], 0)[0]):
                self._prepared()
        except Closed as e:
            self._lost = True
            log.info("what is prepared beside the search is lost: %s", e)
        except MeasureError as e:
            log.info("something could not be prepared beside the search: %s", e)

    def used_s(self) -> float:
        """Processor seconds that it has used."""
        return process.used_s(self.process.pid)

    def send(self, message: Any) -> None:
        """Ask it, when all is prepared. Raises Closed, and MeasureError for an error there."""
        if self._busy and not self.preparing:
            self.restart()  # an interrupted call left its answers on the way
        while self.preparing:
            self._prepared()
        self._busy = True
        self.channel.send(message)

    def _prepared(self) -> None:
        try:
            self.prepared_s.append(self.receive()[1])
        except MeasureError:
            self.prepared_s.append(None)  # who needs it will see why
            raise

    def receive(self) -> tuple[str, Any]:
        """The next message; the builders are served meanwhile. Raises Closed, and MeasureError for an error there."""
        channel, stillness = self.channel, Stillness(self.process.pid, STILL_S if self.preparing else self.longest_s)
        while not channel.pending():
            ready = select.select([channel, *self._pool.channels()], [], [], 1.0)[0]
            if channel in ready:
                channel.pump()
                ready.remove(channel)
            elif stillness.over():
                raise Closed(f"it stood still for {stillness.limit_s:.0f} s")
            self._pool.pump(0.0)
        kind, payload = channel.receive(0)
        if kind in ("done", "error"):
            self._busy = False
        if kind == "error":
            raise MeasureError(payload)
        return kind, payload

    def restart(self) -> str:
        """Start a new runner; how the old one ended."""
        self.channel.close()
        self.process.kill()
        how = process.how_it_ended(self.process.wait())
        Slots(self._pool.group).release()
        log.info("the runner %s; a new one is started", how)
        self._start()
        return how

    def stop(self) -> None:
        """End it and whatever it forked, now."""
        process.stop(self.process, self.channel)
