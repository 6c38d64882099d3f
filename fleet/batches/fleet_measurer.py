"""What measures the candidates of one kernel on several equal devices of a fleet, as `Measurer` does on one device here, and `tune(..., measurer=...)` put together."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...cache import Cache
from ...cache import open as opened
from ...ir.errors import FleetError, MeasureError
from ...log import logger
from ...measure.outcome import Duel, DuelError, Measurement, Outcome
from ...search import tune
from ...search.candidate_measurer import CandidateMeasurer
from ..engine import FleetEngine, FleetJob, FleetSlot, Running, SlotLost
from . import messages
from .build_queue import BuildQueue, TravellingBuilds
from .equal_devices import PATIENCE_S, PROBES, EqualDevices
from .jobs_in_flight import (
    CONVICTED,
    FRUITLESS,
    GUILTY,
    BatchFlight,
    BatchOrder,
    BatchPart,
    LossRule,
    ask_to_stop,
    batch_job,
    cut_off,
    lost,
    sent_build,
    split,
    why_failed,
)
from .messages import DescribedDevice, DeviceFacts, subject

if TYPE_CHECKING:
    from ...opts.opt import Opt
    from ...search.kernel_task import KernelTask
    from ...search.result import Result
    from ...search.task import TuneRequest


# candidates on their way to devices and back: one job under way a slot ------------------------------------------------


MOST = 12
"""Candidates of one job: so many share the cost of a trip and of a runner's child."""
LISTEN_S = 0.1
"""Seconds between two looks at what workers say."""


