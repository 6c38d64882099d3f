"""The seam to NVIDIA's driver: what each adapter calls, in which order, with which arguments; and what becomes of failures.

The packages are stand-ins here: no driver is needed, and none would tell what it was asked."""

from __future__ import annotations

import ctypes
import enum
import struct
import sys
import threading
import types
from typing import Any

import pytest
from tilewright.devices.cuda import driver as cuda_driver
from tilewright.devices.cuda.driver import CHOICE, FATAL, TEXTS, CtypesDriver, Driver, PyCuda, failure, open_driver
from tilewright.ir import BuildError, DeviceError, MeasureError


class Attribute(enum.IntEnum):
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16


class FunctionAttribute(enum.IntEnum):
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class Bindings(types.ModuleType):
    """Stands for cuda.bindings.driver: every function notes its call and gives (status, …)."""

    CUdevice_attribute = Attribute
    CUfunction_attribute = FunctionAttribute

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.calls: list[tuple[Any, ...]] = []
        self.fails: dict[str, int] = {}
        self.results: dict[str, tuple[Any, ...]] = {
            "cuDriverGetVersion": (13020,), "cuDeviceGetCount": (2,), "cuDeviceGet": ("device",), "cuDeviceGetName": (b"Some GPU\0\0\0",),
            "cuDeviceGetAttribute": (132,), "cuDevicePrimaryCtxRetain": ("context",), "cuMemGetInfo": (5, 9), "cuModuleLoadData": ("module",),
            "cuModuleGetFunction": ("function",), "cuFuncGetAttribute": (40,), "cuMemAlloc": (4096,), "cuEventCreate": ("event",), "cuEventElapsedTime": (2.5,),
        }  # fmt: skip
        self.words: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> tuple[Any, ...]:
            if name == "cuGetErrorName":
                return 0, {2: b"CUDA_ERROR_OUT_OF_MEMORY", 100: b"CUDA_ERROR_NO_DEVICE", 719: b"CUDA_ERROR_LAUNCH_FAILED"}[args[0]]
            if name == "cuGetErrorString":
                return 0, {2: b"out of memory", 100: b"no CUDA-capable device is detected", 719: b"unspecified launch failure"}[args[0]]
            self.calls.append((name, *args))
            if name == "cuLaunchKernel":  # read the arguments as the driver does, during the call
                places = ctypes.cast(args[9], ctypes.POINTER(ctypes.c_void_p))
                self.words = [ctypes.c_int64.from_address(places[i] or 0).value for i in range(2)]
            return self.fails.get(name, 0), *self.results.get(name, ())

        return call

    def names(self) -> list[str]:
        return [c[0] for c in self.calls]


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Bindings:
    package, api = types.ModuleType("cuda.bindings"), Bindings()
    package.__version__ = "13.0.3"  # type: ignore[attr-defined]
    for name, module in (("cuda", types.ModuleType("cuda")), ("cuda.bindings", package), ("cuda.bindings.driver", api)):
        monkeypatch.setitem(sys.modules, name, module)
    return api


class PyCudaError(Exception):
    pass


class PyCudaMemoryError(PyCudaError):
    pass


class Api(types.ModuleType):
    """Stands for pycuda.driver."""

    Error, MemoryError = PyCudaError, PyCudaMemoryError
    device_attribute = types.SimpleNamespace(MULTIPROCESSOR_COUNT="attribute 16")
    function_attribute = types.SimpleNamespace(NUM_REGS="attribute 4", MAX_DYNAMIC_SHARED_SIZE_BYTES="attribute 8")

    def __init__(self) -> None:
        super().__init__("pycuda.driver")
        self.calls: list[tuple[Any, ...]] = []
        self.fails: dict[str, PyCudaError] = {}
        note = self._note
        api = self

        class Device:
            def __init__(self, i: int) -> None:
                note("Device", i)

            count = staticmethod(lambda: 2)

            def name(self) -> str:
                return "Some GPU"

            def get_attribute(self, which: str) -> int:
                note("get_attribute", which)
                return 132

            def retain_primary_context(self) -> Any:
                note("retain_primary_context")
                return types.SimpleNamespace(push=lambda: note("push"), pop=lambda: note("pop"))

        class Function:
            def _launch_kernel(self, grid: Any, block: Any, raw: bytes, shared: int, stream: None) -> None:
                note("_launch_kernel", grid, block, struct.unpack(f"{len(raw) // 8}q", raw), shared, stream)

            def get_attribute(self, which: str) -> int:
                note("get_attribute", which)
                return 40

            def set_attribute(self, which: str, value: int) -> None:
                note("set_attribute", which, value)

        class Event:
            def __init__(self) -> None:
                note("Event")

            def record(self) -> None:
                note("record")

            def time_since(self, other: Event) -> float:
                note("time_since", other)
                return 2.5

        class Allocation:
            def __int__(self) -> int:
                return 4096

            def free(self) -> None:
                note("free")

        def mem_alloc(n: int) -> Allocation:
            note("mem_alloc", n)
            return Allocation()

        def module_from_buffer(code: bytes) -> Any:
            note("module_from_buffer", code)
            return types.SimpleNamespace(get_function=lambda name: (note("get_function", name), Function())[1])

        def memcpy_dtoh(to: Any, address: int) -> None:
            note("memcpy_dtoh", len(to), address)
            to[:] = b"\7" * len(to)

        self.Device, self.Event, self.mem_alloc, self.module_from_buffer, self.memcpy_dtoh = (
            Device,
            Event,
            mem_alloc,
            module_from_buffer,
            memcpy_dtoh,
        )
        self.memcpy_htod = lambda address, source: note("memcpy_htod", address, bytes(source))
        self.memset_d8 = lambda *args: note("memset_d8", *args)
        self.Context = types.SimpleNamespace(synchronize=lambda: note("synchronize"))
        self.init = lambda: note("init")
        self.get_driver_version = lambda: 13020
        self.mem_get_info = lambda: (5, 9)
        api.__file__ = "somewhere"

    def _note(self, name: str, *args: Any) -> None:
        self.calls.append((name, *args))
        if name in self.fails:
            raise self.fails[name]

    def names(self) -> list[str]:
        return [c[0] for c in self.calls]


