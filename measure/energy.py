"""Joules of a call, from a counter that is much coarser than a call.

A counter moves in steps: RAPL's about once a millisecond, a GPU's some ten or fifty times a second. How long a step takes is observed
first. Then the candidate runs again and again for a *window* of many steps, three times over. What a window's two readings can be off
by is one step in either, so at most two steps' share of the window, which is the *resolution*. The counter covers the whole package or
card, and whatever else runs there is in it: the builders of a search stand still meanwhile."""

from __future__ import annotations

import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..ir.errors import DeviceError
from .outcome import EnergyUse

if TYPE_CHECKING:
    from ..devices import Device


WINDOWS = 3
STEPS = 60
"""Steps of the counter in a window, where that is not longer than MOST_S."""
LEAST_S, MOST_S = 0.04, 1.0
"""Seconds of a window."""
STILL_S = 2.0
"""A counter that does not move for so long stands still: every machine takes some power."""
OBSERVED = 4
"""Steps that are waited for to learn how long one is."""
IDLE_S = 0.25
"""Seconds of rest in which the idle power is measured, at least."""


class EnergyMeter:
    """Measures with one counter. `idle`: subtract what the machine takes at rest."""

    def __init__(
        self,
        counter: EnergyCounter,
        idle: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Watches the counter for a moment. Raises DeviceError where it stands still or cannot be read."""
        self.counter, self._clock = counter, clock
        self.step_s = self._observed()
        self.window_s = min(MOST_S, max(LEAST_S, STEPS * self.step_s))
        self.idle_w = self._at_rest(sleep) if idle else None

    def _observed(self) -> float:
        """Seconds of a step of the counter."""
        began = self._clock()
        last, first = self.counter.joules(), None
        changes = 0
        while changes < OBSERVED:
            reading, now = self.counter.joules(), self._clock()
            if reading != last:
                last, changes = reading, changes + 1
                first = now if first is None else first
            elif now - began > STILL_S and changes < 2:
                raise DeviceError(
                    f"the energy counter does not move ({self.counter.name} said {last:g} J for {STILL_S:g} s): virtual machines show such; {HOW}"
                )
            elif now - began > OBSERVED * STILL_S:
                break
        assert first is not None
        return max(1e-6, (self._clock() - first) / max(1, changes - 1))

    def _at_rest(self, sleep: Callable[[float], None]) -> float:
        """Watts while this process rests."""
        began, start = self._clock(), self.counter.joules()
        sleep(max(IDLE_S, min(MOST_S, STEPS * self.step_s)))
        return (self.counter.joules() - start) / (self._clock() - began)

    def measure(self, run: Callable[[int], None], call_s: float) -> EnergyUse:
        """Joules of a call of what `run(n)` calls n times; a call takes about `call_s` seconds. Raises DeviceError."""
        count = self._calls(call_s)
        each, power, shortest = [], [], math.inf
        for _ in range(WINDOWS):
            joules, watts, took = self._window(run, count)
            each.append(joules)
            power.append(watts)
            shortest = min(shortest, took)
        middle = sorted(each)[WINDOWS // 2]
        self._resolved(middle)
        spread = (max(each) - min(each)) / 2 / middle
        return EnergyUse(
            middle,
            spread,
            WINDOWS,
            WINDOWS * count,
            min(1.0, 2 * self.step_s / shortest),
            sorted(power)[WINDOWS // 2],
            self.idle_w,
            self.counter.name,
        )

    def once(self, run: Callable[[int], None], call_s: float) -> float:
        """Joules of a call, from one window. Raises DeviceError."""
        joules = self._window(run, self._calls(call_s))[0]
        self._resolved(joules)
        return joules

    def _calls(self, call_s: float) -> int:
        """Calls that fill a window."""
        return max(1, math.ceil(self.window_s / max(call_s, 1e-9)))

    def _window(self, run: Callable[[int], None], count: int) -> tuple[float, float, float]:
        """(joules of a call, mean watts, seconds) of so many calls."""
        began, start = self._clock(), self.counter.joules()
        run(count)
        spent, took = self.counter.joules() - start, self._clock() - began
        return (spent - (self.idle_w or 0.0) * took) / count, spent / took, took

    def _resolved(self, joules: float) -> None:
        if joules <= 0:
            why = "no more than at rest" if self.idle_w is not None else "nothing"
            raise DeviceError(f"the energy of a call is below what {self.counter.name} resolves: it counted {why}; measure a larger shape")


def paired_windows(
    meter: EnergyMeter, runs: Sequence[Callable[[int], None]], call_s: Sequence[float], rounds: int
) -> list[tuple[float, float]]:
    """Joules of a call of two candidates in each round: a window of one, then of the other, in an order that swaps every round, since a
    package that is warmer takes more. Raises DeviceError."""
    pairs = []
    for r in range(rounds):
        got = {which: meter.once(runs[which], call_s[which]) for which in ((0, 1), (1, 0))[r % 2]}
        pairs.append((got[0], got[1]))
    return pairs


def check_energy(device: Device) -> str:
    """The name of the counter that a search would use. Raises DeviceError where there is none to be read: before anything is tuned."""
    if device.target.kind != "gpu":
        return EnergyMeter(PowercapCounter()).counter.name  # (one that stands still is none)
    # what is on a GPU's bus only its driver knows, which the process that forks never opens: here NVML is only looked for
    nvml = pynvml()
    try:
        nvml.nvmlInit()
        return "NVML"
    except nvml.NVMLError as e:
        raise DeviceError(f"NVML cannot be used here, so the energy of {device.name} cannot be measured: {e}; {HOW}") from None


# counters ---------------------------------------------------------------------------------------------------
# What counts joules: RAPL of processors, as Linux shows it, and NVML of NVIDIA's GPUs (package nvidia-ml-py, the extra `energy`).
#
# Linux shows the counters of Intel's and AMD's processors in /sys/class/powercap ("Power Capping Framework"). A zone is a folder with
# `name` and `energy_uj` (microjoules, which begin again at 0 after `max_energy_range_uj`). `intel-rapl:0` is a package, `intel-rapl:0:2` a part
# of it. A package's cores and graphics are counted in it, and `psys` is the whole board, so packages and memory are added up.
#
# GPUs since Volta count millijoules themselves; of older ones the power is sampled and added up (NVIDIA, "NVML API Reference Guide":
# nvmlDeviceGetTotalEnergyConsumption, nvmlDeviceGetPowerUsage).


HOW = "docs/energy.md says what each machine needs"
SAMPLE_S = 0.01
"""Seconds between two samples of the power."""
ROOT = "/sys/class/powercap"
VARIABLE = "TILEWRIGHT_POWERCAP"
"""Names another folder: a container's mount of the host's."""
COUNTED = ("package", "dram")
"""How the names of the zones begin that are added up."""


class EnergyCounter(ABC):
    """An energy counter, open in this process."""

    name: str = ""
    """What it is and what it covers: 'RAPL: package-0, dram-0'."""

    @abstractmethod
    def joules(self) -> float:
        """Energy since it was opened, in joules; it never falls. Raises DeviceError where it cannot be read any more."""

    def close(self) -> None:  # noqa: B027  (files that are opened for each reading have nothing to close)
        """Let go of what it holds."""


def counter_of(device: Device, library: Any = None) -> EnergyCounter:
    """The open counter of what `device` runs on. `library`: what stands for the module pynvml. Raises DeviceError, which says what to do."""
    if device.target.kind != "gpu":
        return PowercapCounter()
    bus = device.bus()
    if not bus:
        raise DeviceError(f"nobody says where {device.name} is on the PCI bus, so its energy counter cannot be found; {HOW}")
    return nvml_counter(bus, library)


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


class PowercapZone:
    """One zone. Raises DeviceError where it cannot be read."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._range = _read_number(path / "max_energy_range_uj")
        self._last = _read_number(path / "energy_uj")
        self._counted = 0

    def microjoules(self) -> int:
        """Since it was opened. It wraps around after some minutes at least, and is seen to where two readings are closer than that."""
        now = _read_number(self.path / "energy_uj")
        if now < self._last and not self._range:
            raise DeviceError(f"the energy counter {self.path} ran backwards and names no range to wrap around at; {HOW}")
        self._counted += now - self._last + (self._range if now < self._last else 0)
        self._last = now
        return self._counted


def root() -> Path:
    """The folder of the zones."""
    return Path(os.environ.get(VARIABLE) or ROOT)


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
    nvml = library if library is not None else pynvml()
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


def pynvml() -> ModuleType:
    try:
        import pynvml as found
    except ModuleNotFoundError:
        raise DeviceError("the energy of a GPU is read by nvidia-ml-py: pip install 'tilewright[energy]'") from None
    library: ModuleType = found
    return library


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


def _read_number(path: Path) -> int:
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
