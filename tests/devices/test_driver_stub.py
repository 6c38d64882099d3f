"""The real driver packages over a stub `libcuda.so.1`: what stand-ins of the packages cannot show, a wrong argument.

Each script is a process of its own, as the library is found by a variable that a process reads when it starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stub_cuda import has, needs_stub, run
from tilewright.devices.cuda import libcuda
from tilewright.devices.cuda.driver import CHOICE
from tilewright.devices.cuda.libcuda import _FILL_ZEROS, _NO_INTERLEAVE, _PROMOTE_256, DTYPES, SWIZZLES

pytestmark = [needs_stub, pytest.mark.slow]
ADAPTERS = [
    pytest.param(
        "cuda-bindings",
        marks=pytest.mark.skipif(not has("cuda.bindings"), reason="cuda-bindings is not installed: pip install cuda-bindings"),
    ),
    pytest.param(
        "pycuda", marks=pytest.mark.skipif(not has("pycuda"), reason="pycuda is not installed; it has to be compiled with CUDA's headers")
    ),
    "ctypes",
]
START = """
import ctypes, sys
import numpy as np
from stub_cuda import image
from tilewright.devices.cuda.driver import open_driver
from tilewright.ir import BuildError, DeviceError, MeasureError
TEXT = '''extern "C" __global__ void add_p0(const float* a, float* b, long long n, long long by) {
    const long long i = blockIdx.x * 32ll + threadIdx.x;
    if (i < n) b[i] = a[i] + (float)by;
}
extern "C" __global__ void fault_p0(float* b) { b[1ll << 40] = 1.0f; }'''
def refused(kind, text, call):
    try:
        call()
    except kind as e:
        assert text in str(e), e
    else:
        raise AssertionError(f"nothing was said of {text}")
d = open_driver()
"""


def passes(script: str, **settings: str) -> str:
    done = run(START + script, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_call_goes_through_the_package(adapter: str, tmp_path: object) -> None:
    log = f"{tmp_path}/log"
    passes(
        f"assert d.name.startswith({adapter!r}), d.name"
        + """
assert d.version() == (13, 0) and d.count() == 2 and (d.card(0), d.card(1)) == ("Stub H200", "Stub A100")
assert d.bus(1) == "0000:02:00.0" and d.attribute(0, "MULTIPROCESSOR_COUNT") == 132 and d.attribute(1, "COMPUTE_CAPABILITY_MAJOR") == 8
d.open(0)
d.open(0)
assert d.memory() == (1 << 30, 2 << 30)
m = d.load(image(TEXT))
f = d.function(m, "add_p0")
assert d.function_attribute(f, "NUM_REGS") == 32
d.allow_shared(f, 100_000)
a, b = d.alloc(4096), d.alloc(4096)
assert a % 256 == b % 256 == 0
x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
d.upload(a, x.ctypes.data, 4096)
d.fill(b, 0xFF, 4096)
before, after = d.event(), d.event()
d.record(before)
start = d.bind(f, 32, 32, 100_000, (a, b, 1000, -3))
start()
d.record(after)
d.wait()
assert 0 < d.seconds(before, after) < 60
d.download(y.ctypes.data, b, 4096)
assert (y[:1000] == x[:1000] - 3).all() and np.isnan(y[1000:]).all()
d.copy(a, b + 400, 40)
start()
d.download(y.ctypes.data, b, 4096)
assert (y[:10] == x[100:110] - 6).all()
host, device = d.mapped(64)
ctypes.c_int64.from_address(host).value = 7
d.unmap(host)
d.free(a)
refused(BuildError, "cuLaunchKernel failed: invalid argument", d.bind(f, 1, 2000, 0, (1, 2, 3, 4)))
refused(BuildError, "cuLaunchKernel failed: invalid argument", d.bind(f, 1, 32, 200_000, (1, 2, 3, 4)))
refused(BuildError, "named symbol not found", lambda: d.function(m, "missing"))
refused(BuildError, "invalid argument", lambda: d.allow_shared(f, 300_000))
refused(DeviceError, "device kernel image is invalid", lambda: d.load(b"no elf at all"))
refused(MeasureError, "out of memory", lambda: d.alloc(200 << 30))
assert not d.lost
import threading
def other():
    d.open(0)
    assert d.memory()[1] == 2 << 30
    done.append(1)