@pytest.fixture
def pycuda(monkeypatch: pytest.MonkeyPatch) -> Api:
    package, api = types.ModuleType("pycuda"), Api()
    package.VERSION_TEXT = "2026.1"  # type: ignore[attr-defined]
    for name, module in (("pycuda", package), ("pycuda.driver", api)):
        monkeypatch.setitem(sys.modules, name, module)
    return api


# cuda-bindings ------------------------------------------------------------------------------------------------------------
def test_bindings_ask_about_gpus_without_a_context(bindings: Bindings) -> None:
    driver = Driver()
    assert driver.name == "cuda-bindings 13.0.3" and driver.version() == (13, 2) and driver.count() == 2
    assert driver.card(1) == "Some GPU" and driver.attribute(1, "MULTIPROCESSOR_COUNT") == 132
    assert bindings.calls[0] == ("cuInit", 0)
    assert ("cuDeviceGet", 1) in bindings.calls and (
        "cuDeviceGetAttribute",
        Attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        "device",
    ) in bindings.calls
    assert "cuDevicePrimaryCtxRetain" not in bindings.names()


def test_bindings_retain_once_and_make_the_gpu_the_threads_each_time(bindings: Bindings) -> None:
    driver = Driver()
    driver.open(0)
    assert bindings.names().count("cuCtxSetCurrent") == 1 and bindings.calls[-1] == ("cuCtxSetCurrent", "context")
    other = threading.Thread(target=driver.open, args=(0,))
    other.start()
    other.join()
    driver.open(0)  # another library may have made another GPU the thread's
    assert bindings.names().count("cuCtxSetCurrent") == 3 and bindings.names().count("cuDevicePrimaryCtxRetain") == 1
    assert driver.memory() == (5, 9)


def test_bindings_load_and_launch(bindings: Bindings) -> None:
    driver = Driver()
    module = driver.load(b"\x7fELF")
    function = driver.function(module, "k_p0")
    driver.allow_shared(function, 100_000)
    assert driver.function_attribute(function, "NUM_REGS") == 40
    start = driver.bind(function, 7, 128, 100_000, (1 << 40, -3))
    assert bindings.names()[-1] == "cuFuncGetAttribute"
    start()
    assert bindings.words == [1 << 40, -3]
    launch = bindings.calls[-1]
    start()
    assert bindings.calls[-1] == launch and bindings.words == [1 << 40, -3]
    assert launch[:9] == ("cuLaunchKernel", "function", 7, 1, 1, 128, 1, 1, 100_000) and launch[9] == 0 and launch[11:] == (0,)
    driver.unload(module)
    assert bindings.calls[1:5] == [
        ("cuModuleLoadData", b"\x7fELF"),
        ("cuModuleGetFunction", "module", b"k_p0"),
        ("cuFuncSetAttribute", "function", FunctionAttribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100_000),
        ("cuFuncGetAttribute", FunctionAttribute.CU_FUNC_ATTRIBUTE_NUM_REGS, "function"),
    ]
    assert bindings.calls[-1] == ("cuModuleUnload", "module")


