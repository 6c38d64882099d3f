"""Tune everything that a manifest asks for and this machine can run, within one budget.

What is cached and valid costs nothing; what is left of the budget is spent where it is worth most (`search.outlook.Spending`): time that
one entry did not use flows on to the others. An entry that fails does not end the run, Ctrl-C does, and
what was tuned before stays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.dtypes import dtype
from ...ir.errors import DeviceError, OutOfTimeError, TilewrightError
from .. import strategy as strategies
from ..budget import DEFAULT_SECONDS, SPENT
from ..interrupts import Deadline, OutOfTime
from ..outlook import Spending
from .required import like, target_of

if TYPE_CHECKING:
    from ...cache import Cache
    from ...devices import Device
    from ..budget import Budget
    from ..progress import Progress
    from ..result import Result
    from .manifest_file import Entry, Manifest, Place

LEAST_S = 1.0
"""Seconds that an entry gets at least, however little is left: enough for its start schedules."""
TUNED, CACHED, FAILED, ELSEWHERE, INTERRUPTED, LEFT = "tuned", "cached", "failed", "elsewhere", "interrupted", "left"
"""What can come of an entry. 'elsewhere': its target is not here; 'left': not begun before Ctrl-C, or, with
a message, before the budget was spent."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an entry; `result` for those tuned, cached, or interrupted with an answer."""

    entry: Entry
    status: str
    result: Result | None = None
    message: str = ""


