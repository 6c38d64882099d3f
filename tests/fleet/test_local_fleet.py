"""The seam, on the engine of threads: what a job's sender can rely on."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import wait
from typing import Any

import pytest
from tilewright.fleet.engine import FleetJob, FleetSlot, JobFailed, SlotDevice, SlotLost, Worksite

from tests.support.local_fleet import Died, LocalEngine

DEVICE = SlotDevice("cpu", "c:x86_64:v3:", "gcc 12", 4, "0" * 16)


def slots(n: int) -> list[FleetSlot]:
    return [FleetSlot(DEVICE.slot_name, f"here:{i}", DEVICE) for i in range(n)]


def act(payload: Mapping[str, Any], site: Worksite) -> Any:
    """Sends what it is told to, and ends as it is told to."""
    for message in payload.get("send", ()):
        site.send(message)
    if "raise" in payload:
        raise ValueError(payload["raise"])
    if "die" in payload:
        raise Died
    return [site.device, site.threads, payload.get("answer")]


def test_messages_arrive_in_order_and_before_the_result() -> None:
    engine = LocalEngine(slots(1), {"batch": act})
    try:
        running = engine.submit(engine.slots()[0], FleetJob("batch", {"send": [*range(50)], "answer": 3}))
        assert running.result(240) == ["cpu", 4, 3]
        assert running.messages() == [*range(50)] and running.messages() == []
    finally:
        engine.close()


def test_an_error_of_a_job_is_told_with_its_class() -> None:
    engine = LocalEngine(slots(1), {"batch": act})
    try:
        with pytest.raises(JobFailed, match="no such thing") as e:
            engine.submit(engine.slots()[0], FleetJob("batch", {"raise": "no such thing"})).result(240)
        assert e.value.kind == "ValueError"
    finally:
        engine.close()


def test_a_slot_that_dies_is_lost_with_its_jobs_and_comes_back_elsewhere() -> None:
    engine = LocalEngine(slots(2), {"batch": act})
    try:
        first, second = engine.slots()
        bad = FleetJob("batch", {"send": [1], "die": True})
        running = engine.submit(first, bad)
        with pytest.raises(SlotLost):
            running.result(240)
        assert running.messages() == [1]
        loss = engine.lost.get(timeout=240)
        assert (loss.slot, loss.jobs) == (first, (bad,))
        there = engine.slots()
        assert second in there and first not in there and [s.name for s in there] == [first.name] * 2
        with pytest.raises(SlotLost):
            engine.submit(first, FleetJob("batch", {})).result(240)
        assert engine.submit(there[-1], FleetJob("batch", {"answer": 7})).result(240)[-1] == 7
    finally:
        engine.close()


def test_a_job_that_is_asked_to_stop_ends_by_itself() -> None:
    begun = threading.Event()

    def patient(payload: Mapping[str, Any], site: Worksite) -> str:
        begun.set()
        while not site.stopped:
            threading.Event().wait(0.001)
        return "so far"

    engine = LocalEngine(slots(1), {"entry": patient})
    try:
        running = engine.submit(engine.slots()[0], FleetJob("entry", {}, "a search"))
        assert begun.wait(240) and engine.slots()[0].running == ("a search",)
        running.stop()
        assert wait([running], 30).done and running.result() == "so far"
    finally:
        engine.close()


def test_slots_are_named_by_what_makes_times_comparable() -> None:
    other = SlotDevice("cpu", "c:x86_64:v3:", "gcc 12", 4, "0" * 16, {"host": "another"})
    assert other.slot_name == DEVICE.slot_name
    changed = [SlotDevice("cpu", *x) for x in (("c:x86_64:v4:", "gcc 12", 4, "0" * 16), ("c:x86_64:v3:", "gcc 13", 4, "0" * 16))]
    changed += [SlotDevice("cpu", "c:x86_64:v3:", "gcc 12", 2, "0" * 16), SlotDevice("cpu", "c:x86_64:v3:", "gcc 12", 4, "1" * 16)]
    assert len({DEVICE.slot_name, *(d.slot_name for d in changed)}) == 5