def test_bindings_memory_and_events(bindings: Bindings) -> None:
    driver = Driver()
    address = driver.alloc(100)
    driver.upload(address, 1234, 10)
    driver.download(1234, address + 4, 6)
    driver.fill(address, 0xFF, 100)
    driver.free(address)
    start, end = driver.event(), driver.event()
    driver.record(start)
    driver.record(end)
    driver.wait()
    assert driver.seconds(start, end) == pytest.approx(2.5e-3)
    assert bindings.calls[1:] == [
        ("cuMemAlloc", 100), ("cuMemcpyHtoD", 4096, 1234, 10), ("cuMemcpyDtoH", 1234, 4100, 6), ("cuMemsetD8", 4096, 0xFF, 100), ("cuMemFree", 4096),
        ("cuEventCreate", 0), ("cuEventCreate", 0), ("cuEventRecord", "event", 0), ("cuEventRecord", "event", 0), ("cuCtxSynchronize",),
        ("cuEventElapsedTime", "event", "event"),
    ]  # fmt: skip
    del start, end
    assert bindings.names()[-2:] == ["cuEventDestroy", "cuEventDestroy"]


def test_bindings_failures(bindings: Bindings) -> None:
    driver = Driver()
    bindings.fails["cuMemAlloc"] = 2
    with pytest.raises(MeasureError, match=r"cuMemAlloc failed: out of memory \(OUT_OF_MEMORY\).*smaller shape"):
        driver.alloc(1 << 60)
    assert not driver.lost
    bindings.fails["cuCtxSynchronize"] = 719
    with pytest.raises(MeasureError, match=r"unspecified launch failure.*in a new one"):
        driver.wait()
    assert driver.lost == "cuCtxSynchronize: unspecified launch failure"


def test_bindings_without_a_gpu_or_a_driver(bindings: Bindings) -> None:
    bindings.fails["cuInit"] = 100
    with pytest.raises(DeviceError, match=r"no CUDA-capable device.*CUDA_VISIBLE_DEVICES"):
        Driver()

    def no_library(flags: int) -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    bindings.cuInit = no_library  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match=r"no NVIDIA driver here.*install the driver.*Failed to dlopen"):
        Driver()


# pycuda -------------------------------------------------------------------------------------------------------------------
def test_pycuda_asks_about_gpus_without_a_context(pycuda: Api) -> None:
    driver = PyCuda()
    assert driver.name == "pycuda 2026.1" and driver.version() == (13, 2) and driver.count() == 2
    assert driver.card(1) == "Some GPU" and driver.attribute(1, "MULTIPROCESSOR_COUNT") == 132 and driver.memory() == (5, 9)
    assert pycuda.calls == [("init",), ("Device", 1), ("Device", 1), ("get_attribute", "attribute 16")]


def test_pycuda_takes_its_context_off_the_stack_of_every_thread(pycuda: Api) -> None:
    """It would abort the process otherwise."""
    driver = PyCuda()
    driver.open(0)
    driver.open(0)
    assert pycuda.names()[1:] == ["Device", "retain_primary_context", "push"]
    other = threading.Thread(target=driver.open, args=(0,))
    other.start()
    other.join()
    assert pycuda.names()[4:] == ["push", "pop"]
    driver._thread.pushed.pop()
    driver._thread.pushed.pop()
    assert pycuda.names()[6:] == ["pop"]


def test_pycuda_loads_and_launches(pycuda: Api) -> None:
    driver = PyCuda()
    module = driver.load(b"\x7fELF")
    function = driver.function(module, "k_p0")
    driver.allow_shared(function, 100_000)
    assert driver.function_attribute(function, "NUM_REGS") == 40
    start = driver.bind(function, 7, 128, 100_000, (1 << 40, -3))
    start()
    start()
    launch = ("_launch_kernel", (7, 1, 1), (128, 1, 1), (1 << 40, -3), 100_000, None)
    assert pycuda.calls[1:] == [
        ("module_from_buffer", b"\x7fELF"), ("get_function", "k_p0"), ("set_attribute", "attribute 8", 100_000), ("get_attribute", "attribute 4"),
        launch, launch,
    ]  # fmt: skip


def test_pycuda_memory_and_events(pycuda: Api) -> None:
    driver = PyCuda()
    host = (ctypes.c_char * 8)(*b"abcdefgh")
    at = ctypes.addressof(host)
    address = driver.alloc(100)
    driver.upload(address, at + 2, 4)
    driver.download(at, address + 4, 3)
    assert host.raw == b"\7\7\7defgh"
    driver.fill(address, 0xFF, 100)
    driver.free(address)
    start, end = driver.event(), driver.event()
    driver.record(start)
    driver.wait()
    assert driver.seconds(start, end) == pytest.approx(2.5e-3)
    assert pycuda.calls[1:] == [
        ("mem_alloc", 100), ("memcpy_htod", 4096, b"cdef"), ("memcpy_dtoh", 3, 4100), ("memset_d8", 4096, 0xFF, 100), ("free",),
        ("Event",), ("Event",), ("record",), ("synchronize",), ("time_since", start),
    ]  # fmt: skip