class Overall:
    """How far a run is: for whoever shows it. `done` grows; `busy`: an entry is being tuned."""

    def __init__(self, total: int, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.seconds, self._clock = total, seconds, clock
        self.started = clock()
        self.done: list[Done] = []
        self.busy = False

    @property
    def left(self) -> float | None:
        """Seconds left of the whole budget, None without one."""
        return None if self.seconds is None else self.seconds - (self._clock() - self.started)

    def line(self) -> str:
        """`3/12, 2 cached, 1 failed, 2:10 left`."""
        counts = Counter(d.status for d in self.done)
        parts = [
            f"{len(self.done) + self.busy}/{self.total}",
            *(f"{counts[s]} {s}" for s in (CACHED, TUNED, FAILED, ELSEWHERE) if counts[s]),
        ]
        if self.left is not None:
            whole = max(0, round(self.left))
            parts.append(f"{whole // 60}:{whole % 60:02d} left")
        return ", ".join(parts)


Show = Callable[["Entry", float | None, int | None, Overall], AbstractContextManager["Progress"]]
"""Makes the display of one entry from its share in seconds, its trials, and the whole; entered around its search."""


def here(place: Place) -> tuple[Device, int]:
    """The device and threads of a target that is on this machine. Raises DeviceError with the reason where it is not."""
    from ...devices import get

    device = get(place.device)
    device.check()
    key, _ = target_of(place)
    if not like(device.target.key, key):
        raise DeviceError(f"the device {place.device} here is {device.target.key}, not {key}")
    if place.compiler is not None and not like(device.compiler_id(), place.compiler):
        raise DeviceError(f"the compiler here is {device.compiler_id()}, not {place.compiler}")
    return device, place.threads or device.threads


def tune_all(
    manifest: Manifest,
    cache: Cache,
    *,
    seconds: float | None = None,
    trials: int | None = None,
    again: bool = False,
    strategy: str | None = None,
    until: Budget | None = None,
    show: Show,
    told: Callable[[Done, Overall], None] = lambda d, o: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Done]:
    """One Done for each entry, in the manifest's order; `told` hears of each as it is known.

    `seconds`: the budget of all (None: each has its own, by default 30 s unless `trials` are given); `trials`:
    measurements of each entry; `until`: a plateau or a share of the roofline that ends each of them; `again`: tune what is cached too; `strategy` goes before what the manifest says.
    Raises CacheError where the cache cannot be written; everything else is a Done."""
    overall = Overall(len(manifest.entries), seconds, clock)
    results: dict[int, Done] = {}
    spent = ""

    def conclude(i: int, done: Done) -> None:
        results[i] = done
        overall.done.append(done)
        told(done, overall)

    strategy = strategies.check(strategy) if strategy is not None else None
    cache.will_write = True
    try:
        with Deadline(seconds, time.monotonic()):
            todo: list[tuple[int, Entry, Device, int]] = []
            for i, entry, where in _located(manifest.entries):
                if isinstance(where, str):
                    conclude(i, Done(entry, ELSEWHERE, message=where))
                elif not again and (found := _cached(entry, where[0], where[1], cache)) is not None:
                    conclude(i, found)
                else:
                    todo.append((i, entry, *where))
            if todo:
                cache.ensure_writable()
            spending = Spending([e.weight for _, e, *_ in todo], lambda: overall.left)
            for n, given, more in spending:
                i, entry, device, threads = todo[n]
                if not more and overall.left is not None and overall.left <= 0:
                    conclude(i, Done(entry, LEFT, message=SPENT))
                    continue
                overall.busy = not more
                share = _share(entry, given, trials, until)
                done = _tune(entry, device, threads, cache, share, trials, again or more, strategy, until, show, overall)
                overall.busy = False
                spending.minute[n] = done.result.minute if done.result is not None and entry.budget is None and trials is None else None
                if not more:
                    conclude(i, done)
                elif done.status == TUNED:
                    overall.done[overall.done.index(results[i])] = results[i] = done
                    told(done, overall)
                if done.status == INTERRUPTED:
                    break
    except KeyboardInterrupt:  # between two entries
        pass
    except OutOfTimeError as e:
        spent = str(e)
    return [results.get(i) or Done(entry, LEFT, message=spent) for i, entry in enumerate(manifest.entries)]


def _located(entries: Sequence[Entry]) -> Iterator[tuple[int, Entry, tuple[Device, int] | str]]:
    """Each entry with its device and threads, or the reason why it cannot be tuned here."""
    known: dict[str, tuple[Device, int] | str] = {}
    for i, entry in enumerate(entries):
        place = entry.place
        if place.name not in known:
            try:
                known[place.name] = here(place)
            except DeviceError as e:
                known[place.name] = str(e)
        yield i, entry, known[place.name]


def _cached(entry: Entry, device: Device, threads: int, cache: Cache) -> Done | None:
    """The entry's answer in the cache; a failure where even asking fails."""
    from ...cache.keys import with_numerics
    from ..api import cached
    from ..budget import Budget

    # a budget that all share says nothing of one entry's; what the manifest gives to an entry does
    asked = Budget(entry.budget, entry.trials) if entry.budget is not None or entry.trials is not None else None
    try:
        found = cached(
            entry.tuned, entry.shape, entry.dtype or None, device, threads, cache, asked, entry.objective, with_numerics((), entry.numerics)
        )
    except TilewrightError as e:
        return Done(entry, FAILED, message=str(e))
    return None if found is None else Done(entry, CACHED, found)


def _share(entry: Entry, given: float | None, trials: int | None, until: Budget | None) -> float | None:
    """Seconds for an entry, of which the whole budget has some for it."""
    own = entry.budget
    if given is None:
        return own if own is not None or trials or entry.trials or (until and until.plateau) else DEFAULT_SECONDS
    return max(LEAST_S, given) if own is None else max(LEAST_S, min(given, own))


def _tune(
    entry: Entry,
    device: Device,
    threads: int,
    cache: Cache,
    share: float | None,
    trials: int | None,
    again: bool,
    strategy: str | None,
    until: Budget | None,
    show: Show,
    overall: Overall,
) -> Done:
    from ..api import tune
    from ..budget import Budget

    most = trials if trials is not None else entry.trials
    ends = (None, None, None) if until is None else (until.stop_at, None, until.plateau)
    try:
        with show(entry, share, most, overall) as progress:
            result = tune(
                entry.tuned,
                entry.shape,
                dtype(entry.dtype) if entry.dtype else None,
                device,
                # an answer that is checked here is not searched for again because there happens to be time
                Budget(share, most, *ends, wish=entry.budget is not None or most is not None),
                threads=threads,
                strategy=strategy or entry.strategy,
                start=entry.start,
                random_seed=entry.random_seed,
                objective=entry.objective,
                numerics=entry.numerics,
                cache=cache,
                retune=again,
                progress=progress,
                interrupt="return",
            )
    except OutOfTime:  # the whole run's
        raise
    except KeyboardInterrupt:
        return Done(entry, INTERRUPTED)
    except TilewrightError as e:
        return Done(entry, FAILED, message=str(e))
    if result.exit_code == 130:
        return Done(entry, INTERRUPTED, result if result.found else None)
    return Done(entry, TUNED, result) if result.found else Done(entry, FAILED, result, result.message or "nothing valid was found")