done = []
t = threading.Thread(target=other)
t.start()
t.join()
assert done
fault = d.bind(d.function(m, "fault_p0"), 1, 1, 0, (b,))
fault()
refused(MeasureError, "an illegal memory access was encountered", d.wait)
assert "illegal memory access" in d.lost
refused(MeasureError, "illegal memory access", d.memory)
""",
        STUB_COUNT="2",
        STUB_LOG=log,
        **{CHOICE: adapter},
    )
    said = Path(log).read_text()
    assert "deprecated" not in said and "no context" not in said and "is not known" not in said
    assert said.count("cuLaunchKernel add_p0 32 x 32, 100000 bytes, 4 words") == 2 and said.count("cuDevicePrimaryCtxRetain 0") == 1


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_failures_at_once(adapter: str) -> None:
    """A card that another process has to itself; no GPU; a watchdog's timeout, which is for ever."""
    for code, text in (("100", "no NVIDIA GPU is visible"), ("46", "in exclusive use by another process")):
        call = "cuDevicePrimaryCtxRetain" if code == "46" else "cuInit"
        done = run(START + "d.open(0)", STUB_FAIL=f"{call}={code}", **{CHOICE: adapter})
        assert done.returncode and text in done.stderr.splitlines()[-1], done.stderr
    passes(
        "d.open(0)\nrefused(MeasureError, 'the launch timed out', d.wait)\nassert d.lost",
        STUB_FAIL="cuCtxSynchronize=702",
        **{CHOICE: adapter},
    )


def test_no_driver_at_all() -> None:
    """In this process there is none, or the machine has a GPU."""
    done = run(START, LD_LIBRARY_PATH="", **{CHOICE: "ctypes"})
    if done.returncode:
        assert "there is no NVIDIA driver here (libcuda.so.1 does not load)" in done.stderr


@pytest.mark.skipif(not has("cuda.bindings"), reason="cuda-bindings is not installed: pip install cuda-bindings")
def test_our_numbers_are_the_packages() -> None:
    numbers = json.dumps(
        {
            "CUdevice_attribute": {f"CU_DEVICE_ATTRIBUTE_{n}": v for n, v in libcuda.DEVICE_ATTRIBUTES.items()},
            "CUfunction_attribute": {f"CU_FUNC_ATTRIBUTE_{n}": v for n, v in libcuda.FUNCTION_ATTRIBUTES.items()},
            "CUtensorMapDataType": {
                f"CU_TENSOR_MAP_DATA_TYPE_{n.upper()}": v for n, v in DTYPES.items() if n not in ("int8", "bool", "int16")
            },
            "CUtensorMapSwizzle": {f"CU_TENSOR_MAP_SWIZZLE_{f'{n}B' if n else 'NONE'}": v for n, v in SWIZZLES.items()},
            "CUtensorMapInterleave": {"CU_TENSOR_MAP_INTERLEAVE_NONE": _NO_INTERLEAVE},
            "CUtensorMapL2promotion": {"CU_TENSOR_MAP_L2_PROMOTION_L2_256B": _PROMOTE_256},
            "CUtensorMapFloatOOBfill": {"CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE": _FILL_ZEROS},
        }
    )
    passes(
        """
import json
from pathlib import Path
import cuda.bindings.driver as real
for kind, names in json.loads(sys.argv[1]).items():
    for name, number in names.items():
        assert int(getattr(getattr(real, kind), name)) == number, name
from tilewright.devices.cuda.driver import _MAPPED, _PORTABLE
from tilewright.devices.cuda.libcuda import CALLS
assert (real.CU_MEMHOSTALLOC_DEVICEMAP, real.CU_MEMHOSTALLOC_PORTABLE) == (_MAPPED, _PORTABLE)
assert all(hasattr(real, name) for name in CALLS)
""".replace("sys.argv[1]", repr(numbers))
    )