def test_pycuda_failures(pycuda: Api) -> None:
    driver = PyCuda()
    pycuda.fails["mem_alloc"] = PyCudaMemoryError("cuMemAlloc failed: out of memory")
    with pytest.raises(MeasureError, match=r"out of memory \(OUT_OF_MEMORY\)"):
        driver.alloc(1)
    pycuda.fails["module_from_buffer"] = PyCudaError(
        "cuModuleLoadDataEx failed: no kernel image is available for execution on the device - log"
    )
    with pytest.raises(DeviceError, match="update the driver"):
        driver.load(b"")
    assert not driver.lost
    pycuda.fails["synchronize"] = PyCudaError("cuCtxSynchronize failed: an illegal memory access was encountered")
    with pytest.raises(MeasureError, match=r"ILLEGAL_ADDRESS.*in a new one"):
        driver.wait()
    assert "illegal memory access" in driver.lost


def test_pycuda_without_a_driver(pycuda: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pycuda.driver")

    class Finder:
        def find_spec(self, name: str, path: Any, target: Any = None) -> None:
            if name == "pycuda.driver":
                raise ImportError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    sys.modules["pycuda"].__path__ = []
    with pytest.raises(DeviceError, match=r"no NVIDIA driver here.*cannot open shared object"):
        PyCuda()


# choice and failures ------------------------------------------------------------------------------------------------------
@pytest.fixture
def fresh() -> Any:
    open_driver.cache_clear()
    yield
    open_driver.cache_clear()


def test_cuda_bindings_go_first(fresh: None, bindings: Bindings, pycuda: Api) -> None:
    assert open_driver().name.startswith("cuda-bindings") and not pycuda.calls


def test_pycuda_goes_second(fresh: None, pycuda: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)
    assert open_driver().name.startswith("pycuda")


def test_the_variable_chooses(fresh: None, bindings: Bindings, pycuda: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "pycuda")
    assert open_driver().name.startswith("pycuda") and not bindings.calls
    open_driver.cache_clear()
    monkeypatch.setenv(CHOICE, "cupy")
    with pytest.raises(DeviceError, match="TILEWRIGHT_CUDA_DRIVER=cupy: use one of cuda-bindings, pycuda, ctypes"):
        open_driver()


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pycuda", "cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)


def test_without_either_package(fresh: None, no_package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """ctypes needs neither; here it finds no driver, whatever this machine has."""
    monkeypatch.setattr("tilewright.devices.cuda.libcuda.LIBRARY", "libcuda-of-nobody.so.1")
    with pytest.raises(DeviceError, match=r"no NVIDIA driver here.*install the driver.*libcuda-of-nobody"):
        open_driver()
    with pytest.raises(DeviceError, match="no NVIDIA driver here"):
        CtypesDriver()


def test_a_chosen_package_that_is_missing(fresh: None, no_package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "pycuda")
    with pytest.raises(DeviceError, match=r"TILEWRIGHT_CUDA_DRIVER=pycuda, which is not installed .*pip install pycuda, or leave"):
        open_driver()


@pytest.mark.parametrize(
    "code, kind, fix",
    [
        ("NO_DEVICE", DeviceError, "--gpus all"),
        ("SYSTEM_DRIVER_MISMATCH", DeviceError, "restarted"),
        ("UNSUPPORTED_PTX_VERSION", DeviceError, "update the driver"),
        ("NO_BINARY_FOR_GPU", DeviceError, "update the driver"),
        ("OUT_OF_MEMORY", MeasureError, "smaller shape"),
        ("LAUNCH_OUT_OF_RESOURCES", BuildError, "fewer registers"),
        ("ILLEGAL_ADDRESS", MeasureError, "new one"),
        ("SOMETHING_NEW", MeasureError, "nvidia-smi"),
    ],
)
def test_a_failure_is_an_error_of_ours_with_the_fix(code: str, kind: type[Exception], fix: str) -> None:
    error = failure("cuSomething", code)
    assert type(error) is kind and fix in str(error) and "cuSomething failed" in str(error)


def test_sentences_lead_to_known_codes() -> None:
    known = {*FATAL, *cuda_driver._DEVICE, *cuda_driver._CANDIDATE, "OUT_OF_MEMORY"}
    assert set(TEXTS.values()) <= known
    for text, code in TEXTS.items():
        assert type(failure("f", "", text)) is type(failure("f", code))
