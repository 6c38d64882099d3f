"""A sweep on a fleet: as many entries side by side as there are slots, and none before the one that it begins from."""

from __future__ import annotations

import contextlib
import time
import uuid
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from ..cache.file_check import CacheWarning
from ..cache.server.server_errors import Unreachable
from ..ir.errors import CacheError, DeviceError, FleetError, TilewrightError, UsageError
from ..log import logger
from ..search.budget import DEFAULT_SECONDS
from ..search.manifest.tune_all import CACHED, ELSEWHERE, FAILED, INTERRUPTED, LEAST_S, LEFT, TUNED, Done, Overall, like, target_of
from . import entry_job
from .engine import FleetJob, JobFailed, SchedulerLost, SlotLeft, SlotLost

if TYPE_CHECKING:
    from ..cache import Cache, Row
    from ..cache.keys import Key
    from ..search.manifest.manifest_file import Entry, Manifest, Place
    from .engine import FleetEngine, FleetSlot, Running, SlotDevice


WAIT_S = 30.0
"""How long an entry waits for a slot that was there and is gone: a worker that died is started again in a second."""


@dataclass(eq=False)
class UnderWay:
    """An entry on a slot, for whoever shows it. `counts`: candidates by outcome; `top`: what is known of the best so far (t_min in
    seconds, gflops, gbytes_s, roofline_pct, opts in short form); `began`: a moment on the clock; `attempt`: 1 or 2."""

    entry: Entry
    slot: FleetSlot
    share: float | None
    trials: int | None
    began: float
    attempt: int = 1
    phase: str = "sent"
    counts: Counter[str] = field(default_factory=Counter)
    top: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FleetOptions:
    """As `tune_all`'s: the budget of all in seconds (None: each entry has its own), measurements of each entry, whether what is cached
    is tuned too, and a strategy that goes before what the manifest says."""

    seconds: float | None = None
    trials: int | None = None
    again: bool = False
    strategy: str | None = None
    wait_s: float = WAIT_S
    clock: Callable[[], float] = time.monotonic


@dataclass(eq=False)
class Todo:
    """An entry that is still to be tuned; `i`: its place in the manifest."""

    i: int
    entry: Entry
    attempt: int = 1
    without_s: float | None = None
    """Since when no slot fits."""


@dataclass(eq=False)
class Sent:
    """An entry that a slot has."""

    todo: Todo
    running: Running
    key: Key
    shown: UnderWay


# many -------------------------------------------------------------------------------------------------------
# Tune a manifest's entries on a fleet: those of different slots side by side, all written into one cache by this
# process alone.
#
# It is `search.manifest.tune_all` with slots in place of this machine. The budget is wall time; an entry gets what is
# left of it, divided by the entries that its slots still have to take one after the other.


# row writer -------------------------------------------------------------------------------------------------
# The client's pen: rows that arrive from everywhere are written by this process alone, many in a transaction.


WRITE_S = 0.25
"""Rows wait this long for others. Whoever waits for workers looks five times a second, so a row is written half a second after it came."""
PATIENCE_S = 0.25
"""How long a write waits for another process that writes, but for the last one."""
LAST_PATIENCE_S = 10.0
AGAIN_S = 5.0
"""After a failed write, rows wait this long before the next."""


