"""Results that are faster than the machine can be: its limits are measured again, once, and shares are sane afterwards."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from synthetic import FakeMeasurer
from tilewright import cache as caches
from tilewright import devices, tune
from tilewright.devices import limits as kept
from tilewright.ir.errors import DeviceError
from tilewright.measure.outcome import Measurement
from tilewright.search import machine_limits
from tilewright.search.budget import Budget
from tilewright.search.kernel_task import KernelTask
from tilewright.search.machine_limits import RemeasuredLimits
from tilewright.search.run_state import RunState
from tilewright.search.space import OptEngine, Space
from tilewright.search.task import TuneRequest

SHAPE = {"m": 64, "n": 64, "k": 64}


@pytest.fixture
def slow_limits(known_limits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> kept.Limits:
    """Limits that any machine passes, as a probe beside other work may leave them; measured again they are high."""
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    device = devices.get("cpu")
    good = device.limits()
    assert good is not None
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    low = {n: dataclasses.replace(r, **{f: getattr(r, f) / 1000 for f in kept.FIGURES}) for n, r in good.rates.items()}
    kept.write(kept.path(device._identity()), dataclasses.replace(good, rates=low, spread={}), {})  # type: ignore[attr-defined]

    def again(device: Any, seconds: float, limit_s: float) -> Any:
        kept.write(kept.path(device._identity()), good, {})
        return good

    monkeypatch.setattr(machine_limits, "measured", again)
    return good


def put_together(tmp_path: Path) -> tuple[KernelTask, Any, Any]:
    task = KernelTask("matmul", SHAPE, "float32", "cpu", 1)
    job = task.job("portfolio", TuneRequest(Budget(10.0)))
    space = Space(OptEngine(task.kernel, task.device.target, 1, None))
    return task, job, task.recorder(caches.open(tmp_path / "c.db"), space, job)


def test_limits_are_measured_again_once_where_a_result_passes_them(slow_limits: Any, tmp_path: Path) -> None:
    task, job, recorder = put_together(tmp_path)
    m = Measurement((), FakeMeasurer.outcomes(()), job.roofline_s / 1.5, None, 5)
    so_far, looked = RunState(), RemeasuredLimits(task, recorder, FakeMeasurer(lambda opts: 1.0), Budget(10.0))
    just = dataclasses.replace(m, t_min=job.roofline_s / 1.04)
    assert looked.looked_at(just, job, so_far) is job, "within the spread nothing is doubted"
    fresh = looked.looked_at(m, job, so_far)
    assert fresh.roofline_s < job.roofline_s / 5 and recorder.job is fresh
    assert "150 % of the roofline cannot be" in next(iter(so_far.notes))
    assert recorder.provenance["roofline"]["peak"] > 0 and 0 < recorder.provenance["roofline"]["spread"] <= 0.25
    assert looked.looked_at(dataclasses.replace(m, t_min=1e-12), fresh, so_far) is fresh, "once a run"


def test_builders_stand_still_meanwhile_and_trouble_is_told(slow_limits: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.measure.processes.process import Slots

    def failing(device: Any, seconds: float, limit_s: float) -> Any:
        assert seconds <= machine_limits.AGAIN_S
        raise DeviceError("the limits of cpu could not be measured within 4 s")

    monkeypatch.setattr(machine_limits, "measured", failing)
    task, job, recorder = put_together(tmp_path)
    held: list[str] = []
    monkeypatch.setattr(Slots, "hold", lambda self: held.append("hold"))
    monkeypatch.setattr(Slots, "release", lambda self: held.append("release"))
    measurer = type("M", (FakeMeasurer,), {"exclusive": lambda self: Slots(None).exclusive()})(lambda opts: 1.0)
    so_far = RunState()
    m = Measurement((), FakeMeasurer.outcomes(()), job.roofline_s / 3, None, 5)
    assert RemeasuredLimits(task, recorder, measurer, Budget(10.0)).looked_at(m, job, so_far) is job
    assert held == ["hold", "release"] and "could not be measured" in next(iter(so_far.notes))


@pytest.mark.slow
def test_a_whole_search_and_old_rows_show_sane_shares(slow_limits: Any, tmp_path: Path) -> None:
    from tilewright.cli.report.entries import _now, roofline_s

    with caches.open(tmp_path / "c.db") as store:
        shape = {"m": 256, "n": 256, "k": 256}
        low = KernelTask("matmul", shape, "float32", "cpu", 1).roofline()
        assert low is not None
        result = tune("matmul", shape, "float32", threads=1, cache=store, trials=4)
        assert result.found and result.t_min is not None and result.roofline_pct is not None
        assert "cannot be" in result.message
        assert result.roofline_pct < 100 * 1.3 * low.seconds / result.t_min / 500
        best = store.rows(verified=True)[0]
        old = dataclasses.replace(best, roofline_s=2 * (best.t_min or 1.0))  # 200 %
        _now.cache_clear()
        sane = roofline_s(old, old.t_min or 1.0)
        kept.write(kept.path(devices.get("cpu")._identity()), slow_limits, {})  # type: ignore[attr-defined]
        _now.cache_clear()
        sane = roofline_s(old, old.t_min or 1.0)
        assert sane is not None and old.roofline_s is not None and sane < old.roofline_s / 1.5
        foreign = dataclasses.replace(old, provenance='{"machine":{"host":"another"}}')
        assert roofline_s(foreign, old.t_min or 1.0) == old.roofline_s, "of another machine nothing is known here"
        fine = dataclasses.replace(best, roofline_s=0.9 * (best.t_min or 1.0))
        assert roofline_s(fine, best.t_min or 1.0) == fine.roofline_s


def test_a_machine_that_was_too_busy_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def busy(device: Any, seconds: float, limit_s: float) -> Any:
        asked.append(limit_s)
        raise DeviceError("the limits of cpu could not be measured")

    cpu = devices.get("cpu")
    monkeypatch.setattr(type(cpu), "limits", lambda self: None)
    monkeypatch.setattr(machine_limits, "measured", busy)
    monkeypatch.setattr(machine_limits, "_FAILED", set())
    with pytest.warns(UserWarning, match="could not be measured"):
        machine_limits.know_limits(cpu, 8.0, lambda: None)
    machine_limits.know_limits(cpu, 8.0, lambda: pytest.fail("asked again"))
    assert asked == [2.4]


def test_limits_say_how_far_they_may_be_off() -> None:
    one = kept.Rates(*[1.0] * 7)
    wide = kept.Limits("2026-01-01", {1: one}, {"read": 0.4, "peak_f32": 0.001, "peak_f64": 0.001})
    assert wide.spread_of(("read",)) == 0.25 and wide.spread_of(kept.PEAKS) == 0.02 and wide.spread_of(("copy",)) == kept.DOUBT
    assert kept.Limits.from_json(wide.to_json()) == wide
    newer = kept.Limits("2026-01-02", {1: one}, {"read": 0.01})
    assert newer.best(wide).spread == {**wide.spread, "read": 0.01}
    with pytest.raises(DeviceError):
        kept.Limits.from_json({**wide.to_json(), "spread": {"read": -1}})


@pytest.mark.slow
def test_a_probe_in_a_process_of_its_own_keeps_what_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = machine_limits.measured(devices.get("cpu"), 0.05)
    assert found is not None and found == devices.get("cpu").limits()
    assert set(found.spread) >= {*kept.PEAKS, *kept.MEMORY}


def test_a_probe_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    ended: list[Any] = []

    class Silent:
        def receive(self, limit_s: float) -> Any:
            waited.append(limit_s)
            raise TimeoutError

    channel = Silent()
    monkeypatch.setattr(machine_limits.process, "start", lambda module, setup: ("the process", channel))
    monkeypatch.setattr(machine_limits.process, "stop", lambda *what: ended.append(what))
    with pytest.raises(DeviceError, match=r"could not be measured within 2.4 s; the search goes on without"):
        machine_limits.measured(devices.get("cpu"), 1.0, machine_limits.longest_of(8.0))
    assert 2.0 < waited[0] <= 2.4 and ended == [("the process", channel)]
    assert (
        machine_limits.part_of(10.0) == 1.5
        and machine_limits.part_of(None) <= machine_limits.USUAL_S
        and machine_limits.longest_of(0.1) == 1.0
    )
