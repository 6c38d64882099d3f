"""Limits: rates between measured thread counts, the kept file, and the probe that measures."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from tilewright import targets
from tilewright.devices import Cached, Device, Limits, Rates, limits
from tilewright.devices.cpu import device as cpu_device
from tilewright.devices.cpu.device import CpuDevice
from tilewright.devices.cpu.engine import compile_text
from tilewright.ir import DeviceError

ONE = Rates(peak_f32=100.0, peak_f64=50.0, read=10.0, copy=8.0, copy_nt=9.0, triad=8.5, triad_nt=9.5)
EIGHT = Rates(peak_f32=720.0, peak_f64=360.0, read=40.0, copy=30.0, copy_nt=35.0, triad=31.0, triad_nt=34.0)
BOTH = Limits("2026-01-01T00:00:00+00:00", {1: ONE, 8: EIGHT})


def test_bandwidth_by_threads_and_kind_of_store() -> None:
    assert BOTH.bandwidth(1) == 8.5 and BOTH.bandwidth(1, nt=True) == 9.5 and BOTH.bandwidth(1, writes=False) == 10.0
    assert BOTH.bandwidth(8) == 31.0 and BOTH.bandwidth(8, nt=True) == 35.0
    assert BOTH.bandwidth(2) == 17.0  # linear, and below what 8 threads get
    assert BOTH.bandwidth(5) == 31.0  # saturated


def test_peak_by_threads_and_dtype() -> None:
    assert BOTH.peak(1) == 100.0 and BOTH.peak(8, "float64") == 360.0 and BOTH.peak(2, "bfloat16") == 200.0
    assert BOTH.peak(2, "int8") == 200.0


def test_more_threads_than_measured_scale_no_further_than_linearly() -> None:
    assert BOTH.peak(16) == 720.0


def test_the_best_of_two_probes() -> None:
    slower = Limits("2026-02-02T00:00:00+00:00", {1: dataclasses.replace(ONE, read=1.0, copy=99.0), 4: ONE})
    both = slower.best(BOTH)
    assert both.date == slower.date
    # and no count has less than a smaller one
    assert both.rates == {
        1: dataclasses.replace(ONE, copy=99.0),
        4: dataclasses.replace(ONE, copy=99.0),
        8: dataclasses.replace(EIGHT, copy=99.0),
    }


def test_more_threads_never_have_less() -> None:
    worse = Limits(
        "2026-01-01", {1: ONE, 2: dataclasses.replace(ONE, peak_f32=60.0, read=12.0)}
    )  # the machine was busy when both were measured
    assert worse.peak(2) == 100.0 and worse.bandwidth(2, writes=False) == 12.0
    assert worse.ordered().rates[2] == dataclasses.replace(ONE, read=12.0)
    assert Limits.from_json(worse.to_json()) == worse.ordered()


CACHES = (Cached(1000, 500.0, 400.0), Cached(8000, 100.0, 120.0), Cached(64000, 50.0, 40.0))


def test_a_cache_gives_what_the_next_smaller_set_gave() -> None:
    one = Limits("2026-01-01", {1: dataclasses.replace(ONE, caches=CACHES)})
    assert one.cached(1, 10) == one.cached(1, 7999) == 500.0
    assert one.cached(1, 8000) == 120.0 and one.cached(1, 8000, writes=False) == 100.0
    assert one.cached(1, 1 << 40) == 50.0
    assert BOTH.cached(1, 10) is None
    assert Limits.from_json(one.to_json()) == one
    faster = Limits("2026-01-02", {1: dataclasses.replace(ONE, caches=(Cached(1000, 400.0, 450.0), Cached(9000, 1.0, 1.0)))})
    assert faster.best(one).rates[1].caches == (Cached(1000, 500.0, 450.0), Cached(9000, 1.0, 1.0))
    assert BOTH.best(one).rates[1].caches == CACHES


def test_limits_without_caches_are_read_and_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    old = {"schema": 1, "date": "2026-01-01", "rates": {"1": {k: v for k, v in dataclasses.asdict(ONE).items() if k != "caches"}}}
    assert Limits.from_json(old).rates == {1: ONE}
    device = CpuDevice()
    file = limits.path(device._identity())
    limits.write(file, Limits.from_json(old), {})
    file.write_text(json.dumps(old))
    assert device.limits() is None  # so that the next search probes
    monkeypatch.setattr(
        cpu_device, "measure", lambda device, slot_s: Limits("2026-02-02", {1: dataclasses.replace(ONE, read=7.0, caches=CACHES)})
    )
    found = device.limits(probe=True)
    assert found is not None and found.rates[1] == dataclasses.replace(ONE, caches=CACHES) and device.limits() == found


@pytest.mark.parametrize("machine", [(48, 2048, 266240, 2), (32, 512, 32768, 16), (32, 256, 8192, 4), (64, 1024, 1024, 8)])
def test_working_sets_lie_in_each_cache(machine: tuple[int, int, int, int]) -> None:
    one, two, three = (n << 10 for n in machine[:3])
    threads = machine[3]
    sizes = cpu_device.cache_sizes(dataclasses.replace(targets.named("avx2"), l1=one, l2=two, l3=three), threads)
    assert sizes == sorted(sizes) and sizes[0] * 2 == threads * one
    assert all(n < max(2 * three, threads * one) for n in sizes)


@pytest.mark.parametrize(("kind", "figure"), [("read", "read"), ("fma", "peak_f32")])
def test_two_threads_that_do_too_little_are_measured_again(monkeypatch: pytest.MonkeyPatch, kind: str, figure: str) -> None:
    asked: list[tuple[int, str]] = []

    def runner(device: Device, target: targets.Target, threads: int, slot_s: float, spread: dict[str, float]) -> cpu_device._Run:
        def best(name: str, text: str, pointers: list[int], items: int, share: float) -> float:
            asked.append((threads, name))
            slow = threads == 2 and name == kind and asked.count((2, kind)) == 1
            # the peak as much as one thread's, memory less
            return (2.0 if kind == "fma" else 1000.0) * items / threads if slow else items / threads

        return best

    monkeypatch.setattr(cpu_device, "_runner", runner)
    monkeypatch.setattr(CpuDevice, "threads", property(lambda self: 2))
    found = cpu_device.measure(CpuDevice(), array_bytes=4 << 20)
    assert getattr(found.rates[2], figure) == pytest.approx(2 * getattr(found.rates[1], figure))


def test_round_trip(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "limits.json"
    assert limits.read(file) is None
    limits.write(file, BOTH, {"cpu": "x"})
    limits.write(file, BOTH, {"cpu": "x"})
    assert limits.read(file) == BOTH
    assert json.loads(file.read_text())["machine"] == {"cpu": "x"}
    assert [f.name for f in file.parent.iterdir()] == ["limits.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema": 99, "date": "", "rates": {}}', '{"schema": 1, "date": "", "rates": {"1": {"read": 1}}}']
)
def test_damaged_files_name_the_cure(tmp_path: Path, text: str) -> None:
    file = tmp_path / "limits.json"
    file.write_text(text)
    with pytest.raises(DeviceError, match="tune devices --probe"):
        limits.read(file)


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match=r"cannot keep the measured limits in .*XDG_STATE_HOME"):
        limits.write(tmp_path / "file" / "limits.json", BOTH, {})


def test_the_file_depends_on_the_machine() -> None:
    assert limits.path({"cpu": "a"}) != limits.path({"cpu": "b"})
    assert limits.path({"cpu": "a", "l2": 1}) == limits.path({"l2": 1, "cpu": "a"})


@pytest.mark.slow
def test_probing_keeps_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    short = cpu_device.measure
    monkeypatch.setattr(cpu_device, "measure", lambda device, slot_s: short(device, slot_s=0.002, array_bytes=4 << 20))
    device = CpuDevice()
    assert device.limits() is None
    found = device.limits(probe=True)
    assert found is not None and device.limits() == found
    assert set(found.rates) == {1, device.threads}
    limits.path(device._identity()).write_text("{")  # damaged: the next probe mends it
    with pytest.raises(DeviceError, match="damaged"):
        device.limits()
    device.limits(probe=True)
    again = device.limits(probe=True)
    assert again is not None and device.limits() == again
    for rates in found.rates.values():
        # no more than any processor could do; how little is the other load's business
        assert rates.caches and all(0 < c.read < 1e14 and 0 < c.mixed < 1e14 for c in rates.caches)
        assert 0 < rates.peak_f32 < 1e14 and 0 < rates.peak_f64 < 1e14
        for kind in cpu_device.KINDS:
            assert 0 < getattr(rates, kind) < 1e13


@pytest.mark.many
@pytest.mark.parametrize("name", [n for n in targets.NAMES if targets.named(n).arch == "x86_64"] + ["neon", "apple-m1"])
def test_probe_kernels_build_for_every_target(name: str, cpu: Device) -> None:
    target = targets.named(name)
    native = target.arch == cpu.target.arch
    for text in [cpu_device.fma(target, 32), cpu_device.fma(target, 64), *(cpu_device.stream(target, kind) for kind in cpu_device.KINDS)]:
        assert compile_text(text, target, native)