class ClientWriter:
    """Rows on their way into a cache. A cache that cannot be written does not end a run: rows wait in memory, those for a server that does
    not answer in bundles too, and what is left at the end goes into a bundle that the next run takes in."""

    def __init__(self, cache: Cache, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache, self._clock = cache, clock
        self._rows: list[Row] = []
        self._next = clock()
        self._trouble = ""
        self._kept: list[Path] = []
        self._safe = 0
        """So many of the rows, from the first, are in the bundles `_kept` too."""

    @property
    def unwritten(self) -> list[Row]:
        """Rows that wait."""
        return list(self._rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Rows to be written soon."""
        self._rows += rows

    def write(self, now: bool = False) -> None:
        """Write what waits if it waited long enough, or `now`."""
        if self._rows and (self._clock() >= self._next or (now and not self._trouble)):
            self._try(PATIENCE_S)

    def close(self) -> str:
        """Write what waits, for the last time; what there is to say about it, or ''."""
        if self._rows:
            try:
                self._try(LAST_PATIENCE_S)
            except BaseException:  # an interrupt, by who did not want to wait
                self._keep()
                raise
        if not self._rows:
            return ""
        count = len(self._rows)
        try:
            self._keep()
        except CacheError as e:
            return f"{count - self._safe} measurements are lost: {self._trouble}; {e}"
        finally:
            self._rows = []
        where = ", ".join(map(str, self._kept))
        return f"the cache could not be written, so {count} measurements are in {where}; {self._cache.waiting.advice(self._kept)}"

    def _keep(self) -> None:
        """Put what is in no bundle yet into one. Raises CacheError."""
        if fresh := self._rows[self._safe :]:
            self._kept.append(self._cache.spill(fresh, uuid.uuid4().hex[:16]))
            self._safe = len(self._rows)

    def _try(self, patience_s: float) -> None:
        rows, self._rows = self._rows, []
        self._next = self._clock() + WRITE_S
        try:
            self._cache.record(rows, patience_s=patience_s)
            self._trouble, self._safe = "", 0
            while self._kept:
                self._kept.pop().unlink(missing_ok=True)
        except CacheError as e:
            self._rows = rows + self._rows
            self._next = self._clock() + AGAIN_S
            away = isinstance(e, Unreachable)
            if not self._trouble:
                waits = "a bundle" if away else "memory"
                warnings.warn(f"{e}. Tuning goes on; measurements wait in {waits}", CacheWarning, stacklevel=3)
            self._trouble = str(e)
            if away:
                with contextlib.suppress(CacheError):  # they stay in memory; `close` says so
                    self._keep()
        except BaseException:  # an interrupt inside the transaction rolls it back
            self._rows = rows + self._rows
            raise


# fits -------------------------------------------------------------------------------------------------------
# Which slots an entry's target means.


_SEVERAL = ("cuda", "opencl")
"""Devices of which a machine may have several: `cuda` means any of them, `cuda:1` one."""


def fitting(place: Place, slots: Sequence[FleetSlot]) -> list[FleetSlot]:
    """The slots that a target of a manifest means and this client can use. Raises DeviceError, which says what there is instead, where
    there are none, and UsageError where `host` could be several kinds of machine."""
    timing = [s for s in slots if s.device is not None and s.width]
    wanted = place.target
    if wanted == "host":
        alike = [s for s in timing if s.device is not None and _same_device(s.device.spec, place.device)]
    else:
        key, _ = target_of(place)
        alike = [s for s in timing if s.device is not None and like(s.device.target, key) and _matches_device(s.device, place)]
        wanted = key
    alike = [s for s in alike if s.device is not None and (place.compiler is None or like(s.device.compiler, place.compiler))]
    usable = [s for s in alike if not s.refused]
    if not usable:
        if alike:
            raise DeviceError(f"the worker at {alike[0].host} has it, but cannot be used: {alike[0].refused}")
        said = f"{place.device}, {'any target' if wanted == 'host' else wanted}" + (
            f", compiler {place.compiler}" if place.compiler else ""
        )
        raise DeviceError(f"no slot of the fleet is for it ({said}); there {_slots_text(timing)}")
    kinds = dict.fromkeys((s.device.target, s.device.compiler) for s in usable if s.device is not None)
    if place.target == "host" and len(kinds) > 1:
        raise UsageError(
            f"target {place.name!r} says host, which could be any of {', '.join(t for t, _ in kinds)} in this fleet; name one in the manifest"
        )
    return usable


def _same_device(spec: str, asked: str) -> bool:
    if ".py:" in spec and ".py:" in asked:  # a plug-in's file may lie elsewhere there
        return PurePath(spec).name == PurePath(asked).name
    return spec == asked or (asked in _SEVERAL and spec.partition(":")[0] == asked)


def _matches_device(device: SlotDevice, place: Place) -> bool:
    """Whether a device with the right target key is the one that the target names. A name's key holds the language, so there the
    kind is enough; a pattern may fit several."""
    return _same_device(device.spec, place.device)


def _slots_text(timing: Sequence[FleetSlot]) -> str:
    found = dict.fromkeys(f"{s.device.spec} {s.device.target} ({s.host})" for s in timing if s.device is not None)
    return f"is {', '.join(found)}" if len(found) == 1 else f"are {', '.join(found)}" if found else "is no worker with a device"


# many -------------------------------------------------------------------------------------------------------
log = logger("fleet")
LOOK_S = 1.0
"""How often the fleet is asked who is there."""
STOP_S = 20.0
"""How long searches may take to end after Ctrl-C: what they found is decided and sent then."""
TRIES = 2
"""Times that an entry is sent. Twice lost, it failed."""


Show = Callable[[Sequence[UnderWay], Overall], None]
"""Shows what is under way; called a few times a second."""


def tune_on_fleet(
    manifest: Manifest,
    cache: Cache,
    engine: FleetEngine,
    options: FleetOptions,
    show: Show = lambda under_way, overall: None,
    told: Callable[[Done, Overall], None] = lambda done, overall: None,
    after: Sequence[int | None] = (),
) -> list[Done]:
    """One Done for each entry, in the manifest's order; `told` hears of each as it is known. `after`: for each entry the index of the one
    that it waits for, None for none (`search.manifest.sweep_file`). An entry whose target no slot has is
    'elsewhere' at once. After Ctrl-C the searches are asked to end, and what they found is kept. Raises CacheError where the cache
    cannot be written, FleetError where the fleet cannot be asked at first."""
    run = FleetRun(manifest, cache, engine, options, show, told)
    run.after = after
    return run.run()


class FleetRun:
    """One run; the pieces of `tune_on_fleet`."""

    after: Sequence[int | None] = ()

    def __init__(
        self,
        manifest: Manifest,
        cache: Cache,
        engine: FleetEngine,
        options: FleetOptions,
        show: Show,
        told: Callable[[Done, Overall], None],
    ) -> None:
        self.cache, self.engine, self.options, self.show, self.told = cache, engine, options, show, told
        self.overall = Overall(len(manifest.entries), options.seconds, options.clock)
        self.entries = manifest.entries
        self.sent: set[str] = set()
        """Ids of this run's jobs: the last look at the slots may have seen one that is over by now. Another client's may have its title."""
        self.waiting = deque(Todo(i, e) for i, e in enumerate(manifest.entries))
        self.busy: dict[str, Sent] = {}
        self.results: dict[int, Done] = {}
        self.slots: list[FleetSlot] = []
        self.writer = ClientWriter(cache, options.clock)
        self.stopping = False
        self._looked = options.clock()

    def run(self) -> list[Done]:
        """Everything."""
        self.cache.ensure_writable()
        self._look()
        self._absent(at_once=True)
        try:
            try:
                while self.waiting or self.busy:
                    self._step()
            except KeyboardInterrupt:
                self._stop()
            except FleetError as e:
                self._alone(str(e))
        finally:
            if said := self.writer.close():
                warnings.warn(said, CacheWarning, stacklevel=2)
        return [self.results.get(i) or Done(e, LEFT) for i, e in enumerate(self.entries)]

    # a step ---------------------------------------------------------------------------------------------------------
    def _step(self) -> None:
        if self.options.clock() - self._looked >= LOOK_S:
            self._look()
            self._absent()
        self._place()
        self.overall.busy = bool(self.busy)
        self.show([b.shown for b in self.busy.values()], self.overall)
        if self.busy:
            wait([b.running for b in self.busy.values()], timeout=0.2, return_when=FIRST_COMPLETED)
        elif self.waiting:
            time.sleep(0.1)
        self._hear()
        self.writer.write()

    def _look(self) -> None:
        self._looked = self.options.clock()
        self.slots = self.engine.slots()

    def _absent(self, at_once: bool = False) -> None:
        """Entries that no slot is for: those whose target was never there are told at once, the others wait for it a while."""
        for todo in list(self.waiting):
            try:
                fitting(todo.entry.place, self.slots)
                todo.without_s = None
            except UsageError as e:
                self._give_up(todo, FAILED, str(e))
            except DeviceError as e:
                now = self.options.clock()
                todo.without_s = todo.without_s if todo.without_s is not None else now
                if at_once:
                    self._give_up(todo, ELSEWHERE, str(e))
                elif now - todo.without_s >= self.options.wait_s:
                    self._give_up(todo, FAILED, f"its slot went away, and did not come back within {self.options.wait_s:g} s: {e}")

    def _give_up(self, todo: Todo, status: str, why: str) -> None:
        self.waiting.remove(todo)
        self._conclude(todo, Done(todo.entry, status, message=why))

    def ready(self, todo: Todo) -> bool:
        """Whether the entry before it has ended, however it did: its rows are in the cache then, and travel with this one."""
        above = self.after[todo.i] if self.after else None
        return above is None or above in self.results

    def _place(self) -> None:
        """Send waiting entries to idle slots, in the manifest's order."""
        at_work = [b.shown.slot for b in self.busy.values()]
        idle = [s for s in self.slots if s.width and s.address not in self.busy and not s.refused and self.sent.issuperset(s.jobs)]
        idle = [s for s in idle if not any(s.excludes(b) for b in at_work)]
        for todo in [t for t in self.waiting if self.ready(t)]:
            if not idle:
                return
            with suppress(DeviceError, UsageError):
                slot = next((s for s in fitting(todo.entry.place, self.slots) if s in idle), None)
                if slot is not None:
                    idle = [s for s in idle if s is not slot and not s.excludes(slot)]
                    self.waiting.remove(todo)
                    self._send(todo, slot)

    def _send(self, todo: Todo, slot: FleetSlot) -> None:
        entry, most = todo.entry, self.options.trials if self.options.trials is not None else todo.entry.trials
        share = self._share(todo)
        asked = entry_job.EntryTerms(
            share, most, entry.budget is not None or most is not None, self.options.strategy or entry.strategy, self.options.again
        )
        try:
            self.writer.write(now=True)  # so that an entry that is sent again begins from all that arrived
            key = entry_job.key_of(entry, slot)
            job = FleetJob("entry", entry_job.payload(entry, slot, asked, self.cache, self.writer.unwritten), entry.title)
            self.sent.add(job.id)
            running = self.engine.submit(slot, job)
        except TilewrightError as e:
            self._conclude(todo, Done(entry, FAILED, message=str(e)))
            return
        shown = UnderWay(entry, slot, share, most, self.options.clock(), todo.attempt)
        self.busy[slot.address] = Sent(todo, running, key, shown)
        log.info("%s sent to %s, attempt %d", entry.title, slot.address, todo.attempt)

    def _share(self, todo: Todo) -> float | None:
        """Seconds for an entry that is sent now: what is left, over the turns that the slots of its target still have to take."""
        own, left = todo.entry.budget, self.overall.left
        if left is None:
            return own if own is not None or self.options.trials or todo.entry.trials else DEFAULT_SECONDS
        slots = fitting(todo.entry.place, self.slots)
        contested = {s.address for s in self.slots if any(s is own or s.excludes(own) for own in slots)}
        rivals = 1 + sum(bool(contested & self._addresses(other.entry)) for other in self.waiting)
        at_once = len({s.machine or s.address for s in slots if s.alone}) + sum(not s.alone for s in slots)
        share = max(LEAST_S, left / -(-rivals // max(1, at_once)))
        return share if own is None else min(share, own)

    def _addresses(self, entry: Entry) -> set[str]:
        try:
            return {s.address for s in fitting(entry.place, self.slots)}
        except (DeviceError, UsageError):
            return set()

    # what comes back ------------------------------------------------------------------------------------------------
    def _hear(self) -> None:
        for address, b in list(self.busy.items()):
            over = b.running.done()
            try:
                for message in b.running.messages():
                    self._message(b, message)
            except FleetError as e:
                b.running.stop()
                del self.busy[address]
                self._conclude(b.todo, Done(b.todo.entry, FAILED, message=str(e)))
                continue
            if over:
                del self.busy[address]
                self._ended(b)

    def _message(self, b: Sent, message: Any) -> None:
        if not isinstance(message, dict):
            raise FleetError("a worker sent a message of a form that this version does not know")
        if "rows" in message:
            rows = entry_job.rows_of(message["rows"], b.key, b.shown.slot.host)
            b.shown.counts.update(r.outcome for r in rows if not r.verified)
            self.writer.add(rows)
        elif "phase" in message:
            b.shown.phase = str(message["phase"])[:80]
        elif isinstance(message.get("best"), dict):
            b.shown.top = message["best"]

    def _ended(self, b: Sent) -> None:
        todo, entry = b.todo, b.todo.entry
        try:
            data = b.running.result()
            result = None if isinstance(data, dict) and data.get("interrupted") else entry_job.result_of(data.get("result"), entry)
        except (SchedulerLost, SlotLeft) as e:
            self._was_lost(todo, str(e), blamed=False)
            return
        except SlotLost as e:
            self._was_lost(todo, str(e))
            return
        except TilewrightError as e:
            if isinstance(e, JobFailed) and e.kind == "KeyboardInterrupt":
                self._was_lost(todo, "its worker was stopped")
            else:
                self._conclude(todo, Done(entry, FAILED, message=str(e)))
            return
        if result is None or result.exit_code == 130:
            if self.stopping:
                self._conclude(todo, Done(entry, INTERRUPTED, result if result is not None and result.found else None))
            else:  # not by us: the worker is leaving
                self._was_lost(todo, "its worker was stopped")
        elif not result.found:
            self._conclude(todo, Done(entry, FAILED, result, result.message or "nothing valid was found"))
        else:
            self._conclude(todo, Done(entry, CACHED if result.origin == "cached" else TUNED, result))

    def _was_lost(self, todo: Todo, why: str, blamed: bool = True) -> None:
        """Sent once more, from all that arrived; the second time that it is `blamed` it failed."""
        if self.stopping:
            self._conclude(todo, Done(todo.entry, INTERRUPTED))
            return
        self._looked = float("-inf")  # look before anything is sent
        if not blamed:
            log.info("%s: %s; it is sent anew", todo.entry.title, why)
            todo.without_s = None
            self.waiting.appendleft(todo)
        elif todo.attempt < TRIES:
            log.info("%s lost: %s; it is sent once more", todo.entry.title, why)
            todo.attempt, todo.without_s = todo.attempt + 1, None
            self.waiting.appendleft(todo)
        else:
            self._conclude(todo, Done(todo.entry, FAILED, message=f"its worker was lost {TRIES} times while it was tuned ({why})"))

    def _conclude(self, todo: Todo, done: Done) -> None:
        self.results[todo.i] = done
        self.overall.done.append(done)
        self.writer.write(now=True)
        self.told(done, self.overall)

    def _alone(self, why: str) -> None:
        """The fleet is gone: what is not tuned by now failed."""
        self._hear()
        for todo in (*(b.todo for b in self.busy.values()), *self.waiting):
            self._conclude(todo, Done(todo.entry, FAILED, message=why))
        self.busy.clear()
        self.waiting.clear()

    def _stop(self) -> None:
        """Ask all searches to end, and take what they found. A second Ctrl-C does not wait for them."""
        self.stopping = True
        try:
            for b in self.busy.values():
                b.shown.phase = "stopping"
                b.running.stop()
            until = self.options.clock() + STOP_S
            while self.busy and self.options.clock() < until:
                self.show([b.shown for b in self.busy.values()], self.overall)
                wait([b.running for b in self.busy.values()], timeout=0.2, return_when=FIRST_COMPLETED)
                self._hear()
        except KeyboardInterrupt:
            pass
        for b in list(self.busy.values()):
            self._conclude(b.todo, Done(b.todo.entry, INTERRUPTED))
        self.busy.clear()
