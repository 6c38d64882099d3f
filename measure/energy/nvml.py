"""The energy counters of NVIDIA's GPUs, by NVML (package nvidia-ml-py, the extra `energy`).

GPUs since Volta count millijoules themselves; of older ones the power is sampled and added up. (NVIDIA, "NVML API Reference Guide":
nvmlDeviceGetTotalEnergyConsumption, nvmlDeviceGetPowerUsage.)"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ...ir.errors import DeviceError
from .counters import HOW, EnergyCounter

SAMPLE_S = 0.01
"""Seconds between two samples of the power."""


class NvmlCounter(EnergyCounter):
    """The counter that a GPU has itself, or None: see `nvml_counter`."""

    def __init__(self, library: Any, handle: Any, gpu: str) -> None:
        self._library, self._handle = library, handle
        self.name = f"NVML: energy counter of {gpu}"
        self._first = self._millijoules()

    def _millijoules(self) -> int:
        try:
            return int(self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        except self._library.NVMLError as e:
            raise DeviceError(f"the GPU's energy counter cannot be read: NVML says {e}; {HOW}") from None

    def joules(self) -> float:
        return (self._millijoules() - self._first) * 1e-3


class NvmlPower(EnergyCounter):
    """Power, sampled by a thread and added up (trapezoids). Between two samples the counter stands still."""

    def __init__(self, library: Any, handle: Any, gpu: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._library, self._handle, self._clock = library, handle, clock
        self.name = f"NVML: power of {gpu}, sampled every {SAMPLE_S * 1e3:g} ms"
        self._joules, self._error = 0.0, ""
        self._power, self._at = self._watts(), clock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="tilewright-power", daemon=True)
        self._thread.start()

    def _watts(self) -> float:
        try:
            return float(self._library.nvmlDeviceGetPowerUsage(self._handle)) * 1e-3
        except self._library.NVMLError as e:
            raise DeviceError(f"the GPU's power cannot be read: NVML says {e}; {HOW}") from None

    def _sample(self) -> None:
        while not self._closed.wait(SAMPLE_S):
            try:
                self.step()
            except DeviceError as e:
                self._error = str(e)
                return

    def step(self) -> None:
        """Take one sample. Raises DeviceError."""
        power, at = self._watts(), self._clock()
        self._joules += (power + self._power) / 2 * (at - self._at)
        self._power, self._at = power, at

    def joules(self) -> float:
        if self._error:
            raise DeviceError(self._error)
        return self._joules

    def close(self) -> None:
        self._closed.set()
        self._thread.join()


def nvml_counter(bus: str, library: Any = None) -> EnergyCounter:
    """The counter of the GPU at a place of the PCI bus. `library`: what stands for the module pynvml. Raises DeviceError."""
    nvml = library if library is not None else _pynvml()
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByPciBusId(bus.encode())
        name = nvml.nvmlDeviceGetName(handle)
    except nvml.NVMLError as e:
        raise DeviceError(f"NVML does not show the GPU at {bus}, so its energy cannot be measured: {e}; {HOW}") from None
    gpu = name.decode() if isinstance(name, bytes) else str(name)
    try:
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except nvml.NVMLError:
        return NvmlPower(nvml, handle, gpu)
    return NvmlCounter(nvml, handle, gpu)


def _pynvml() -> ModuleType:
    try:
        import pynvml
    except ModuleNotFoundError:
        raise DeviceError("the energy of a GPU is read by nvidia-ml-py: pip install 'tilewright[energy]'") from None
    found: ModuleType = pynvml
    return found
