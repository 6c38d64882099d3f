"""How devices are found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tilewright import devices
from tilewright.devices import registry
from tilewright.devices.cpu.device import CpuDevice
from tilewright.files import plugins
from tilewright.ir import DeviceError

FAKE = f"{Path(__file__).resolve().parents[1] / 'fake_device.py'}:FakeDevice"


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    made, factories = dict(registry._MADE), dict(registry._FACTORIES)
    yield
    for kept, now in ((made, registry._MADE), (factories, registry._FACTORIES)):
        now.clear()
        now.update(kept)


def test_cpu_is_there_and_made_once() -> None:
    assert "cpu" in devices.names()
    assert devices.get("cpu") is devices.get("cpu")
    assert isinstance(devices.get("cpu"), CpuDevice) and devices.get("cpu").spec == "cpu"


def test_a_device_is_its_own_answer() -> None:
    device = CpuDevice()
    assert devices.get(device) is device


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(DeviceError, match=r"unknown device 'cpuu': did you mean 'cpu'\? use one of .*cpu.*file.py:factory"):
        devices.get("cpuu")
    with pytest.raises(DeviceError, match=r"unknown device 'GPU:0': did you mean 'cuda' or 'opencl'\?"):
        devices.get("GPU:0")
    with pytest.raises(DeviceError, match="unknown device 'cpu:zig'"):
        devices.get("cpu:zig")
    with pytest.raises(DeviceError, match="unknown device ''"):
        devices.get("")


def test_registered_devices_replace_older_ones() -> None:
    devices.register("mine", CpuDevice)
    first = devices.get("mine")
    assert "mine" in devices.names() and first.spec == "mine"
    devices.register("mine", CpuDevice)
    assert devices.get("mine") is not first


def test_a_file_path_makes_the_same_device_in_another_process() -> None:
    import subprocess

    device = devices.get(FAKE)
    assert device.name == "fake" and device.spec == FAKE and devices.get(FAKE) is device
    code = f"from tilewright import devices; print(devices.get({device.spec!r}).compiler_id())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "fake-1\n"


def test_a_module_path() -> None:
    assert isinstance(devices.get("tilewright.devices.cpu.device:CpuDevice"), CpuDevice)


@pytest.mark.parametrize("spec", ["tilewright.devices.cpu.device:Nothing", "tilewright.no_such:Thing", "no/such/file.py:Thing"])
def test_import_paths_that_fail_say_why(spec: str) -> None:
    with pytest.raises(DeviceError, match=r"cannot be imported: .*; install what it needs or fix the path"):
        devices.get(spec)


def test_a_factory_that_makes_no_device() -> None:
    devices.register("odd", lambda: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(DeviceError, match="returned int, not a tilewright Device"):
        devices.get("odd")


def test_entry_points_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an installed plug-in: a distribution on the path that declares the group."""
    info = tmp_path / "plug-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tilewright.devices]\nplugged = plugged_device:Plugged\nbroken = no_such_module_here:X\n")
    (tmp_path / "plugged_device.py").write_text(
        "from tilewright.devices.cpu.device import CpuDevice\nclass Plugged(CpuDevice):\n    name = 'plugged'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.entry_points.cache_clear()
    try:
        assert {"cpu", "plugged", "broken"} <= set(devices.names())
        assert devices.get("plugged").name == "plugged"
        with pytest.raises(DeviceError, match="'broken' is declared as no_such_module_here:X but cannot be imported: No module named"):
            devices.get("broken")
    finally:
        plugins.entry_points.cache_clear()


def test_importing_devices_is_light() -> None:
    import subprocess

    code = "import sys, tilewright.devices as d; d.get('cpu'); print([m for m in ('numpy', 'llvmlite', 'platformdirs', 'sqlalchemy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
