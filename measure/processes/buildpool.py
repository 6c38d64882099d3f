"""The build pool: a few builder processes, a queue, and the schedules that are being built (`Builds`).

A builder that hangs or dies costs one candidate, never the search."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.errors import MeasureError
from ...log import logger
from ..outcome import Measurement, Outcome
from . import builder, process
from .builder import BuilderSetup
from .forked import Helper
from .protocol import Channel, Closed

if TYPE_CHECKING:
    from ...opts.opt import Opt
    from ...plan import Built


log = logger("measure")

_AHEAD = 6
"""Tasks a builder holds, so that it is not idle while the main process thinks of the next dozen."""
_START_S = 60.0
"""How long a builder may take to start on a busy machine."""
_FAILED_STARTS = 8
"""Builders lost in a row, without one result, after which something other than the candidates is at fault."""


class _Builder:
    """One process and the tasks it holds, oldest first. `since`: when it took up the oldest."""

    def __init__(self, setup: BuilderSetup, group: int, free: bool = False) -> None:
        """`free`: in a group of its own, it never stands still."""
        self.free = free
        self.process: Helper
        self.process, self.channel = process.start(builder.MODULE, setup, 0 if free else group)
        self.tasks: deque[tuple[int, Any]] = deque()
        self.since = time.monotonic()
        self.ready = False
        self._seen = self.since

    def stood(self) -> bool:
        """Whether the runner pauses it right now. What passed since the last look is then none of its task's time: a
        whole batch of short candidates is timed while it stands still."""
        now = time.monotonic()
        last, self._seen = self._seen, now
        if not self.stopped():
            return False
        self.since += now - max(last, self.since)
        return True

    def give(self, task: tuple[int, Any]) -> None:
        """Queue a task with the process. Raises Closed."""
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.append(task)
        self.channel.send(("build", *task))

    def drop(self, tickets: set[int]) -> None:
        """Ask it not to begin any of some tasks. It says which ones it did not."""
        mine = {t for t, _ in list(self.tasks)[1:]} & tickets
        if mine:
            with contextlib.suppress(Closed):  # `pump` sees that it died
                self.channel.send(("drop", mine))

    def stopped(self) -> bool:
        """Paused by the runner right now."""
        try:
            with open(f"/proc/{self.process.pid}/stat") as f:
                return f.read().rpartition(")")[2].split()[0] == "T"
        except OSError:
            return False

    def kill(self) -> str:
        """End it, leaving its number taken; how it ended."""
        self.channel.close()
        (os.killpg if self.free else os.kill)(self.process.pid, signal.SIGKILL)
        seen = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        if seen is None:
            return "ended"
        return process.how_it_ended(seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status)


class BuildPool:
    """`submit` queues option lists, `take` gives what is finished. Progress is made only inside `pump`, which every wait for
    something else should call when one of `channels()` is readable."""

    def __init__(self, setup: BuilderSetup, count: int, deadline_s: float = 30.0, free: int = 0) -> None:
        """`deadline_s`: seconds one build may take. `free`: so many of the builders work on while something is timed."""
        self._setup, self._deadline = setup, deadline_s
        self._queue: deque[tuple[int, Any]] = deque()
        self._done: dict[int, Any] = {}
        self._wanted: set[int] = set()
        self._next = 0
        self._failed_starts = 0
        first = _Builder(setup, 0)
        self.group = first.process.pid
        """The process group of all builders that may be paused. The first one leads it and is not reaped before `close`, so the number stays ours."""
        self._leader = first.process
        self._builders = [first] + [_Builder(setup, self.group, i < free) for i in range(count - 1)]

    def __len__(self) -> int:
        return len(self._builders)

    def submit(self, opts: Any) -> int:
        """Queue one option list; its ticket."""
        ticket, self._next = self._next, self._next + 1
        self._wanted.add(ticket)
        self._queue.append((ticket, opts))
        self._dispatch()
        return ticket

    def take(self, ticket: int) -> Any:
        """The Built of a ticket, or the Measurement that says why there is none, once; None while it is not finished."""
        got = self._done.pop(ticket, None)
        if got is not None:
            self._wanted.discard(ticket)
        return got

    def cancel(self, tickets: set[int]) -> None:
        """Forget tickets: not begun ones are dropped, also those that builders hold, and results of others thrown away."""
        self._wanted -= tickets
        self._queue = deque(t for t in self._queue if t[0] not in tickets)
        for t in tickets:
            self._done.pop(t, None)
        for b in self._builders:
            b.drop(tickets)

    def channels(self) -> list[Channel]:
        """What to wait on."""
        return [b.channel for b in self._builders]

    def pump(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for builders, take what they have, give them more, replace the dead and the late."""
        select.select(self.channels(), [], [], max(0.0, timeout))
        for b in list(self._builders):
            try:
                while select.select([b.channel], [], [], 0)[0]:
                    b.channel.pump()
                    while b.channel.pending():
                        self._finish(b, *b.channel.receive(0))
            except Closed:
                self._replace(b, None)
        for b in list(self._builders):
            limit = self._deadline if b.ready else max(self._deadline, _START_S)
            if b.tasks and not b.stood() and time.monotonic() - b.since > limit:
                self._replace(b, f"building it did not end within {limit:.3g} s")
        self._dispatch()

    def close(self) -> None:
        """End every builder, with the compilers that they started."""
        if self._builders:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, signal.SIGKILL)
        while self._builders:
            b = self._builders.pop()
            b.kill()
            b.process.wait()
        self._leader.wait()

    # internals ----------------------------------------------------------------------------------------------------
    def _finish(self, b: _Builder, ticket: int | None, result: Any) -> None:
        b.since = time.monotonic()
        if ticket is None:
            if result == "ready":
                b.ready = True
            else:
                b.tasks = deque(t for t in b.tasks if t[0] not in result)
            return
        b.tasks.popleft()
        self._failed_starts = 0
        if ticket in self._wanted:
            self._done[ticket] = result

    def _dispatch(self) -> None:
        for b in sorted(self._builders, key=lambda b: len(b.tasks)):
            while self._queue and len(b.tasks) < _AHEAD:
                # the shortest list first: with fewer tasks than places, every builder gets one before any gets two
                if len(b.tasks) and any(not other.tasks for other in self._builders):
                    break
                try:
                    b.give(self._queue.popleft())
                except Closed:
                    # it died: pump() sees the end of its stream, blames its oldest task and requeues the others
                    break

    def _replace(self, b: _Builder, late: str | None) -> None:
        """The oldest task is the culprit; the others go back to the front of the queue."""
        seconds = time.monotonic() - b.since
        ended = b.kill()
        self._builders.remove(b)
        if b.process is not self._leader:
            b.process.wait()
        tasks = list(b.tasks)
        log.info("builder %d is replaced: %s; it held %d builds", b.process.pid, late or ended, len(tasks))
        if tasks:
            ticket, opts = tasks[0]
            if ticket in self._wanted:
                why = late or f"its builder ended: {ended}"
                self._done[ticket] = Measurement(tuple(opts), Outcome.build, detail=why, build_s=seconds)
            self._queue.extendleft(t for t in reversed(tasks[1:]) if t[0] in self._wanted)
        self._failed_starts = 0 if late else self._failed_starts + 1
        if self._failed_starts > _FAILED_STARTS:
            raise MeasureError(f"builder processes keep dying ({ended}); give them more memory, or see what they print above")
        self._builders.append(_Builder(self._setup, self.group, b.free))


