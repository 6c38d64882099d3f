"""Candidates on their way to devices and back: one job under way a slot."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from functools import partial
from typing import Any

from ...ir.errors import MeasureError
from ...log import logger
from ...measure.outcome import Measurement, Outcome
from ..engine import FleetEngine, FleetSlot, SlotLost
from . import messages
from .build_queue import BuildQueue
from .equal_devices import EqualDevices
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

log = logger("fleet")

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
