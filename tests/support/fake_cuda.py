"""A cuda device without a GPU: its driver is a Python object whose memory is the host's, and its machine code is the CUDA text itself,
which runs as C++ (`devices.cuda.host`). Everything of the device but NVRTC and the driver is real.

Another process finds it by `devices.get("…/fake_cuda.py:FakeCudaDevice")`. The driver does what no host can see otherwise: it notes
every call, and fails as `FakeDriver.fails` says, or where the text holds FAULT (a kernel that ends the GPU's work for the process)."""

from __future__ import annotations

import ctypes
import functools
import re
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.devices import SourceLike
from tilewright.devices.cuda.device import CudaDevice
from tilewright.devices.cuda.driver import FATAL, failure
from tilewright.devices.cuda.executable import CudaMemory
from tilewright.devices.cuda.host import Guarded, HostModule
from tilewright.devices.cuda.session import CudaSession
from tilewright.ir import VerifyError

SPEC = f"{Path(__file__).resolve()}:FakeCudaDevice"
FAULT = "/* the fake driver faults here */"
NAMES = re.compile(r"__global__\s+void\s+(?:__\w+__\s*\([^)]*\)\s*)*(\w+)\s*\(")
CARD = {
    "index": 0, "name": "Fake GPU", "driver": [13, 0], "by": "fake 1", "major": 9, "minor": 0, "multiprocessors": 132, "shared": 227 << 10, "l2": 1 << 20,
    "clock_khz": 1_000_000, "memory_clock_khz": 2_000_000, "memory_bits": 5120, "ecc": 1, "watchdog": 0,
}  # fmt: skip


class FakeDriver:
    """`cuda_driver.Driver` on the host's memory. `fails`: the driver's code, by method, of calls that fail from now on."""

    name = "fake 1"

    def __init__(self) -> None:
        self.lost = ""
        self.calls: list[tuple[Any, ...]] = []
        self.fails: dict[str, str] = {}
        self.memory_: dict[int, Guarded] = {}
        self.pending = ""

    def _note(self, name: str, *args: Any) -> None:
        self.calls.append((name, *args))
        code = self.lost or self.fails.get(name, "")
        if code:
            self.lost = self.lost or (code if code in FATAL else "")
            raise failure(name, code)

    def version(self) -> tuple[int, int]:
        return 13, 0

    def count(self) -> int:
        return 1

    def card(self, device: int) -> str:
        return str(CARD["name"])

    def attribute(self, device: int, name: str) -> int:
        return {"CLOCK_RATE": 1_000_000}[name]

    def open(self, device: int) -> None:
        self._note("open", device)

    def memory(self) -> tuple[int, int]:
        return 1 << 30, 1 << 30

    def load(self, cubin: bytes) -> HostModule:
        self._note("load", cubin)
        return _module(cubin.decode())

    def unload(self, module: HostModule) -> None:
        self._note("unload")

    def function(self, module: HostModule, name: str) -> Any:
        self._note("function", name)
        return module, name

    def function_attribute(self, function: Any, name: str) -> int:
        return 0

    def allow_shared(self, function: Any, nbytes: int) -> None:
        self._note("allow_shared", function[1], nbytes)

    def bus(self, device: int) -> str:
        return "ffff:ff:ff.f"

    def mapped(self, nbytes: int) -> tuple[int, int]:
        address = self.alloc(nbytes)
        return address, address

    def unmap(self, host: int) -> None:
        self.free(host)

    def bind(
        self, function: Any, groups: int, threads: int, shared: int, words: Sequence[int | bytes], stream: int = 0
    ) -> Callable[[], None]:
        assert stream == 0
        given = tuple(words)
        return lambda: self.launch(function, groups, threads, shared, given)

    def launch(self, function: Any, groups: int, threads: int, shared: int, words: tuple[Any, ...]) -> None:
        """Start a grid, which ends before this returns."""
        module, name = function
        self._note("launch", name, groups, threads, shared, words)
        if FAULT in module.text:
            self.pending = "ILLEGAL_ADDRESS"
        if self.pending:
            return
        try:
            module.launch(name, groups, threads, words, shared)
        except VerifyError:
            self.pending = "ILLEGAL_ADDRESS"  # the GPU tells later

    def alloc(self, nbytes: int) -> int:
        self._note("alloc", nbytes)
        found = Guarded(nbytes, 16)
        self.memory_[found.address] = found
        return found.address

    def free(self, address: int) -> None:
        self._note("free", address)
        self.memory_.pop(address).free()

    def upload(self, address: int, host: int, nbytes: int) -> None:
        self._note("upload", address, nbytes)
        _move(address, host, nbytes)

    def download(self, host: int, address: int, nbytes: int) -> None:
        self._note("download", address, nbytes)
        _move(host, address, nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self._note("copy", to, source, nbytes)
        _move(to, source, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._note("fill", address, byte, nbytes)
        ctypes.memset(address, byte, nbytes)

    def event(self) -> list[float]:
        return []

    def record(self, event: list[float]) -> None:
        self._note("record")
        event.append(time.perf_counter())

    def seconds(self, start: list[float], end: list[float]) -> float:
        return end[0] - start[0]

    def wait(self) -> None:
        code, self.pending = self.pending, ""
        if code:
            self.lost = code
        self._note("wait")


@functools.lru_cache(maxsize=64)
def _module(text: str) -> HostModule:
    return HostModule(text, NAMES.findall(text))


def _move(to: int, source: int, nbytes: int) -> None:
    ctypes.memmove(to, source, nbytes)


class FakeSession(CudaSession):
    """Keeps nobody busy: kernels run in the call that launches them."""

    def build(self, text: str) -> bytes:
        return text.encode()

    def prepare(self) -> None:
        pass

    def _spin(self, number: int, seconds: float) -> None:
        self.driver.calls.append(("hold", seconds))  # type: ignore[attr-defined]
        self._word = self._word or [0] * 4


class FakeCudaDevice(CudaDevice):
    """See the module's text. `log`: what NVRTC said of some text."""

    compares = False

    def __init__(self, log: Callable[[str], str] | None = None) -> None:
        super().__init__()
        self.name = "fake-cuda"
        self._log = log

    @property
    def _card(self) -> dict[str, Any]:  # type: ignore[override]
        return CARD

    def compiler_id(self) -> str:
        return "fake-nvrtc-1"

    def check(self) -> None:
        pass

    def _compile(self, source: SourceLike) -> tuple[bytes, str]:
        names = NAMES.findall(source.text)
        log = "\n".join(f"ptxas info : Compiling entry function '{n}' for 'sm_90a'\nptxas info : Used 32 registers" for n in names)
        return source.text.encode(), self._log(source.text) if self._log else log

    @cached_property
    def driver(self) -> FakeDriver:
        return FakeDriver()

    @cached_property
    def _session(self) -> FakeSession:
        return FakeSession(self.driver, 0, self.target)

    def memory(self) -> CudaMemory:
        """Results are compared on the host: `stub_cuda` compares where they are."""
        found = CudaMemory(self._open())
        found.compares = False
        return found

    def _open(self) -> FakeSession:
        return self._session
