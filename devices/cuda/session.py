"""One open GPU a process: who may use it, how it is kept busy while work is queued, and how fast its clocks run."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...ir.errors import MeasureError, TilewrightError
from ...log import logger
from ...targets import Target
from ..once import forked, once
from . import nvrtc
from .driver import Driver, open_driver

# What a GPU was like while it was timed: clocks, temperature, power, and what held its clocks back.
#
# The figures come from NVML, the driver's management library (libnvidia-ml.so.1), which comes with every driver;
# prototypes and numbers are those of its header nvml.h (NVIDIA's "NVML API Reference Guide"). Where it is missing, or
# says nothing (containers, virtual GPUs), a figure is left out. The clock of the multiprocessors is also measured by
# kernels, without NVML (`session.HOLD`).


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


_IDLE_S, _WAKE_S = 0.1, 0.02
"""A GPU that was idle for so long has slow clocks, and is kept busy for so long before it is timed."""
HOLD_S = 1.0
"""The longest that a GPU is held, by its own clock: no kernel waits for ever, whatever becomes of this process."""
_SAMPLE_S = 0.02
_CLOCK_S = 100e-6
"""A hold has to last so long for its clock to be known: %globaltimer may tick once a microsecond."""
_NEVER = 1 << 62
_WORDS = 4
HOLD = """static __device__ long long nanoseconds() {
#if defined(TILEWRIGHT_HOST)
    return clock64();
#else
    long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
#endif
}
extern "C" __global__ void hold(volatile long long* word, long long number, long long cycles) {
    const long long start = clock64(), began = nanoseconds();
    while (word[0] < number && clock64() - start < cycles) {}
    word[1] = clock64() - start;
    word[2] = nanoseconds() - began;
}
"""
"""Waits until the host writes `number`, or a higher one, or until so many cycles are over; then says how many cycles and nanoseconds it
waited. A volatile load reads the host's memory each time (PTX ISA: ld.volatile is as ld.relaxed of system scope);
%globaltimer counts nanoseconds (PTX ISA, special registers)."""


class CudaSession:
    """One GPU, open in this process. `lock` is held around every use: the driver's default stream is one."""

    def __init__(self, driver: Driver, index: int, target: Target) -> None:
        self.driver, self.index, self.target = driver, index, target
        self.lock = threading.RLock()
        self.queues = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "1"
        """Whether a launch returns before it is done. The driver's variable makes each wait, and so would a hold: until its end."""
        self.clocks: dict[str, Any] = {}
        """What `sample` found last."""
        self._hold: Any = None
        self._modules: list[Any] = []
        self._word: Any = None
        self._number = 0
        self._busy = self._sampled = -math.inf
        self.use()
        self._khz = driver.attribute(index, "CLOCK_RATE")

    def use(self) -> Driver:
        """The driver, with this GPU as the calling thread's. Raises MeasureError after a fault."""
        if self.driver.lost:
            raise MeasureError(f"the GPU is lost to this process since {self.driver.lost}; go on in a new one")
        self.driver.open(self.index)
        return self.driver

    @contextmanager
    def lent(self) -> Iterator[None]:
        """As `use`, and the calling thread has its own GPU again afterwards."""
        if self.driver.lost:
            self.use()
        with self.driver.lend(self.index):
            yield

    def alloc(self, nbytes: int) -> int:
        """Memory of the device. Raises MeasureError that says how much is free, where there is too little."""
        driver = self.use()
        try:
            return driver.alloc(nbytes)
        except MeasureError as e:
            if driver.lost:
                raise
            free, total = driver.memory()
            raise MeasureError(f"{nbytes / 2**20:.3g} MiB wanted, {free >> 20} of {total >> 20} MiB are free: {e}") from e

    @contextmanager
    def held(self) -> Iterator[None]:
        """The GPU waits while this is entered, and does what was queued meanwhile afterwards, with no gaps.

        Nothing may be asked of the driver inside that waits for the GPU (memory, modules), and no more may be queued
        than the driver takes without waiting: some hundred launches and events."""
        self._spin(self._number + 1, HOLD_S)
        try:
            yield
        finally:
            self._number += 1
            self._word[0] = self._number

    def complete(self) -> bool:
        """Once the GPU is done: whether the last hold ended because it was released, and not for taking too long."""
        return bool(self._word[1] < self._cycles(HOLD_S))

    def _cycles(self, seconds: float) -> int:
        return int(seconds * self._khz * 1000)

    def prepare(self) -> None:
        """Have the kernel that holds the GPU, which takes the compiler a second."""
        self.use()
        if self._hold is None:
            self._hold = self.kernel(HOLD, "hold")
            host, self._device_word = self.driver.mapped(8 * _WORDS)
            self._word = (ctypes.c_int64 * _WORDS).from_address(host)
            self._word[:] = (0,) * _WORDS

    def _spin(self, number: int, seconds: float) -> None:
        self.prepare()
        self.driver.bind(self._hold, 1, 1, 0, (self._device_word, number, self._cycles(seconds)))()

    def kernel(self, text: str, name: str) -> Any:
        """A kernel of ours, for `Driver.bind`; it is kept as long as the session."""
        module = self.use().load(self.build(text))
        self._modules.append(module)
        return self.driver.function(module, name)

    def build(self, text: str) -> bytes:
        """Machine code of CUDA text of ours. Raises BuildError."""
        return nvrtc.compile(text, self.target.cpu)[0]

    def wake(self) -> None:
        """See that the clocks are those of a GPU at work."""
        if time.monotonic() - self._busy > _IDLE_S:
            self._spin(_NEVER, _WAKE_S)
            self.driver.wait()

    def wait(self) -> None:
        """Until the GPU is done."""
        self.driver.wait()
        self._busy = time.monotonic()

    def sample(self) -> None:
        """Read clocks, temperature and power, best while the GPU works: NVML asks the driver's management side and waits for no
        kernel."""
        if time.monotonic() - self._sampled > _SAMPLE_S:
            found = self._management
            self.clocks = found.read() if found is not None else {}
            self._sampled = time.monotonic()

    def hold_clock(self) -> None:
        """Once the GPU is done: add the multiprocessors' clock during the last hold, where that was long enough to tell."""
        if self._word is None:
            return
        cycles, nanoseconds = self._word[1], self._word[2]
        if nanoseconds >= _CLOCK_S * 1e9:
            self.clocks["sm_mhz_held"] = round(cycles * 1e3 / nanoseconds)

    @functools.cached_property
    def _management(self) -> Any:
        try:
            return nvml(self.driver.bus(self.index))
        except TilewrightError:
            return None  # figures beside a measurement: without them it is no worse


@once
def _session(index: int, target: Target) -> tuple[CudaSession, int]:
    return CudaSession(open_driver(), index, target), os.getpid()


def session(index: int, target: Target) -> CudaSession:
    """This process's session of a GPU. Raises DeviceError in a child that was forked after it was opened."""
    found, process = _session(index, target)
    if process != os.getpid():
        raise forked(f"cuda:{index}")
    return found
