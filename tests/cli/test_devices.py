"""tune devices: what is here, what is not and why, with and without measured limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tilewright import devices, targets
from tilewright.devices import Limits, Rates
from tilewright.devices.cpu.device import CpuDevice
from tilewright.ir.errors import DeviceError

from .conftest import Tune


class Missing(CpuDevice):
    """A device whose driver is not installed."""

    name = "missing"

    def check(self) -> None:
        raise DeviceError("no driver [libmissing.so]; install one")


class Probed(CpuDevice):
    """A device with known limits, which it measures when asked."""

    name = "probed"
    asked = False

    def limits(self, probe: bool = False) -> Limits | None:
        type(self).asked |= probe
        return Limits("2026-01-31", {1: Rates(1e11, 5e10, 1e10, 9e9, 8e9, 1e10, 1.1e10)}) if type(self).asked else None


@pytest.fixture(autouse=True)
def three_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tilewright.devices.registry._FACTORIES", {"missing": Missing, "probed": Probed})
    monkeypatch.setattr("tilewright.devices.registry._MADE", {})
    monkeypatch.setattr(Probed, "asked", False)


def test_the_devices_are_there() -> None:
    assert {"cpu", "missing", "probed"} <= set(devices.names())


def test_a_missing_device_says_why(tune: Tune) -> None:
    done = tune("devices")
    assert done.code == 0
    assert "missing  not usable: no driver [libmissing.so]; install one" in done.out
    assert "cpu  usable" in done.out and "limits not measured yet: tune devices --probe" in done.out


def test_a_lowered_machine_says_so(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, level = targets.machine(), "neon" if targets.machine().arch == "aarch64" else "v2"
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    assert "lowered" not in tune("devices").out
    monkeypatch.setenv("TILEWRIGHT_TARGET", level)
    if not targets.lowered():
        pytest.skip(f"this machine is {level}")
    assert (
        f"lowered    by TILEWRIGHT_TARGET={level}: code uses no more than that; the machine has {' '.join(sorted(whole.features))}"
        in tune("devices").out
    )
    (cpu,) = (d for d in json.loads(tune("devices", "--format", "json").out) if d["name"] == "cpu")
    assert cpu["target"]["features"] == ["sse41"] and cpu["fingerprint"]["lowered"] == f"TILEWRIGHT_TARGET={level}"


def test_a_target_that_this_machine_cannot_be_is_said(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TARGET", "x86_64-v3")
    done = tune("devices")
    assert done.code == 0 and "cpu  not usable: TILEWRIGHT_TARGET: unknown target 'x86_64-v3': did you mean 'x86-64-v3'" in done.out
    done = tune("run", "--kernel", "matmul", "--shape", "m=8,n=8,k=8", "--trials", "1")
    assert done.code == 3 and "did you mean 'x86-64-v3'" in done.err and "Traceback" not in done.err


def test_json(tune: Tune) -> None:
    found = {d["name"]: d for d in json.loads(tune("devices", "--format", "json").out)}
    assert found["missing"] == {"name": "missing", "usable": False, "why": "no driver [libmissing.so]; install one"}
    assert found["cpu"]["usable"] and found["cpu"]["target"]["vector_bytes"] in (16, 32, 64) and found["cpu"]["limits"] is None


def test_probe_measures_and_shows_the_limits(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.devices.names", lambda: ("missing", "probed"))
    done = tune("devices", "--probe")
    assert done.code == 0 and Probed.asked
    assert "limits measured 2026-01-31" in done.out and "100 GFLOP/s" in done.out and "11 GB/s" in done.out


def test_one_processor_is_measured_once(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Again(Probed):
        name = "again"

        def limits(self, probe: bool = False) -> Limits | None:
            asked.append(probe)
            return super().limits(probe)

    monkeypatch.setattr("tilewright.devices.registry._FACTORIES", {"probed": Probed, "again": Again})
    monkeypatch.setattr("tilewright.devices.names", lambda: ("probed", "again"))
    done = tune("devices", "--probe")
    assert done.out.count("keep the machine quiet") == 1 and done.out.count("100 GFLOP/s") == 2
    assert asked and not any(asked)


def test_running_on_a_missing_device(tune: Tune) -> None:
    done = tune("run", "--kernel", "matmul", "--device", "missing")
    assert done.code == 3 and "error: no driver [libmissing.so]; install one" in done.err


class Several(CpuDevice):
    """A driver with two devices, beside one that fails."""

    name = "several"

    def family(self) -> list[tuple[str, str]]:
        return [("several", ""), ("probed", ""), ("several (bad.icd)", "the driver of bad.icd [1] ended; remove that file")]


def test_every_device_and_driver_behind_a_name(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.devices.registry._FACTORIES", {"several": Several, "probed": Probed})
    monkeypatch.setattr("tilewright.devices.names", lambda: ("several",))
    done = tune("devices")
    assert "several  usable" in done.out and "probed  usable" in done.out
    assert "several (bad.icd)  not usable: the driver of bad.icd [1] ended; remove that file" in done.out
    assert [d["name"] for d in json.loads(tune("devices", "--format", "json").out)] == ["several", "probed", "several (bad.icd)"]


def test_a_number_of_threads_that_cannot_be_is_refused_at_once(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the machine is measured, which takes seconds."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = tune("run", "--kernel", "matmul", "--threads", "5000")
    assert done.code == 3 and "error: 5000 threads: use 1 to " in done.err and "limits" not in done.out + done.err
