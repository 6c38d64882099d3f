"""Energy without the hardware: folders that stand for the kernel's, a library that stands for NVML, and a clock that is a number."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tilewright.ir.errors import DeviceError
from tilewright.measure import energy as meters
from tilewright.measure.energy import (
    LEAST_S,
    MOST_S,
    STEPS,
    VARIABLE,
    WINDOWS,
    EnergyCounter,
    EnergyMeter,
    NvmlCounter,
    NvmlPower,
    PowercapCounter,
    check_energy,
    counter_of,
    nvml_counter,
    paired_windows,
)
from tilewright.measure.outcome import EnergyUse

RANGE = 262143328850


def zone(root: Path, folder: str, name: str, at: int = 0, most: int | None = RANGE) -> Path:
    """A zone of the kernel's."""
    place = root / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / "name").write_text(f"{name}\n")
    (place / "energy_uj").write_text(f"{at}\n")
    if most is not None:
        (place / "max_energy_range_uj").write_text(f"{most}\n")
    return place / "energy_uj"


def test_packages_and_memory_are_added_up_and_nothing_twice(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl", "control type")
    counted = [zone(tmp_path, f"intel-rapl:{i}", f"package-{i}", 100) for i in (0, 1)]
    counted += [zone(tmp_path, f"intel-rapl:{i}:1", "dram", 50) for i in (0, 1)]
    parts = [
        zone(tmp_path, "intel-rapl:0:0", "core"),
        zone(tmp_path, "intel-rapl:2", "psys"),
        zone(tmp_path, "intel-rapl-mmio:0", "package-0"),
    ]
    (tmp_path / "intel-rapl:9").mkdir()  # a zone that says nothing
    counter = PowercapCounter(tmp_path)
    assert counter.name == "RAPL: package-0, dram-0, package-1, dram-1" and counter.joules() == 0
    for i, file in enumerate([*counted, *parts]):
        file.write_text(str(1_000_100 + i))
    assert counter.joules() == pytest.approx((4 * 1_000_100 + 6 - 300) * 1e-6)


def test_a_counter_wraps_around_again_and_again(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", at=900, most=1000)
    counter = PowercapCounter(tmp_path)
    for at in (990, 40, 700, 5):
        file.write_text(str(at))
        counter.joules()
    assert counter.joules() == pytest.approx((1000 + 1005 - 900) * 1e-6)


def test_one_that_runs_backwards_without_a_range_is_no_counter(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", at=900, most=None)
    counter = PowercapCounter(tmp_path)
    file.write_text("100")
    with pytest.raises(DeviceError, match="ran backwards"):
        counter.joules()


def test_where_nothing_can_be_read_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match=r"modprobe intel_rapl_msr.*TILEWRIGHT_POWERCAP"):
        PowercapCounter(tmp_path / "none")
    zone(tmp_path, "intel-rapl:0", "psys")
    with pytest.raises(DeviceError, match=r"no intel-rapl zone of a package"):
        PowercapCounter(tmp_path)
    file = zone(tmp_path, "intel-rapl:1", "package-0")
    file.write_text("many")
    with pytest.raises(DeviceError, match="holds no number"):
        PowercapCounter(tmp_path)

    def refused(path: Path, *_: Any, **__: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return "package-0"

    monkeypatch.setattr(Path, "read_text", lambda p, *a, **k: "5" if p.name.startswith("max") else refused(p))
    with pytest.raises(DeviceError, match=r"may not be read by this user: `sudo chmod a\+r .*intel-rapl:\*/energy_uj`"):
        PowercapCounter(tmp_path)


class Steps(EnergyCounter):
    """Counts `watts`, and `busy` more while something runs, in steps of `step` seconds of a clock that only readings and runs move."""

    name = "made up"

    def __init__(self, watts: float = 50.0, step: float = 1e-3, tick: float = 1e-5) -> None:
        self.now, self.watts, self.step, self.tick = 0.0, watts, step, tick
        self.busy = self.used = self.seen = self.shown = 0.0

    def joules(self) -> float:
        self.pass_by(self.tick, self.watts)
        if int(self.now / self.step) != self.seen:
            self.seen, self.shown = int(self.now / self.step), self.used
        return self.shown

    def pass_by(self, seconds: float, watts: float) -> None:
        self.now, self.used = self.now + seconds, self.used + watts * seconds

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pass_by(seconds, self.watts)

    def run(self, call_s: float) -> Callable[[int], None]:
        return lambda n: self.pass_by(n * call_s, self.watts + self.busy)


def meter(counter: Steps, idle: bool = False) -> EnergyMeter:
    return EnergyMeter(counter, idle, counter.clock, counter.sleep)


@pytest.mark.parametrize(("step", "window"), [(1e-3, STEPS * 1e-3), (1e-5, LEAST_S), (0.1, MOST_S)])
def test_a_window_is_as_long_as_the_counter_is_coarse(step: float, window: float) -> None:
    counter = Steps(step=step, tick=step / 50)
    m = meter(counter)
    assert m.step_s == pytest.approx(step, rel=0.1) and m.window_s == pytest.approx(window, rel=0.1)
    used = m.measure(counter.run(3e-6), 3e-6)
    assert used.joules == pytest.approx(50 * 3e-6, rel=2 * used.resolution) and used.watts == pytest.approx(50, rel=2 * used.resolution)
    assert used.windows == WINDOWS and used.calls * 3e-6 == pytest.approx(WINDOWS * window, rel=0.12)
    assert used.resolution == pytest.approx(min(1.0, 2 * step / window), rel=0.15) and used.spread <= used.resolution
    assert EnergyUse.of(used.json) == used and EnergyUse.of({"joules": 1.0}) is None


def test_a_call_longer_than_a_window_is_one_window() -> None:
    counter = Steps()
    assert meter(counter).measure(counter.run(2.0), 2.0).calls == WINDOWS


def test_what_the_machine_takes_at_rest_is_subtracted_where_that_is_asked_for() -> None:
    counter = Steps(watts=20.0)
    m = meter(counter, idle=True)
    assert m.idle_w == pytest.approx(20, rel=0.02) and meter(counter).idle_w is None
    counter.busy = 30.0
    used = m.measure(counter.run(1e-4), 1e-4)
    assert used.joules == pytest.approx(30e-4, rel=2 * used.resolution) and used.watts == pytest.approx(50, rel=0.05)
    counter.busy = -1.0  # no more than at rest: nothing can be said
    with pytest.raises(DeviceError, match="no more than at rest"):
        m.measure(counter.run(1e-4), 1e-4)


def test_a_counter_that_stands_still_is_not_believed() -> None:
    with pytest.raises(DeviceError, match="does not move"):
        meter(Steps(watts=0.0))


def test_pairs_swap_their_order_every_round() -> None:
    counter, order = Steps(), []

    def run(which: int, watts: float) -> Callable[[int], None]:
        def work(n: int) -> None:
            order.append(which)
            counter.sleep(n * 1e-4)

        return work

    pairs = paired_windows(meter(counter), [run(0, 50), run(1, 50)], [1e-4, 2e-4], 4)
    assert order == [0, 1, 1, 0, 0, 1, 1, 0] and len(pairs) == 4
    assert all(b != a and a == pytest.approx(50e-4, rel=0.06) for a, b in pairs)


class FakeNvml:
    """What stands for pynvml: one GPU at one place."""

    class NVMLError(Exception):
        pass

    def __init__(self, counts: bool = True, power: bool = True) -> None:
        self.counts, self.power, self.mj, self.mw = counts, power, 5000, 300_000

    def nvmlInit(self) -> None:
        """Nothing."""

    def nvmlDeviceGetHandleByPciBusId(self, bus: bytes) -> str:
        if bus != b"0000:04:00.0":
            raise self.NVMLError("Not Found")
        return "gpu"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA X"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        if not self.counts:
            raise self.NVMLError("Not Supported")
        return self.mj

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        if not self.power:
            raise self.NVMLError("Not Supported")
        return self.mw


def test_a_gpu_counts_itself_or_its_power_is_sampled() -> None:
    nvml = FakeNvml()
    counter = nvml_counter("0000:04:00.0", nvml)
    nvml.mj += 2500
    assert isinstance(counter, NvmlCounter) and counter.joules() == 2.5 and "NVIDIA X" in counter.name
    now = [0.0]
    sampled = NvmlPower(FakeNvml(counts=False), "gpu", "X", clock=lambda: now[0])
    sampled.close()  # the thread has ended: steps are taken by hand
    begun = sampled.joules()
    for at in (1.0, 3.0):
        now[0] = at
        sampled.step()
    assert sampled.joules() - begun == pytest.approx(900.0)
    other = nvml_counter("0000:04:00.0", FakeNvml(counts=False))
    assert isinstance(other, NvmlPower)
    other.close()


def test_a_gpu_that_nobody_knows_or_reads_is_an_error() -> None:
    with pytest.raises(DeviceError, match="does not show the GPU at 1234"):
        nvml_counter("1234", FakeNvml())
    with pytest.raises(DeviceError, match="power cannot be read"):
        nvml_counter("0000:04:00.0", FakeNvml(counts=False, power=False))
    sampled = NvmlPower(nvml := FakeNvml(counts=False), "gpu", "X")
    nvml.power = False
    sampled._thread.join(10)
    with pytest.raises(DeviceError, match="power cannot be read"):
        sampled.joules()


def test_each_device_has_its_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0")
    monkeypatch.setitem(os.environ, VARIABLE, str(tmp_path))
    cpu: Any = SimpleNamespace(target=SimpleNamespace(kind="cpu"), name="cpu")
    assert counter_of(cpu).name == "RAPL: package-0"
    monkeypatch.setattr(meters, "STILL_S", 0.01)
    with pytest.raises(DeviceError, match="does not move"):
        check_energy(cpu)
    gpu: Any = SimpleNamespace(target=SimpleNamespace(kind="gpu"), name="cuda", bus=lambda: "0000:04:00.0")
    assert isinstance(counter_of(gpu, FakeNvml()), NvmlCounter)
    unplaced: Any = SimpleNamespace(target=SimpleNamespace(kind="gpu"), name="opencl:1", bus=lambda: "")
    with pytest.raises(DeviceError, match="where opencl:1 is on the PCI bus"):
        counter_of(unplaced)