class Builds(Iterator[tuple[int, "Built | Measurement"]]):
    """What `Measurer.build` returns."""

    def __init__(self, pool: BuildPool, schedules: Sequence[tuple[Opt, ...]]) -> None:
        self._pool, self._schedules = pool, schedules
        self._tickets: dict[int, int] = {}
        for i, opts in enumerate(schedules):  # an interrupt may strike between any two
            self._tickets[pool.submit(opts)] = i

    def __next__(self) -> tuple[int, Built | Measurement]:
        while self._tickets:
            for ticket, i in self._tickets.items():
                got = self._pool.take(ticket)
                if got is not None:
                    del self._tickets[ticket]
                    return i, got
            self._pool.pump(1.0)
        raise StopIteration

    def finished(self, wait_s: float) -> list[tuple[int, Built | Measurement]]:
        """All that is finished and was not taken yet; where nothing is, what is within `wait_s` seconds. Empty: nothing yet, or
        nothing left (`len`)."""
        until = time.monotonic() + wait_s
        while True:
            self._pool.pump(0.0)
            done = [(t, i, got) for t, i in self._tickets.items() if (got := self._pool.take(t)) is not None]
            for ticket, _, _ in done:
                del self._tickets[ticket]
            if done or not self._tickets or time.monotonic() >= until:
                return [(i, got) for _, i, got in done]
            self._pool.pump(min(0.05, max(0.0, until - time.monotonic())))

    def wait(self, wait_s: float) -> None:
        """Until some builder says something, at most so many seconds."""
        self._pool.pump(wait_s)

    def __len__(self) -> int:
        """Schedules that were not taken yet."""
        return len(self._tickets)

    def close(self) -> None:
        """Drop what is not built yet."""
        self._pool.cancel(set(self._tickets))
        self._tickets.clear()

    def __del__(self) -> None:
        if hasattr(self, "_tickets"):  # not where an interrupt struck before there was anything to drop
            self.close()
