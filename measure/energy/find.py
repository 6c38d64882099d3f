"""Which counter covers a device, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir.errors import DeviceError
from .counters import HOW, EnergyCounter
from .meter import EnergyMeter
from .nvml import nvml_counter
from .powercap import PowercapCounter

if TYPE_CHECKING:
    from ...devices import Device


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
