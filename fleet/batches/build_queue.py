"""Schedules that are to be built, seen from the client: on machines that only build where there are such, else by the builders beside
the devices, which work while their device is timed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...ir.errors import FleetError
from ...log import logger
from ...measure.outcome import Measurement
from ..engine import FleetEngine, FleetJob, FleetSlot, Running
from . import messages
from .jobs_in_flight import ask_to_stop
from .messages import TravellingBuild

if TYPE_CHECKING:
    from ...opts.opt import Opt

log = logger("fleet")

CHUNK = 4
"""Schedules of one build job: its trip takes ten milliseconds, and building one some fifty."""
LOOK_S = 1.0
"""Seconds between two looks for machines that build."""
WAIT_S = 0.25
"""Seconds that a wait for builds takes at most."""
Made = TravellingBuild | Measurement


class BuildQueue:
    """Numbers stand for schedules. `payload`: what every build job carries; None where no machine is asked that only builds.
    `fetch(seconds)` asks the devices' workers for what they have built, and hands them more (`hand`)."""

    def __init__(self, engine: FleetEngine, payload: Mapping[str, Any] | None, title: str, clock: Callable[[], float]) -> None:
        self._engine, self._payload, self._title, self._clock = engine, payload, title, clock
        self.fetch: Callable[[float], None] = lambda seconds: None
        self._opts: dict[int, tuple[Opt, ...]] = {}
        self._unsent: deque[int] = deque()
        self._done: dict[int, Made] = {}
        self._with: dict[int, tuple[str, str]] = {}
        """Which worker's builders have it, and its epoch."""
        self._jobs: list[tuple[Running, list[int]]] = []
        self._refused: set[str] = set()
        self._builders: list[FleetSlot] = []
        self._looked = -1e9
        self._next = 0

    def submit(self, schedules: Sequence[tuple[Opt, ...]]) -> list[int]:
        """Their numbers."""
        numbers = list(range(self._next, self._next + len(schedules)))
        self._next += len(schedules)
        self._opts.update(zip(numbers, schedules))
        self._unsent.extend(numbers)
        self._dispatch()
        return numbers

    def finished(self, numbers: Sequence[int]) -> list[tuple[int, Made]]:
        """Those of these that are done, each once."""
        self._dispatch()
        self._collect(0.0)
        done = [n for n in numbers if n in self._done]
        for n in done:
            del self._opts[n]
        return [(n, self._done.pop(n)) for n in done]

    def wait(self, numbers: Sequence[int]) -> None:
        """Wait a moment for one of these."""
        if self._jobs and not any(n in self._with for n in numbers):
            self._collect(WAIT_S)
        else:
            self.fetch(WAIT_S)

    def drop(self, numbers: Sequence[int]) -> None:
        """They are not wanted any more."""
        gone = set(numbers)
        self._unsent = deque(n for n in self._unsent if n not in gone)
        for n in gone:
            self._opts.pop(n, None)
            self._done.pop(n, None)
            self._with.pop(n, None)

    # beside the devices ---------------------------------------------------------------------------------------------
    def hand(self, address: str, epoch: str, share: int) -> list[list[Any]]:
        """[number, options] for the builders of a worker, its share of `share` workers; none while other machines build."""
        if self._building_elsewhere():
            return []
        count = -(-len(self._unsent) // share)
        out = []
        for _ in range(count):
            n = self._unsent.popleft()
            self._with[n] = (address, epoch)
            out.append([n, [o.json for o in self._opts[n]]])
        return out

    def waits_for(self, address: str) -> bool:
        """Whether a worker's builders have anything."""
        return any(a == address for a, _ in self._with.values())

    def came(self, address: str, epoch: str, built: Any) -> None:
        """What a worker has built. One that answers under another epoch has forgotten what it was asked before."""
        for n, data in built:
            self._settle(int(n), data, address)
        self._again([n for n, (a, e) in self._with.items() if a == address and e not in ("", epoch)])
        for n, (a, e) in self._with.items():
            if a == address and not e:
                self._with[n] = (a, epoch)

    def gone(self, address: str) -> None:
        """A worker is lost: others build what it had."""
        self._again([n for n, (a, _) in self._with.items() if a == address])

    def _again(self, numbers: list[int]) -> None:
        for n in numbers:
            del self._with[n]
        self._unsent.extendleft(reversed(numbers))

    # elsewhere ------------------------------------------------------------------------------------------------------
    def _building_elsewhere(self) -> bool:
        if self._payload is None:
            return False
        if self._clock() - self._looked > LOOK_S:
            self._looked = self._clock()
            able = [s for s in self._engine.slots() if s.device is None and s.build and not s.refused]
            self._builders = [s for s in able if s.address not in self._refused]
        return bool(self._builders)

    def _dispatch(self) -> None:
        if not self._unsent or not self._building_elsewhere():
            return
        for slot in self._builders:
            free = 2 * slot.build - sum(r.slot.address == slot.address for r, _ in self._jobs)  # one is built, one waits there
            while free > 0 and self._unsent:
                numbers = [self._unsent.popleft() for _ in range(min(CHUNK, len(self._unsent)))]
                items = [[n, [o.json for o in self._opts[n]]] for n in numbers]
                job = FleetJob("build", {**(self._payload or {}), "items": items}, f"{self._title}: {len(items)} builds")
                self._jobs.append((self._engine.submit(slot, job), numbers))
                free -= 1

    def _collect(self, seconds: float) -> None:
        if self._jobs and seconds:
            wait([r for r, _ in self._jobs], seconds, FIRST_COMPLETED)
        for job in [j for j in self._jobs if j[0].done()]:
            self._jobs.remove(job)
            running, numbers = job
            error = running.exception(0)
            if error is None:
                for n, data in messages.facts(running.result(0)).get("built", ()):
                    self._settle(int(n), data)
            else:
                log.info("%s builds no more for this run: %s", running.slot.host or running.slot.address, error)
                self._refused.add(running.slot.address)
                self._looked = -1e9
            left = [n for n in numbers if n in self._opts and n not in self._done]
            self._unsent.extendleft(reversed(left))

    def _settle(self, n: int, data: Mapping[str, Any], at: str = "") -> None:
        self._with.pop(n, None)
        opts = self._opts.get(n)
        if opts is None or n in self._done:
            return  # dropped, or built by another as well
        if not isinstance(data, Mapping) or not {"made", "failed"} & data.keys():
            raise FleetError("what a worker says of a build is not readable; client and worker must be the same version")
        self._done[n] = (
            replace(messages.build(data["made"], opts), made_at=at) if "made" in data else messages.measurement(data["failed"], opts)
        )

    def close(self) -> None:
        """Stop what is being built."""
        for running, _ in self._jobs:
            ask_to_stop(running)
        self._jobs.clear()


class TravellingBuilds(Iterator[tuple[int, Made]]):
    """What `FleetMeasurer.build` returns: (position, build or failure) as they finish."""

    def __init__(self, queue: BuildQueue, schedules: Sequence[tuple[Opt, ...]]) -> None:
        self._queue = queue
        self._left = {n: i for i, n in enumerate(queue.submit(schedules))}
        self._ready: deque[tuple[int, Made]] = deque()

    def __next__(self) -> tuple[int, Made]:
        while self._left:
            if self._ready:
                n, made = self._ready.popleft()
                return self._left.pop(n), made
            self._ready.extend(self._queue.finished(list(self._left)))
            if not self._ready:
                self._queue.wait(list(self._left))
        raise StopIteration

    def __len__(self) -> int:
        return len(self._left)

    def finished(self, wait_s: float) -> list[tuple[int, Made]]:
        """All that is finished and was not taken yet; `wait_s` more than 0: after a moment of waiting where nothing is."""
        if not self._ready:
            self._ready.extend(self._queue.finished(list(self._left)))
            if not self._ready and wait_s > 0:
                self.wait(wait_s)
                self._ready.extend(self._queue.finished(list(self._left)))
        out = [(self._left.pop(n), made) for n, made in self._ready]
        self._ready.clear()
        return out

    def wait(self, wait_s: float) -> None:
        """Wait a moment: workers are asked no more often than that, however short `wait_s` is."""
        self._queue.wait(list(self._left))

    def close(self) -> None:
        """Drop what is not built yet."""
        self._queue.drop(list(self._left))
        self._left.clear()