def test_a_hold_is_released_when_all_is_queued() -> None:
    """On the stub kernels run beside this program, as on a GPU: nothing queued starts before the release, and calls of 50 µs that
    are queued slowly take 50 µs."""
    passes("""
import time
from stub_cuda import StubSession
from tilewright.devices.cuda.executable import timed
from tilewright.targets import named
s = StubSession(d, 0, named("sm_90a"))
SLEEP = '''extern "C" __global__ void sleep_p0(long long* out, long long cycles) {
    const long long start = clock64();
    *out = start;
    while (clock64() - start < cycles) {}
}'''
out, f = d.alloc(64), s.kernel(SLEEP, "sleep_p0")
with s.held():
    d.bind(f, 1, 1, 0, (out, 1000))()
    time.sleep(0.05)
    released = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
s.wait()
assert s.complete()
got = np.zeros(1, np.int64)
d.download(got.ctypes.data, out, 8)
assert got[0] >= released, (got[0], released)
s.hold_clock()
assert 990 <= s.clocks["sm_mhz_held"] <= 1010  # a cycle is a nanosecond there
start = d.bind(f, 1, 1, 0, (out, 50_000))
def queue(pointers):
    time.sleep(1e-3)
    start()
times = timed(s, queue, 1, [(out,)], 8)
assert len(times) == 8 and min(times) < 5e-4, times
assert s.clocks["throttle"] == ["power cap"] and (s.clocks["sm_mhz"], s.clocks["memory_mhz"], s.clocks["power_w"]) == (1755, 3201, 512.3)
""")


def test_a_hold_ends_without_its_program() -> None:
    passes("""
from stub_cuda import StubSession
from tilewright.devices.cuda import session
from tilewright.targets import named
session.HOLD_S = 0.01
s = StubSession(d, 0, named("sm_90a"))
s._spin(session._NEVER, session.HOLD_S)
s.wait()
assert not s.complete() and s._word[1] >= 1e7
""")


def test_tensor_maps_are_encoded() -> None:
    passes("""
from tilewright.devices.cuda.libcuda import encode, for_host
from tilewright.ir.dtypes import bfloat16
from tilewright.program.hopper import TensorMap, numbers
m = numbers(TensorMap(0, bfloat16, (100, 60), (128,), (64, 32), 128, 8), "a", {})
a = 1 << 20
assert encode(m, a) == for_host(m, a)  # the stub makes of the driver's arguments what our model of the copy engine reads
refused(BuildError, "the driver refuses a tensor map", lambda: encode(m, a + 4))
refused(BuildError, "TMA cannot address a: a pitch of 60 bytes is no multiple of 16", lambda: numbers(TensorMap(0, bfloat16, (100, 60), (30,), (64, 32)), "a", {}))
""")


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_maps_and_clusters_go_through_the_driver(adapter: str) -> None:
    """A whole kernel of Hopper's units: maps before the words, dynamic shared memory at 1024, groups in clusters by a plain launch."""
    passes(
        """
from hopper_programs import Gemm, gemm, operands, worst
from stub_cuda import StubCudaDevice
from tilewright.renderers import render
device = StubCudaDevice()
memory = device.memory()
for g in (Gemm(72, 136, 136), Gemm(200, 128, 192, columns=128, cluster=2, b_along="n")):
    source = render(gemm(g), device.target)
    exe = device.load(device.build(source), source.signature, 1)
    arrays = operands(g)
    handles = [memory.alloc(x.nbytes) for x in arrays]
    for h, x in zip(handles, arrays):
        memory.write(h, x.ctypes.data, x.nbytes)
    exe.run(handles)
    memory.read(handles[2], arrays[2].ctypes.data, arrays[2].nbytes)
    assert worst(g, *arrays) < 1e-6, g
    exe.close()
""",
        **{CHOICE: adapter},
    )


def test_two_gpus_have_targets_and_keys_of_their_own() -> None:
    passes(
        """
from tilewright import devices
first, second = devices.get("cuda:0"), devices.get("cuda:1")
assert (first.target.cpu, second.target.cpu) == ("sm_90a", "sm_80") and first.target.key != second.target.key
assert first.target.bandwidth == 2 * 3.201e9 * 768 and first.target.clock == 1e9
assert {"sm80", "sm90a"} <= first.target.features and "sm90a" not in second.target.features
assert first.target.cores == 132 and second.target.cores == 108 and second.target.l2 == 40 << 20
assert first.fingerprint()["cpu"] == "Stub H200" and second.fingerprint()["cpu"] == "Stub A100"
refused(DeviceError, "there is no GPU number 2: use one of cuda:0: Stub H200; cuda:1: Stub A100", lambda: devices.get("cuda:2").target)
""",
        STUB_COUNT="2",
    )


def test_a_driver_that_is_too_old_says_what_to_install() -> None:
    passes(
        """
from tilewright import devices
refused(DeviceError, "supports CUDA 12.4 and cannot load what nvrtc-13.0 builds: update the driver, or pip install nvidia-cuda-nvrtc-cu12",
        devices.get("cuda").check)
""",
        STUB_VERSION="12040",
    )