class Dispatcher:
    """`base`: what every payload carries: the kernel, threads, and how it is measured."""

    def __init__(self, engine: FleetEngine, devices: EqualDevices, queue: BuildQueue, base: Mapping[str, Any], title: str) -> None:
        self._engine, self.devices, self._queue, self._base, self._title = engine, devices, queue, base, title
        self.rule = LossRule()
        self._flights: dict[str, BatchFlight] = {}
        self._probing: dict[str, BatchFlight] = {}
        self._epochs: dict[str, str] = {}
        self._join: list[FleetSlot] = []
        self._still: float | None = None
        self.probes: dict[int, messages.TravellingBuild] = {}  # what every device is compared by
        self.guilty: dict[int, Measurement] = {}
        """Candidates that took workers down. They are never sent again."""
        self.prepared_s: tuple[float, float] | None = None
        self.arrived: Callable[[Measurement], None] = lambda m: None
        queue.fetch = self.fetch

    # measuring ------------------------------------------------------------------------------------------------------
    def measure(
        self, items: Mapping[int, messages.TravellingBuild], incumbent_s: float | None, judge: bool = False
    ) -> dict[int, Measurement]:
        """A Measurement for every item; `judge`: all on the one device that decides. Raises MeasureError where no device is left."""
        order = BatchOrder(items, incumbent_s, deque(), judge)
        while True:
            where = self.devices.judge
            order.results = {i: m for i, m in self.guilty.items() if i in items}
            order.todo = deque(split([i for i in items if i not in order.results], 1 if judge else max(1, len(self.devices.equal)), MOST))
            self._until(lambda: not order.open, order)
            if not judge or where in self.devices.equal:
                return order.results

    def survey(self) -> None:
        """Time the probes on every device, and keep those that are equal. One that is not ready yet joins later. Raises MeasureError."""
        for slot in [s for s in self.devices.equal if s.address in self._flights]:
            self.devices.rest(slot)
        again = list(self.devices.equal)
        while again and len(self.devices.equal) > 1:
            self._join = again
            self._until(lambda: not self._join and all(f.given_up for f in self._probing.values()))
            again = self.devices.unequal()

    def warm(self, slots: Sequence[FleetSlot]) -> None:
        """Let devices begin with their inputs and reference, which take seconds."""
        for slot in self._idle(slots):
            self._flights[slot.address] = self._fly(slot, {"ask": "builds", "wait_s": 0.0}, BatchPart(()))

    @property
    def warmed(self) -> bool:
        """Whether every device is ready."""
        return not any(s.address in self._flights for s in self.devices.equal)

    def fetch(self, wait_s: float) -> None:
        """Ask the workers for what their builders have made, and hand them more."""
        self.devices.judge  # noqa: B018  (waits for a device)
        for slot in self.devices.equal:
            if slot.address in self._flights or not self.devices.free(slot):
                continue
            queue = self._hand(slot)
            if queue or self._queue.waits_for(slot.address):
                self._flights[slot.address] = self._fly(slot, {"ask": "builds", "wait_s": wait_s, "queue": queue}, BatchPart(()))
        if not (waiting := [f for f in self._flights.values() if not f.given_up]):
            self._listen(None)  # all stand still, or are another's: look again a little later
            time.sleep(LISTEN_S)
        else:
            self._until(lambda: any(f.given_up or self._flights.get(f.slot.address) is not f for f in waiting))

    def _until(self, over: Callable[[], bool], order: BatchOrder | None = None) -> None:
        try:
            while not over():
                self._join += self.devices.look([*self._flights, *self._probing, *(s.address for s in self._join)])
                if self.probes:
                    self._send_probes()
                if order is not None:
                    self._send(order)
                self._listen(order)
                self._stalled()
        except BaseException:
            for flight in (*self._flights.values(), *self._probing.values()):
                self.devices.leave(flight.running)
            self._flights.clear()
            self._probing.clear()
            raise

    def _stalled(self) -> None:
        """Raise MeasureError when every device has stood still for too long."""
        flying = [*self._flights.values(), *self._probing.values()]
        if not flying or not all(f.given_up for f in flying) or self._idle(self.devices.equal):
            self._still = None
        elif self._still is None:
            self._still = self.devices.clock()
        elif self.devices.clock() - self._still > self.devices.patience_s:
            raise MeasureError(
                "every worker of the fleet stands still; look at those machines, then run the command again: it goes on from here"
            )

    # sending --------------------------------------------------------------------------------------------------------
    def _fly(self, slot: FleetSlot, more: Mapping[str, Any], part: BatchPart) -> BatchFlight:
        title = f"{self._title}: {len(part.items)} candidates" if part.items else self._title
        self.devices.visited[slot.address] = slot
        running = self._engine.submit(slot, batch_job({**self._base, **more}, title))
        return BatchFlight(slot, part, running, self.devices.clock(), self.devices.clock)

    def _hand(self, slot: FleetSlot) -> list[list[Any]]:
        return self._queue.hand(slot.address, self._epochs.get(slot.address, ""), max(1, len(self.devices.equal)))

    def _idle(self, slots: Iterable[FleetSlot]) -> list[FleetSlot]:
        return [s for s in slots if s.address not in self._flights and s.address not in self._probing and self.devices.free(s)]

    def _send(self, order: BatchOrder) -> None:
        """A part to every device that has nothing to do; one that lost a worker goes to another machine, if any is free."""
        idle = self._idle(self.devices.equal[:1] if order.judge else self.devices.equal)
        while idle and order.todo:
            part = order.todo.popleft()
            items = tuple(i for i in part.items if i in order.items and i not in order.results)  # (a job of the last call may end in this)
            if not items:
                continue
            idle.sort(key=lambda s: s.host in part.avoid)
            slot = idle.pop(0)
            sent = [{"i": i, **sent_build(order.items[i], slot.address)} for i in items]
            known = [m.t_min for m in order.results.values() if m.ok and m.t_min and not m.cleared]
            best = min([*known, *([order.incumbent_s] if order.incumbent_s else [])], default=None)
            more = {"ask": "measure", "items": sent, "incumbent_s": best, "careful": len(items) == 1 and self.rule.lost > 0}
            self._flights[slot.address] = self._fly(slot, more | {"queue": self._hand(slot)}, BatchPart(items, part.avoid))

    def _send_probes(self) -> None:
        for slot in self._idle(self.devices.to_compare(self._join)):
            self._join.remove(slot)
            sent = [{"i": i, **sent_build(b, slot.address)} for i, b in self.probes.items()]
            self._probing[slot.address] = self._fly(slot, {"ask": "measure", "items": sent}, BatchPart(tuple(self.probes)))

    # listening ------------------------------------------------------------------------------------------------------
    def _listen(self, order: BatchOrder | None) -> None:
        flying = [*self._flights.values(), *self._probing.values()]
        if flying:
            wait([f.running for f in flying], LISTEN_S, FIRST_COMPLETED)
        elif not self.devices.equal:
            self.devices.judge  # noqa: B018  (waits for a device)
        for flight in flying:
            over = flight.running.done()  # asked first: what was said before it ended is there then
            for number in flight.listen():
                self.rule.measured(number)
                if order is None or not flight.part.items or flight.slot.address in self._probing:
                    continue
                if number in order.items and number not in order.results:
                    order.results[number] = messages.measurement(flight.rows[number], order.items[number].opts)
                    self.arrived(order.results[number])
            if over:
                self._over(flight, order)
            elif not flight.given_up and (flight.late() or (flight.stuck() and len(self.devices.equal) > 1)):
                self._late(flight, order)

    def _late(self, flight: BatchFlight, order: BatchOrder | None) -> None:
        """Its worker stands still, or is another client's: others take over. It is asked again when it has answered."""
        how = "stands still" if flight.heard else "is busy for another client"
        log.info("the worker on %s %s; others go on with what it had", flight.slot.host or flight.slot.address, how)
        flight.give_up()
        self.devices.rest(flight.slot, bool(self._join))
        self._queue.gone(flight.slot.address)
        if order is not None and flight.slot.address in self._flights:
            if flight.heard is None:
                order.todo.appendleft(flight.part)
            else:
                self._after(flight, order)

    def _over(self, flight: BatchFlight, order: BatchOrder | None) -> None:
        """A job ended, one way or another."""
        address = flight.slot.address
        probing = self._probing.pop(address, None) is not None
        self._flights.pop(address, None)
        cut = cut_off(flight)
        if cut or lost(flight):
            self._queue.gone(address)
            self.devices.lose(address, f"{flight.running.exception(0)}", doubt=cut)
            log.info("the worker on %s was lost over %d candidates", flight.slot.host or address, len(flight.part.items))
            if not probing and not flight.given_up:
                self._after(flight, order, blamed=not cut)
            return
        why = why_failed(flight)
        if why and flight.given_up:
            return  # it was asked to end, and says so
        if why:
            self._queue.gone(address)
            self.devices.dismiss(flight.slot, why)
            if order is not None and not probing and not flight.given_up:
                order.todo.appendleft(flight.part)
            return
        self._answered(flight)
        if probing and not flight.given_up:
            self._probed(flight)
        elif order is not None and any(i not in order.results for i in flight.part.items) and not flight.given_up:
            order.todo.append(flight.part)  # it was asked to end early

    def _answered(self, flight: BatchFlight) -> None:
        answer = flight.answer()
        address, epoch = flight.slot.address, str(answer.get("epoch", ""))
        self._queue.came(address, epoch, answer.get("built", ()))
        self._epochs[address] = epoch
        if answer.get("prepared_s"):
            first, copies = answer["prepared_s"]
            self.prepared_s = (float(first), float(copies))

    def _probed(self, flight: BatchFlight) -> None:
        slot = flight.slot
        got = {i: messages.measurement(row, self.probes[i].opts) for i, row in flight.rows.items() if i in self.probes}
        self.devices.timed(slot.address, {i: m.t_min for i, m in got.items() if m.ok and m.t_min})
        if slot not in self.devices.equal and self.devices.joins(slot) is None:
            self._join += [slot, *[s for s in self.devices.equal[:1] if s not in self._join]]

    def _after(self, flight: BatchFlight, order: BatchOrder | None, blamed: bool = True) -> None:
        """The rule for a worker that was lost, or stands still. Without an order (it built) nobody is `blamed`, but it counts."""
        if not blamed and order is not None:
            order.todo.appendleft(flight.part)
        elif blamed and order is None:
            self.rule.after(BatchPart(()), (), ())
        elif order is not None:
            verdict = self.rule.after(flight.part, {*order.results, *flight.rows}, flight.begun, flight.slot.host)
            for i in order.items.keys() & verdict.guilty:
                build = order.items[i]
                order.results[i] = self.guilty[i] = Measurement(tuple(build.opts), Outcome.crash, detail=GUILTY, sha=build.sha)
            order.todo.extendleft(reversed(verdict.again))
        if self.rule.fruitless > FRUITLESS:
            raise MeasureError(f"{FRUITLESS} workers were lost in a row without one result; see what they print, and give them more memory")

    # one at a time --------------------------------------------------------------------------------------------------
    def ask(self, ask: str, builds: Sequence[messages.TravellingBuild], **more: Any) -> Mapping[str, Any]:
        """An answer of the device that decides; where its worker is lost, of the next one. Raises SlotLost where that is lost too, each
        time when it was at it, and MeasureError for what it could not do."""
        blamed = tried = 0
        while tried < CONVICTED:
            slot = self._unoccupied()
            items = [{"i": n, **sent_build(b, slot.address)} for n, b in enumerate(builds)]
            mine = self._fly(slot, {"ask": ask, "items": items, "careful": True, **more}, BatchPart(()))
            self._flights[slot.address] = mine
            self._until(partial(self._ended, mine))
            if mine.running.done() and cut_off(mine):
                continue
            tried += 1
            if mine.given_up or lost(mine):
                blamed += bool(mine.begun)
                continue
            if why := why_failed(mine):
                raise MeasureError(why)
            return mine.answer()
        if blamed == CONVICTED:
            raise SlotLost(f"{CONVICTED} workers were lost over it")
        raise MeasureError(f"{CONVICTED} workers were lost one after the other, before it had begun or over two at once; try again")

    def _ended(self, flight: BatchFlight) -> bool:
        """Whether nobody has to wait for a job any more."""
        known = (self._flights.get(flight.slot.address), self._probing.get(flight.slot.address))
        return flight.given_up or (flight.running.done() and flight not in known)

    def _unoccupied(self) -> FleetSlot:
        """The device that decides, when it has nothing else to do; one that stands still does not decide."""
        while True:
            judge = self.devices.judge
            flight = self._flights.get(judge.address) or self._probing.get(judge.address)
            if flight is None and self.devices.free(judge):
                return judge
            if flight is not None and not flight.given_up:
                self._until(partial(self._ended, flight))
            elif flight is not None and len(self.devices.equal) > 1:
                self.devices.equal.append(self.devices.equal.pop(0))
            else:
                self._listen(None)
                self._stalled()
                time.sleep(LISTEN_S)

    def close(self) -> None:
        """Ask what is under way to end."""
        for flight in (*self._flights.values(), *self._probing.values()):
            ask_to_stop(flight.running)


