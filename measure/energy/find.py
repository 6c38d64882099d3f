"""Which counter covers a device, or why there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import DeviceError
from .counters import HOW, EnergyCounter
from .meter import EnergyMeter
from .nvml import nvml_counter

if TYPE_CHECKING:
    from ...devices import Device


# powercap ---------------------------------------------------------------------------------------------------
# The energy counters of Intel's and AMD's processors (RAPL), as Linux shows them in /sys/class/powercap.
#
# A zone is a folder with `name`, `energy_uj` (microjoules, which begins again at 0 after `max_energy_range_uj`). Zones
# of one control type lie beside each other: `intel-rapl:0` is a package, `intel-rapl:0:2` a part of it. (Linux, "Power
# Capping Framework"; AMD's processors have the same driver.) A package's cores and its graphics are counted in it
# already, and `psys` is the whole board, so what is added up is packages and memory.


ROOT = "/sys/class/powercap"
VARIABLE = "TILEWRIGHT_POWERCAP"
"""Names another folder: a container's mount of the host's."""
COUNTED = ("package", "dram")
"""How the names of the zones begin that are added up."""


def root() -> Path:
    """The folder of the zones."""
    return Path(os.environ.get(VARIABLE) or ROOT)


class PowercapZone:
    """One zone. Raises DeviceError where it cannot be read."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._range = _whole(path / "max_energy_range_uj")
        self._last = _whole(path / "energy_uj")
        self._counted = 0

    def microjoules(self) -> int:
        """Since it was opened. It wraps around after some minutes at least, and is seen to where two readings are closer than that."""
        now = _whole(self.path / "energy_uj")
        if now < self._last and not self._range:
            raise DeviceError(f"the energy counter {self.path} ran backwards and names no range to wrap around at; {HOW}")
        self._counted += now - self._last + (self._range if now < self._last else 0)
        self._last = now
        return self._counted


class PowercapCounter(EnergyCounter):
    """All packages and memories of this machine together."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: where the zones lie (`root()`). Raises DeviceError, which says what to do, where nothing can be read."""
        where = root() if folder is None else folder
        self.zones = [PowercapZone(path, name) for path, name in _zones(where)]
        if not self.zones:
            raise DeviceError(_nothing(where))
        self.name = "RAPL: " + ", ".join(z.name for z in self.zones)

    def joules(self) -> float:
        return sum(z.microjoules() for z in self.zones) * 1e-6


def _zones(where: Path) -> Iterator[tuple[Path, str]]:
    """The zones that are added up, by the order of their numbers, with a name that tells them apart."""
    found = []
    try:
        # `intel-rapl-mmio:0` shows the counter of `intel-rapl:0` a second time
        paths = sorted((p for p in where.iterdir() if p.name.startswith("intel-rapl:")), key=lambda p: _numbers(p.name))
    except OSError:
        paths = []
    for path in paths:
        try:
            name = (path / "name").read_text().strip()
        except OSError:
            continue
        if name.startswith(COUNTED):
            found.append((path, name))
    names = [name for _, name in found]
    for path, name in found:
        # every package has a `dram`
        package = path.name.split(":")[1] if names.count(name) > 1 else ""
        yield path, f"{name}-{package}" if package else name


def _numbers(name: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in name.split(":")]


def _whole(path: Path) -> int:
    try:
        return int(path.read_text())
    except PermissionError:
        raise DeviceError(
            f"{path} may not be read by this user: `sudo chmod a+r {path.parent.parent}/intel-rapl:*/energy_uj` allows it until the next "
            f"start; {HOW}"
        ) from None
    except (OSError, ValueError) as e:
        if path.name == "max_energy_range_uj" and isinstance(e, FileNotFoundError):
            return 0
        why = e.strerror if isinstance(e, OSError) else "it holds no number"
        raise DeviceError(f"the energy counter {path} cannot be read: {why}; {HOW}") from None


def _nothing(where: Path) -> str:
    said = f"this machine shows no energy counters of a processor (no intel-rapl zone of a package in {where})"
    return (
        f"{said}: virtual machines and containers seldom have them. On a machine of your own try `sudo modprobe intel_rapl_msr`; in a "
        f"container, mount the host's {ROOT} and name the place in {VARIABLE}; {HOW}"
    )


# find -------------------------------------------------------------------------------------------------------
def counter_of(device: Device, library: Any = None) -> EnergyCounter:
    """The open counter of what `device` runs on. `library`: what stands for the module pynvml. Raises DeviceError, which says what to do."""
    if device.target.kind != "gpu":
        return PowercapCounter()
    bus = device.bus()
    if not bus:
        raise DeviceError(f"nobody says where {device.name} is on the PCI bus, so its energy counter cannot be found; {HOW}")
    return nvml_counter(bus, library)


def check(device: Device) -> str:
    """The name of the counter that a search would use. Raises DeviceError where there is none to be read: before anything is tuned."""
    if device.target.kind != "gpu":
        return EnergyMeter(PowercapCounter()).counter.name  # (one that stands still is none)
    # what is on a GPU's bus only its driver knows, which the process that forks never opens: here NVML is only looked for
    from .nvml import _pynvml

    nvml = _pynvml()
    try:
        nvml.nvmlInit()
        return "NVML"
    except nvml.NVMLError as e:
        raise DeviceError(f"NVML cannot be used here, so the energy of {device.name} cannot be measured: {e}; {HOW}") from None
