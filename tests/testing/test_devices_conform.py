"""Devices of ours, and one that is made from nothing, keep what `testing.devices` says that devices promise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tilewright.devices import Device
from tilewright.testing.devices import DeviceTestCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fake_device import SPEC, FakeDevice

pytestmark = pytest.mark.slow


class TestCpu(DeviceTestCase):
    spec = "cpu"


class TestCpuC(DeviceTestCase):
    spec = "cpu:c"
    kernels = ("add", "softmax")


class TestOpenCl(DeviceTestCase):
    spec = "opencl"
    kernels = ("add", "matmul")


class TestFake(DeviceTestCase):
    spec = SPEC
    kernels = ("add",)


class Careless(FakeDevice):
    """Breaks a promise each: whose provenance is no plain data, whose times are none, whose objects are not checked."""

    def fingerprint(self) -> dict[str, Any]:
        return {"device": self}

    def load(self, obj: bytes, signature: Any, threads: int) -> Any:
        made = super().load(obj, signature, threads)
        made.time = lambda *a, **k: [0.0]  # type: ignore[method-assign]
        return made


@pytest.mark.parametrize(
    "promise", ["test_it_says_what_it_is", "test_times_are_of_as_many_calls_as_are_asked_for", "test_kernels_are_right"]
)
def test_a_broken_promise_is_found(promise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = TestFake()
    if promise == "test_kernels_are_right":
        from tilewright import devices

        (tmp_path / "script.json").write_text('{"rules": [{"do": "wrong"}]}')
        monkeypatch.setenv("TILEWRIGHT_FAKE_SCRIPT", str(tmp_path / "script.json"))
        device: Device = devices.get(SPEC)
    else:
        device = Careless()
        device.spec = SPEC
    with pytest.raises((AssertionError, TypeError)):
        getattr(case, promise)(device)