# fleet measurer -------------------------------------------------------------------------------------------------------

log = logger("fleet")

FACTS_S = 120.0
"""Seconds that a worker may take to say what its device is, once it is asked; it may have to measure its limits first."""
WARM_S = 15.0
"""Seconds after the first candidate in which all devices should have made inputs and reference. One that has not joins when it has."""
GOODBYE_S = 2.0
"""Seconds in which workers let go of a kernel, where they answer."""


def described_device(engine: FleetEngine, slot: FleetSlot, probe: bool = True) -> DescribedDevice:
    """The device of a slot, by its own facts. `probe`: measure its limits if nobody did. Raises FleetError."""
    job = FleetJob("batch", {"ask": "facts", "probe": probe}, "facts of the device")
    try:
        answer = engine.submit(slot, job).result(FACTS_S)
        return DescribedDevice(DeviceFacts.from_json(messages.facts(answer)["device"]))
    except TimeoutError:
        raise FleetError(f"the worker on {slot.host or slot.address} did not say what its device is within {FACTS_S:.0f} s") from None
    except KeyError:
        raise FleetError(
            f"the worker on {slot.host or slot.address} says nothing of its device; install the client's version there"
        ) from None


class FleetMeasurer(CandidateMeasurer):
    """A `search.candidate_measurer.CandidateMeasurer`. A context manager: at its end the workers are told to let go of the kernel.

    `base`: what every payload carries: `kernel` (see `subject`), `threads`, `seed`, `deadline_s`, `hashed`. `facts`: those of the device,
    for machines that only build. At first one device measures. When three candidates were right there and the others have
    their inputs, these are timed on all, and those that are equal measure from then on; duels, the second check and the last timing stay with one."""

    def __init__(self, engine: FleetEngine, devices: EqualDevices, base: Mapping[str, Any], facts: DeviceFacts, title: str = "") -> None:
        self._engine, self._devices = engine, devices
        there = devices.equal or devices.start()
        hosts = [s.host for s in there if s.host]
        base = {**base, "shared": len(set(hosts)) < len(hosts) or bool(base.get("shared"))}
        self._base, self._title = base, title or str(base["kernel"]["kernel"])
        self._queue = BuildQueue(engine, {"kernel": base["kernel"], "device": facts.to_json()}, self._title, devices.clock)
        self._dispatch = Dispatcher(engine, devices, self._queue, base, self._title)
        self._numbers: dict[tuple[Opt, ...], int] = {}
        self._count = itertools.count()
        self.surveyed = len(there) == 1 and devices.wanted == 1
        """Whether it is known which devices are equal."""
        self._warm_until: float | None = None
        self._listener: Callable[[Measurement], None] = lambda m: None
        self._dispatch.warm(there[:1] if base["shared"] else there)

    # life -----------------------------------------------------------------------------------------------------------
    def __enter__(self) -> FleetMeasurer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop what is under way, and let the workers end the processes that they keep for this kernel. One that does not answer at once
        ends them by itself, when nobody has asked for anything for a while."""
        self._queue.close()
        self._dispatch.close()
        left: list[Running] = []
        for slot in list(self._devices.visited.values()):
            try:
                left.append(self._engine.submit(slot, FleetJob("batch", {"ask": "release"}, f"{self._title}: let go")))
            except FleetError as e:
                log.info("%s was not told to let go of the kernel: %s", slot.host or slot.address, e)
        wait(left, GOODBYE_S)

    # what a search asks ---------------------------------------------------------------------------------------------
    @property
    def width(self) -> int:
        """Devices that candidates are timed on at once."""
        return max(1, len(self._devices.equal)) if self.surveyed else 1

    @property
    def prepared_s(self) -> tuple[float, float] | None:
        """Processor seconds that inputs and references took on a worker, and copies of operands, once that is known."""
        return self._dispatch.prepared_s

    @property
    def lost(self) -> int:
        """Workers that were lost over candidates."""
        return self._dispatch.rule.lost

    @property
    def left_out(self) -> Mapping[str, str]:
        """Devices that were there and are not used, by address, and why."""
        return self._devices.out

    def listen(self, told: Callable[[Measurement], None]) -> bool:
        """As `Measurer.listen`. Where a device was lost that times must be compared with, a candidate has another result later."""
        self._listener = told
        return True

    def build(self, schedules: Sequence[tuple[Opt, ...]]) -> TravellingBuilds:
        """Queue schedules with builders, as `Measurer.build` does."""
        return TravellingBuilds(self._queue, schedules)

    def measure(self, built: Sequence[messages.TravellingBuild], incumbent_s: float | None = None) -> list[Measurement]:
        """One Measurement for each, in order. Raises MeasureError where no device of the fleet is left."""
        self._dispatch.arrived = self._listener
        try:
            out = self._measured(built, incumbent_s, judge=not self.surveyed)
        finally:
            self._dispatch.arrived = lambda m: None
        if not self.surveyed:
            self._choose_probes(built, out)
        return out

    def again(self, built: Sequence[messages.TravellingBuild]) -> list[Measurement]:
        """As `measure`, all on one device, so that times may be compared with each other."""
        return self._measured(built, None, judge=True)

    def _measured(self, built: Sequence[messages.TravellingBuild], incumbent_s: float | None, judge: bool) -> list[Measurement]:
        numbers = [self._number(b) for b in built]
        with _measuring():
            got = self._dispatch.measure(dict(zip(numbers, built)), incumbent_s, judge)
        return [got[n] for n in numbers]

    def _number(self, b: messages.TravellingBuild) -> int:
        """The same for the same schedule, whatever call it is in."""
        if b.opts not in self._numbers:
            self._numbers[b.opts] = next(self._count)
        return self._numbers[b.opts]

    def _choose_probes(self, built: Sequence[messages.TravellingBuild], measured: Sequence[Measurement]) -> None:
        """The first three that are right are the schedules that devices are compared by."""
        probes = self._dispatch.probes
        for b, m in zip(built, measured):
            if m.ok and not m.cleared and len(probes) < PROBES:
                probes[self._number(b)] = b
        if self._warm_until is None:
            self._warm_until = self._devices.clock() + WARM_S
            self._dispatch.warm(self._devices.equal[1:])
        if len(probes) == PROBES and (self._dispatch.warmed or self._devices.clock() > self._warm_until):
            with _measuring():
                self._dispatch.survey()
            self.surveyed = True

    def confirm(self, built: messages.TravellingBuild) -> Measurement:
        """The second check, as `Measurer.confirm`. One that loses two workers is a crash."""
        known = self._dispatch.guilty.get(self._number(built))
        if known is not None:
            return known
        try:
            with _measuring():
                return messages.measurement(self._dispatch.ask("confirm", [built])["row"], built.opts)
        except SlotLost as e:
            crash = Measurement(built.opts, Outcome.crash, detail=str(e), sha=built.sha)
            self._dispatch.guilty[self._number(built)] = crash
            return crash

    def duel(self, a: messages.TravellingBuild, b: messages.TravellingBuild, rounds: int = 8, energy: bool = False) -> Duel:
        """Time two against each other, as `Measurer.duel`. Raises DuelError, MeasureError."""
        assert not energy, "energy is measured on this machine's own devices only (`search.objective.measurable`)"
        with _measuring():
            try:
                answer = self._dispatch.ask("duel", [a, b], rounds=rounds)
            except SlotLost as e:
                raise MeasureError(f"the comparison could not be made: {e}") from e
            if "error" not in answer:
                return messages.read(Duel, answer["duel"], "a comparison")
        raise DuelError(str(answer["error"]), answer.get("culprit"))


@contextmanager
def _measuring() -> Iterator[None]:
    """What is wrong with a fleet is told as what is wrong with a measurer: a search then ends with the best that it has."""
    try:
        yield
    except SlotLost:
        raise
    except FleetError as e:
        raise MeasureError(str(e)) from e


ROWS_S = 0.25
"""Seconds that rows wait before they are written: what is lost where this process is killed."""


class FleetTuning:
    """One run of `tune` on the slots of `engine` that are for the device `spec` (what `devices.get` takes there), at most `wanted` of them
    (None: all that are alike). `said`: what a user should know in the end. Raises FleetError where there is no such slot."""

    def __init__(self, engine: FleetEngine, spec: str, wanted: int | None = None) -> None:
        self._engine = engine
        first = chosen(engine.slots(), spec)
        self._devices = EqualDevices(engine, first[0].name, wanted or len(first))
        self.device: DescribedDevice = described_device(engine, self._devices.start()[0])
        self.measurer: FleetMeasurer | None = None

    def tune(self, kernel: str, **asked: Any) -> Result:
        """As `search.tune`, with the same arguments but `device` and `measuring`; rows go into the cache of this machine. Raises what it
        does, and FleetError."""
        threads = asked.pop("threads", None) or self.device.threads
        cache = asked.pop("cache", None)
        told = {name: asked.get(name) for name in ("shape", "dtype", "vars", "allow")} | {"kernel": kernel}
        with nullcontext(cache) if isinstance(cache, Cache) else opened(cache) as store:
            store.rows_wait_s = min(store.rows_wait_s, ROWS_S)
            return tune(kernel, device=self.device, threads=threads, measuring=self._measuring(told), cache=store, **asked)

    def _measuring(self, told: Mapping[str, Any]) -> Any:
        def made(task: KernelTask, request: TuneRequest, hashed: bool) -> AbstractContextManager[CandidateMeasurer]:
            base = {
                "kernel": subject(task, told),
                "threads": task.threads,
                "seed": request.random_seed,
                "deadline_s": request.deadline_s,
                "hashed": hashed,
            }
            # a fleet that is gone for good must not keep a run of seconds for minutes
            self._devices.patience_s = PATIENCE_S if request.budget.seconds is None else min(PATIENCE_S, max(15.0, request.budget.seconds))
            self.measurer = FleetMeasurer(self._engine, self._devices, base, self.device.facts, task.name)
            return self.measurer

        return made

    @property
    def said(self) -> list[str]:
        """What a user should know of the devices, a line each."""
        out = [] if self.measurer is None else [f"timed on {self.measurer.width} device{'s' * (self.measurer.width > 1)} of the fleet"]
        if self.measurer is not None and self.measurer.lost:
            lost = self.measurer.lost
            out.append(f"{lost} worker{'s were' if lost > 1 else ' was'} lost over candidates, and replaced")
        return out + list(self._devices.out.values())


def chosen(slots: list[FleetSlot], spec: str) -> list[FleetSlot]:
    """The slots for a device: of several kinds, the kind that there is most of. Raises FleetError, which says what there is."""
    mine = [s for s in slots if s.device is not None and spec in (s.device.spec, s.device.target, s.name)]
    able = [s for s in mine if not s.refused]
    if able:
        names = [s.name for s in able]
        most = max(names, key=lambda name: (names.count(name), name))
        return [s for s in able if s.name == most]
    if mine:
        raise FleetError("; ".join(dict.fromkeys(f"{s.host or s.address}: {s.refused}" for s in mine)))
    there = sorted({s.device.spec for s in slots if s.device is not None})
    raise FleetError(
        f"the fleet has no device {spec!r} now; {'it has ' + ', '.join(there) if there else 'start one with tune fleet worker URL'}"
    )
