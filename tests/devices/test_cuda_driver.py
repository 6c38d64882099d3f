"""The seam to NVIDIA's driver: what each adapter calls, in which order, with which arguments; and what becomes of failures.

The packages are stand-ins here: no driver is needed, and none would tell what it was asked."""

from __future__ import annotations

import ctypes
import enum
import sys
import threading
import types
from typing import Any

import pytest
from tilewright.devices.cuda import driver as cuda_driver
from tilewright.devices.cuda.driver import CHOICE, Driver, failure, open_driver
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


# cuda-bindings ------------------------------------------------------------------------------------------------------------
def test_bindings_ask_about_gpus_without_a_context(bindings: Bindings) -> None:
    driver = Driver("cuda-bindings")
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
    driver = Driver("cuda-bindings")
    driver.open(0)
    assert bindings.names().count("cuCtxSetCurrent") == 1 and bindings.calls[-1] == ("cuCtxSetCurrent", "context")
    other = threading.Thread(target=driver.open, args=(0,))
    other.start()
    other.join()
    driver.open(0)  # another library may have made another GPU the thread's
    assert bindings.names().count("cuCtxSetCurrent") == 3 and bindings.names().count("cuDevicePrimaryCtxRetain") == 1
    assert driver.memory() == (5, 9)


def test_bindings_load_and_launch(bindings: Bindings) -> None:
    driver = Driver("cuda-bindings")
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
    driver = Driver("cuda-bindings")
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
    driver = Driver("cuda-bindings")
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
        Driver("cuda-bindings")

    def no_library(flags: int) -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    bindings.cuInit = no_library  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match=r"no NVIDIA driver here.*install the driver.*Failed to dlopen"):
        Driver("cuda-bindings")


# choice and failures ------------------------------------------------------------------------------------------------------
@pytest.fixture
def fresh() -> Any:
    open_driver.cache_clear()
    yield
    open_driver.cache_clear()


def test_cuda_bindings_go_first(fresh: None, bindings: Bindings) -> None:
    assert open_driver().name.startswith("cuda-bindings")


def test_the_variable_chooses(fresh: None, bindings: Bindings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cuda_driver.ADAPTERS, "ctypes", lambda: ("ctypes", bindings))
    monkeypatch.setenv(CHOICE, "ctypes")
    assert open_driver().name == "ctypes"
    open_driver.cache_clear()
    monkeypatch.setenv(CHOICE, "cupy")
    with pytest.raises(DeviceError, match="TILEWRIGHT_CUDA_DRIVER=cupy: use one of cuda-bindings, ctypes"):
        open_driver()


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)


def test_without_the_package(fresh: None, no_package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """ctypes needs none; here it finds no driver, whatever this machine has."""
    monkeypatch.setattr("tilewright.devices.cuda.libcuda.LIBRARY", "libcuda-of-nobody.so.1")
    with pytest.raises(DeviceError, match=r"no NVIDIA driver here.*install the driver.*libcuda-of-nobody"):
        open_driver()
    with pytest.raises(DeviceError, match="no NVIDIA driver here"):
        Driver("ctypes")


def test_a_chosen_package_that_is_missing(fresh: None, no_package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "cuda-bindings")
    with pytest.raises(
        DeviceError, match=r"TILEWRIGHT_CUDA_DRIVER=cuda-bindings, which is not installed .*pip install cuda-bindings, or leave"
    ):
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
