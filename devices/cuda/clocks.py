"""What a GPU was like while it was timed: clocks, temperature, power, and what held its clocks back.

The figures come from NVML, the driver's management library (libnvidia-ml.so.1), which comes with every driver; prototypes and numbers
are those of its header nvml.h (NVIDIA's "NVML API Reference Guide"). Where it is missing, or says nothing (containers, virtual
GPUs), a figure is left out. The clock of the multiprocessors is also measured by kernels, without NVML (`session.HOLD`)."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from ...log import logger

log = logger("devices")

LIBRARY = "libnvidia-ml.so.1"
_SM, _MEMORY, _TEMPERATURE = 1, 2, 0
"""NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU."""
REASONS = {
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost", 0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip
"""The bits of nvmlClocksThrottleReason…"""
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""One question, by its newer and its older name."""


class Nvml:
    """One GPU, by its place on the PCI bus."""

    def __init__(self, bus: str) -> None:
        """Raises OSError where there is no library, or where it does not know the GPU."""
        self._library = ctypes.CDLL(LIBRARY)
        self._device = ctypes.c_void_p()
        find = self._library.nvmlDeviceGetHandleByPciBusId_v2
        for name, status in (("nvmlInit", self._library.nvmlInit_v2()), (bus, find(bus.encode(), ctypes.byref(self._device)))):
            if status:
                raise OSError(f"{name}: NVML says {status}")

    def read(self) -> dict[str, Any]:
        """What is known of: sm_mhz, memory_mhz, temperature_c, power_w, throttle (a list of REASONS, without 'idle')."""
        out: dict[str, Any] = {}
        ask = self._ask
        for key, name, which in (
            ("sm_mhz", "nvmlDeviceGetClockInfo", _SM),
            ("memory_mhz", "nvmlDeviceGetClockInfo", _MEMORY),
            ("temperature_c", "nvmlDeviceGetTemperature", _TEMPERATURE),
        ):
            value = ctypes.c_uint()
            if ask(name, ctypes.c_uint(which), ctypes.byref(value)):
                out[key] = value.value
        power, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        if ask("nvmlDeviceGetPowerUsage", ctypes.byref(power)):
            out["power_w"] = power.value / 1000
        if any(ask(name, ctypes.byref(reasons)) for name in _REASONS):
            out["throttle"] = [text for bit, text in REASONS.items() if reasons.value & bit and bit > 1]
        return out

    def _ask(self, name: str, *arguments: Any) -> bool:
        """Whether NVML answers a question; a library may lack the symbol."""
        call = getattr(self._library, name, None)
        return call is not None and not call(self._device, *arguments)


@functools.lru_cache(maxsize=16)
def nvml(bus: str) -> Nvml | None:
    """NVML's view of a GPU; None where there is none."""
    try:
        return Nvml(bus)
    except (OSError, AttributeError) as e:  # no library, or one without these calls
        log.info("no clocks from NVML: %s", e)
        return None
