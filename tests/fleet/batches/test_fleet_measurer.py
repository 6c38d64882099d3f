"""A measurer over several workers, which pretend: who measures what, what a loss costs, and who is believed equal."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from scripted import Script, Stage, number, schedule, until
from tilewright.fleet.batches import equal_devices, fleet_measurer, jobs_in_flight
from tilewright.fleet.engine import FleetJob, FleetSlot
from tilewright.ir.errors import MeasureError
from tilewright.measure.outcome import DuelError

BUILDER = FleetSlot("b", "b0", None, 0, 1, "builds")


def began(script: Script, worker: str) -> list[int]:
    return [n for address, n in script.began if address.partition("#")[0] == worker]


def test_batches_are_shared_once_devices_are_equal() -> None:
    with Stage(2, Script()) as s:
        assert s.measurer.width == 1
        assert s.ready() == {0: "ok", 1: "ok", 2: "ok"} and began(s.script, "w0")[:3] == [0, 1, 2]
        assert s.measurer.width == 2 and sorted(began(s.script, "w1")) == [0, 1, 2]  # the probes
        s.script.began.clear()
        s.measurer.measure([s.built(24)[n] for n in range(4, 24)], 1e-3)
        assert len(began(s.script, "w0")) == len(began(s.script, "w1")) == 10
        assert sorted(n for _, n in s.script.began) == list(range(4, 24))


def test_a_device_that_differs_is_a_slot_of_its_own() -> None:
    with Stage(3, Script(speed={"w1": 1.2})) as s:
        s.ready()
        assert s.measurer.width == 2 and [x.address for x in s.devices.equal] == ["w0", "w2"]
        assert "1.20 of the others'" in s.measurer.left_out["w1"]
        s.script.began.clear()
        s.measurer.measure(s.built(12), None)
        assert began(s.script, "w1") == []


def test_one_that_was_disturbed_once_is_looked_at_again() -> None:
    script = Script(speed={"w1": 1.5})

    def calm(n: int, site: Any) -> None:
        if len(began(script, "w1")) == 4:
            script.speed = {}

    script.on_begin = calm
    with Stage(2, script) as s:
        s.ready()
        assert s.measurer.width == 2


def test_duels_the_second_check_and_the_last_timing_are_on_one_device() -> None:
    with Stage(2, Script()) as s:
        s.ready()
        built = s.built(6)
        s.script.asked.clear()
        s.script.began.clear()
        assert [number(m.opts) for m in s.measurer.again(built)] == list(range(6))
        duel = s.measurer.duel(built[0], built[5], rounds=5)
        assert duel.significant and duel.ratio < 1 and duel.rounds == 5
        assert s.measurer.confirm(built[2]).checks == ("whole", "fresh")
        assert {a for a, _ in s.script.began} == {"w0"} and [x for x in s.script.asked if x[1] in ("duel", "confirm")] == [
            ("w0", "duel"), ("w0", "confirm"),
        ]  # fmt: skip


@pytest.mark.parametrize("quiet", [False, True])
def test_a_killer_is_a_crash_and_nobody_beside_it_is_blamed(quiet: bool) -> None:
    with Stage(2, Script(frozenset({7}), quiet=quiet)) as s:
        assert s.measured(12) == {n: "crash" if n == 7 else "ok" for n in range(12)}
        assert s.measurer.lost == 2 or quiet
        crash = next(m for m in s.measurer.measure(s.built(12)) if number(m.opts) == 7)
        assert crash.outcome == "crash" and "2 workers were lost over it" in crash.detail
        times = [n for _, n in s.script.began].count(7)
        assert s.measurer.confirm(s.built(8)[7]).outcome == "crash"
        assert [n for _, n in s.script.began].count(7) == times  # never sent again


def test_a_worker_that_is_killed_blames_nobody_and_its_results_are_kept() -> None:
    with Stage(1, Script(once={5})) as s:
        assert set(s.measured(12).values()) == {"ok"} and s.measurer.lost == 1
        assert [n for _, n in s.script.began].count(2) == 1  # its result had arrived
        assert [n for _, n in s.script.began].count(5) == 2


def test_results_are_told_as_they_arrive() -> None:
    told: list[int] = []

    def wait(n: int, site: Any) -> None:
        if n == 5:
            until(lambda: len(told) >= 5)

    with Stage(1, Script(on_begin=wait)) as s:
        assert s.measurer.listen(lambda m: told.append(number(m.opts)))
        assert s.measured(8) == dict.fromkeys(range(8), "ok") and told == list(range(8))
        s.measurer.again(s.built(8))
        assert len(told) == 8


def test_one_that_came_before_anybody_was_compared_waits_for_the_first() -> None:
    script = Script()

    def slowly(n: int, site: Any) -> None:
        if site.slot.address == "w0":
            time.sleep(0.02)

    with Stage(2, script) as s:
        s.engine.lose("w1")  # it comes back at once
        s.ready()
        script.on_begin = slowly
        until(lambda: set(s.measured(24).values()) == {"ok"} and s.measurer.width == 2)
        assert s.measurer.left_out == {}


def test_all_that_worked_for_a_kernel_are_told_to_let_go() -> None:
    with Stage(2, Script(speed={"w1": 1.2})) as s:
        s.ready()
        assert s.measurer.width == 1
    assert sorted(a for a, ask in s.script.asked if ask == "release") == ["w0", "w1"]


def test_a_scheduler_that_is_lost_blames_nobody_however_often() -> None:
    with Stage(2, Script()) as s:
        s.ready()
        left = {10: 3, 11: 1}  # how often it is lost while these are begun

        def cut(n: int, site: Any) -> None:
            if left.get(n, 0):
                left[n] -= 1
                s.engine.cut()

        s.script.on_begin = cut
        assert s.measured(12) == dict.fromkeys(range(12), "ok") and s.measurer.lost == 0
        left[4] = 3
        assert s.measurer.confirm(s.built(5)[4]).outcome == "ok" and left[4] == 0


class Lingering(Script):
    """One job stays after its last result, until `gate`."""

    linger, gate, where = False, threading.Event(), ""

    def _measure(self, payload: Any, site: Any, address: str) -> dict[str, Any]:
        answer = super()._measure(payload, site, address)
        if self.linger:
            self.linger, self.where = False, address
            self.gate.wait(20)
        return answer


@pytest.mark.parametrize("ending", ["ends", "is lost", "is cut off"])
def test_a_job_whose_results_came_is_nothing_to_the_next_call(ending: str) -> None:
    script = Lingering()
    script.gate = threading.Event()
    with Stage(2, script) as s:
        s.ready()
        built = s.built(16)
        script.linger = True
        assert {str(m.outcome) for m in s.measurer.measure(built[:8])} == {"ok"}
        until(lambda: bool(script.where))
        ways = {"ends": script.gate.set, "is lost": lambda: s.engine.lose(script.where), "is cut off": s.engine.cut}
        script.on_begin = lambda n, site: ways.pop(ending, lambda: None)()
        assert {str(m.outcome) for m in s.measurer.measure(built[8:])} == {"ok"} and not ways.get(ending)
        script.gate.set()
        until(lambda: set(s.measured(4).values()) == {"ok"})


def test_builds_of_a_lost_worker_are_made_by_another() -> None:
    with Stage(2, Script()) as s:
        s.ready()
        builds = s.measurer.build([schedule(n) for n in range(20, 28)])
        next(builds)
        s.engine.lose("w1")
        assert len(list(builds)) == 7


def test_machines_without_the_device_build() -> None:
    with Stage(2, Script(), more=[BUILDER]) as s:
        s.measured(12)
        assert {a for a, _ in s.script.made} == {"b0"}
        s.engine._revive = False
        s.engine.lose("b0")
        assert len(s.built(16)) == 16 and {a for a, _ in s.script.made[12:]} <= {"w0", "w1"}


def test_a_device_that_comes_back_is_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_devices, "LOOK_S", 0.0)
    script = Script()
    with Stage(2, script) as s:
        s.ready()
        s.engine.lose("w1")
        script.speed = {"w1": 1.3}
        s.measurer.measure(s.built(12))
        until(lambda: bool(s.measurer.measure(s.built(2)) and s.measurer.left_out))
        assert s.measurer.width == 1 and list(s.measurer.left_out) == ["w1#1"]


def test_a_worker_that_stands_still_is_no_reason_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_in_flight, "SILENT_S", 0.2)
    monkeypatch.setattr(equal_devices, "LOOK_S", 0.0)
    monkeypatch.setattr(fleet_measurer, "LISTEN_S", 0.02)
    wake, script = threading.Event(), Script()

    def stand(n: int, site: Any) -> None:
        if n == 9 and site.slot.address == "w1" and not wake.is_set():
            wake.wait(20)

    script.on_begin = stand
    with Stage(2, script) as s:
        s.ready()
        got = s.measurer.measure(s.built(12))
        assert {str(m.outcome) for m in got} == {"ok"}
        assert ("w0", 9) in script.began and s.measurer.width == 1  # another did it
        wake.set()
        until(lambda: bool(s.measurer.measure(s.built(2)) and s.measurer.width == 2))
        assert s.measurer.left_out == {}


def test_waiting_behind_another_client_costs_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_in_flight, "SILENT_S", 0.1)
    go, script = threading.Event(), Script()
    script.on_begin = lambda n, site: go.wait(20) if n == 99 else None
    with Stage(1, script) as s:
        other = FleetJob("batch", {"ask": "measure", "items": [{"i": 0, "opts": [o.json for o in schedule(99)]}]})
        running = s.engine.submit(s.devices.equal[0], other)
        threading.Timer(0.4, go.set).start()
        assert s.measured(2) == {0: "ok", 1: "ok"} and running.done() and s.measurer.lost == 0


def test_a_fleet_that_is_gone_ends_the_run_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_devices, "LOOK_S", 0.0)
    with Stage(1, Script(), revive=False) as s:
        s.devices.patience_s = 0.1
        built = s.built(4)
        s.engine.lose("w0")
        with pytest.raises(MeasureError, match="no device of the fleet is left for this kernel"):
            s.measurer.measure(built)


def test_a_job_that_fails_on_every_device_says_why() -> None:
    def fails(n: int, site: Any) -> None:
        raise ValueError("the runner process keeps ending")

    with Stage(2, Script(on_begin=fails)) as s, pytest.raises(MeasureError, match="h0: ValueError: the runner process keeps ending"):
        s.measured(3)


def test_a_duel_of_one_that_is_wrong_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Script, "_duel", lambda *_: {"error": "cannot compare: the second candidate is wrong", "culprit": 1})
    with Stage(1, Script()) as s:
        built = s.built(2)
        with pytest.raises(DuelError, match="second") as e:
            s.measurer.duel(built[0], built[1])
        assert e.value.culprit == 1
