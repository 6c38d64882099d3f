"""The cuda device: built for real where NVRTC is, run on a driver of the host's memory."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_build import ARCHITECTURES, needs_cxx, needs_nvrtc
from fake_cuda import CARD, FAULT, FakeCudaDevice
from tilewright import devices
from tilewright.devices import BoundCall
from tilewright.devices.base import unsealed
from tilewright.devices.cuda import device as cuda
from tilewright.devices.cuda import executable as cuda_timing
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda import session as cuda_session
from tilewright.devices.cuda.device import CudaDevice, veto
from tilewright.devices.cuda.host import Guarded, HostModule
from tilewright.files.child_process import ChildAnswer
from tilewright.ir import BuildError, DeviceError, MeasureError, UsageError
from tilewright.ir.dtypes import float32
from tilewright.ir.node import const, sym
from tilewright.plan import Replay
from tilewright.program.hopper import TensorMap
from tilewright.program.program import Param, Signature
from tilewright.renderers import Source
from tilewright.targets import Target, named

N = sym("n", 1, 1000)
TEXT = """
extern "C" __global__ void __launch_bounds__(32) add_p0(const float* p_a, float* p_b, float* work, long long s_n) {
    long long i = blockIdx.x * 32 + threadIdx.x;
    if (i < s_n) work[i] = p_a[i] + 1.0f;
}
extern "C" __global__ void __launch_bounds__(32) add_p1(const float* p_a, float* p_b, float* work, long long s_n) {
    long long i = blockIdx.x * 32 + threadIdx.x;
    if (i < s_n) p_b[i] = work[i] * 2.0f;
}
"""


def signature(**changed: Any) -> Signature:
    params = (Param("a", float32, (N,), "in"), Param("b", float32, (N,), "out"))
    groups = const(4)
    return Signature(
        **{**dict(name="add", params=params, symbols=("n",), items=(groups, groups), scratch=0, work=4096, threads=(32, 32)), **changed}
    )


def source(text: str = TEXT, target: Target | None = None, **changed: Any) -> Source:
    return Source(text, "cuda", target or named("sm_90a"), signature(**changed))


# building -----------------------------------------------------------------------------------------------------------------
@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_building_needs_no_gpu(arch: str) -> None:
    obj = CudaDevice().build(source(target=named(arch)))
    head, code = unsealed("cuda object", "the cuda device", obj)
    assert head["arch"] == arch and code.startswith(b"\x7fELF")
    assert set(head["takes"]) == {"add_p0", "add_p1"} and all(0 < t[0] <= 64 and t[1:] == [0, 0, 0] for t in head["takes"].values())


def test_only_cuda_text() -> None:
    with pytest.raises(BuildError, match="builds cuda, not llvm"):
        CudaDevice().build(Source("", "llvm", named("avx2"), signature()))


@needs_nvrtc
def test_a_kernel_that_spills_is_refused_with_the_figures() -> None:
    text = """
    extern "C" __global__ void __launch_bounds__(1024, 2) heavy_p0(const float* a, float* b) {
        float x[160];
    #pragma unroll
        for (int i = 0; i < 160; i++) x[i] = a[threadIdx.x + i * 1024];
        __syncthreads();
    #pragma unroll
        for (int i = 0; i < 160; i++) b[threadIdx.x + i * 1024] = x[i] * x[159 - i];
    }"""
    params = (Param("a", float32, (1,), "in"), Param("b", float32, (1,), "out"))
    heavy = Source(text, "cuda", named("sm_80"), Signature("heavy", params, (), (const(1),), 0, 0, (1024,)))
    with pytest.raises(
        BuildError, match=r"heavy_p0 spills \d{3} bytes of registers a thread to memory \(above 256; 32 registers, \d+ bytes of stack\)"
    ):
        CudaDevice().build(heavy)


@pytest.mark.parametrize(
    "threads, takes, what",
    [
        (1025, nvrtc.Resources(16, 0, 0, 0, 0), "groups of 1025 threads .* at most 1024"),
        (1024, nvrtc.Resources(65, 0, 0, 0, 0), "65 registers for each of 1024 threads .* 65536"),
        (1000, nvrtc.Resources(65, 0, 0, 0, 0), "65 registers for each of 1000 threads"),  # whole warps count
        (32, nvrtc.Resources(256, 0, 0, 0, 0), "256 registers"),
        (32, nvrtc.Resources(40, 260, 0, 300, 0), "spills 260 bytes .*300 bytes of stack.*GRID"),
        (32, nvrtc.Resources(40, 0, 0, 0, 300_000), "300000 bytes of shared memory and sm_90a has 232448"),
        (32, None, "no kernel of that name"),
    ],
)
def test_what_cannot_be_launched_does_not_build(threads: int, takes: nvrtc.Resources | None, what: str) -> None:
    with pytest.raises(BuildError, match=what):
        veto(signature(threads=(threads, 1)), 0, named("sm_90a"), takes)


def test_what_can_be_launched_builds() -> None:
    veto(signature(threads=(1024, 1)), 0, named("sm_90a"), nvrtc.Resources(64, 256, 400, 16 << 10, 48 << 10))
    veto(signature(threads=(256, 1)), 0, named("sm_90a"), nvrtc.Resources(255, 0, 0, 0, 0))


def test_more_shared_memory_than_the_target_has() -> None:
    with pytest.raises(BuildError, match="wants 200000 bytes of shared memory and sm_80 has 166912"):
        CudaDevice().build(source(target=named("sm_80"), shared=200_000))


@pytest.mark.parametrize(
    "arch, pitch, why",
    [
        ("sm_80", 64, "copies by TMA or runs in clusters, and sm_80 has neither"),
        ("sm_90a", 30, "TMA cannot address a: a pitch of 120 bytes"),
    ],
)
def test_what_the_gpu_lacks_is_refused_before_it_is_compiled(arch: str, pitch: int, why: str) -> None:
    mapped = TensorMap(0, float32, (60, 60), (pitch,), (32, 32))
    plain = tuple(Param(n, float32, (60 * 64,), role) for n, role in (("a", "in"), ("b", "out")))
    text = Source("no CUDA at all", "cuda", named(arch), signature(params=plain, symbols=(), maps=(mapped,)))
    with pytest.raises(BuildError, match=why):
        CudaDevice().build(text)


@pytest.mark.parametrize(
    "built, here, runs",
    [("sm_80", "sm_80", True), ("sm_80", "sm_86", True), ("sm_86", "sm_80", False), ("sm_80", "sm_90a", False), ("sm_90a", "sm_90a", True), ("sm_90a", "sm_100a", False),
     ("sm_90", "sm_90a", True)],
)  # fmt: skip
def test_where_code_runs(built: str, here: str, runs: bool) -> None:
    assert cuda._runs(built, here) == runs


# finding ------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What the process that asks for GPUs would print; how often it was started."""
    answers: list[Any] = []
    monkeypatch.delenv(cuda.VARIABLE, raising=False)
    started = types.SimpleNamespace(answer=lambda limit_s: answers[0])
    monkeypatch.setattr(cuda, "ChildProcess", lambda *a: answers.append(a) or started)
    yield answers
    cuda.forget()


def reply(text: str, code: int = 0, err: str = "", late: bool = False) -> ChildAnswer:
    return ChildAnswer(text.encode(), err.encode(), code, late)


def test_gpus_are_asked_for_once_and_handed_down(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked.append(reply("noise\n" + json.dumps({"devices": [CARD, {**CARD, "name": "Other", "major": 8}]})))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    first, second = CudaDevice(), CudaDevice("1")
    assert (first.target.cpu, second.target.cpu) == ("sm_90a", "sm_80") and second.name == "cuda:1"
    assert first.target == named("sm_90a").__class__(
        **{
            **{f: getattr(named("sm_90a"), f) for f in Target.__slots__},
            "l2": 1 << 20,
            "l3": 1 << 20,
            "clock": 1e9,
            "bandwidth": 2 * 2e9 * 5120 / 8,
        }  # two transfers a clock
    )
    assert len(asked) == 2  # the reply, and one start
    assert second.fingerprint()["cpu"] == "Other" and second.fingerprint()["memory_clock_mhz"] == 2000
    with pytest.raises(DeviceError, match=r"no GPU number 2: use one of cuda:0: Fake GPU; cuda:1: Other"):
        _ = CudaDevice("2").target
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    cuda.visible_gpus()
    assert len(asked) == 3


@pytest.mark.parametrize(
    "answer, why",
    [
        (reply(json.dumps({"error": "no NVIDIA GPU is visible: check it"})), "no NVIDIA GPU is visible"),
        (reply("", -6, "some words\nlibcuda aborted"), "ended the process .*libcuda aborted.*nvidia-smi"),
        (reply("", 1), "ended the process .*exit code 1"),
        (reply("", -9, late=True), "did not answer within 60 s"),
    ],
)
def test_without_a_usable_gpu_the_reason_and_the_fix(asked: list[Any], answer: Any, why: str) -> None:
    asked.append(answer)
    with pytest.raises(DeviceError, match=why):
        CudaDevice().check()


def test_asking_describes_every_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    driver = types.SimpleNamespace(
        name="stand-in 1", count=lambda: 2, card=lambda i: f"GPU {i}", version=lambda: (13, 0), attribute=lambda i, name: len(name) + i
    )
    monkeypatch.setattr("tilewright.devices.cuda.driver.open_driver", lambda: driver)
    cuda.main()
    got = json.loads(capsys.readouterr().out)["devices"]
    assert [d["name"] for d in got] == ["GPU 0", "GPU 1"] and got[1]["l2"] == len("L2_CACHE_SIZE") + 1 and got[0]["by"] == "stand-in 1"
    driver.count = lambda: 0
    cuda.main()
    assert "shows no GPU" in json.loads(capsys.readouterr().out)["error"]


@needs_nvrtc
@pytest.mark.parametrize(
    "card, why",
    [
        ({"major": 3, "minor": 5}, "is sm_35, which nvrtc-.* does not compile for: it needs sm_75 or newer"),
        ({"major": 99}, "is sm_990, .* the NVRTC of a newer CUDA"),
        (
            {"driver": [12, 4]},
            r"supports CUDA 12.4 and cannot load what nvrtc-13.0 builds: update the driver, or pip install nvidia-cuda-nvrtc-cu12",
        ),
    ],
)
def test_a_gpu_that_the_compiler_does_not_fit(asked: list[Any], card: dict[str, Any], why: str) -> None:
    asked.append(reply(json.dumps({"devices": [{**CARD, **card}]})))
    with pytest.raises(DeviceError, match=why):
        CudaDevice().check()


def test_names() -> None:
    assert isinstance(devices.get("cuda"), CudaDevice) and devices.get("cuda:3").name == "cuda:3" and "cuda" in devices.names()
    with pytest.raises(DeviceError, match="a GPU is chosen by its number"):
        devices.get("cuda:fast")


# running ------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def device() -> FakeCudaDevice:
    return FakeCudaDevice()


def calls(device: FakeCudaDevice, *names: str) -> list[tuple[Any, ...]]:
    return [c for c in device.driver.calls if c[0] in names]


def upload(device: FakeCudaDevice, a: Any) -> int:
    memory = device.memory()
    handle = memory.alloc(a.nbytes)
    memory.write(handle, a.ctypes.data, a.nbytes)
    return handle


def download(device: FakeCudaDevice, handle: int, n: int) -> Any:
    out = np.zeros(n, np.float32)
    device.memory().read(handle, out.ctypes.data, out.nbytes)
    return out


@needs_cxx
def test_phases_run_in_order_with_workspace_and_symbols(device: FakeCudaDevice) -> None:
    exe = device.load(device.build(source()), signature(), 1)
    a, b = upload(device, np.arange(100, dtype=np.float32)), upload(device, np.zeros(100, np.float32))
    exe.run([a, b], [90])
    got = download(device, b, 100)
    assert (got[:90] == 2 * (np.arange(90) + 1)).all() and (got[90:] == 0).all()
    work = next(c[1] for c in calls(device, "alloc") if c[1] == 4096)
    assert work and [c[:5] for c in calls(device, "launch")] == [("launch", "add_p0", 4, 32, 0), ("launch", "add_p1", 4, 32, 0)]
    assert calls(device, "launch")[0][5][::3] == (a, 90) and device.driver.calls.index(
        calls(device, "wait")[-1]
    ) > device.driver.calls.index(calls(device, "launch")[-1])
    before = len(device.driver.memory_)
    exe.close()
    exe.close()
    assert len(device.driver.memory_) == before - 1 and len(calls(device, "unload")) == 1
    with pytest.raises(UsageError, match="has been closed"):
        exe.run([a, b], [90])


@needs_cxx
def test_poison_fills_what_is_the_executables_own(device: FakeCudaDevice) -> None:
    exe = device.load(device.build(source()), signature(), 1)
    exe.poison()
    assert [c[2:] for c in calls(device, "fill")] == [(0xFF, 4096)]


@needs_cxx
def test_shared_memory_above_48_kib_is_asked_for(device: FakeCudaDevice) -> None:
    text = """extern "C" __global__ void big_p0(float* p_b) {
        extern __shared__ __align__(16) unsigned char shared[];
        ((float*)shared)[threadIdx.x + 20000] = 5.0f;
        __syncthreads();
        p_b[threadIdx.x] = ((float*)shared)[threadIdx.x + 20000];
    }"""
    s = Signature("big", (Param("b", float32, (4,), "out"),), (), (const(1),), 0, 0, (4,), 100_000)
    exe = device.load(device.build(Source(text, "cuda", device.target, s)), s, 1)
    assert calls(device, "allow_shared") == [("allow_shared", "big_p0", 100_000)]
    b = upload(device, np.zeros(4, np.float32))
    exe.run([b])
    assert (download(device, b, 4) == 5).all() and calls(device, "launch")[0][4] == 100_000


@needs_cxx
def test_each_phase_is_launched_with_its_own_shared_memory(device: FakeCudaDevice) -> None:
    text = """extern "C" __global__ void two_p0(float* p_b) {
        extern __shared__ __align__(16) unsigned char shared[];
        ((float*)shared)[threadIdx.x] = 5.0f;
        __syncthreads();
        p_b[threadIdx.x] = ((float*)shared)[threadIdx.x];
    }
    extern "C" __global__ void two_p1(float* p_b) { p_b[threadIdx.x] += 1.0f; }"""
    s = Signature("two", (Param("b", float32, (4,), "out"),), (), (const(1),) * 2, 0, 0, (4, 4), 100_000, phase_shared=(100_000, 0))
    exe = device.load(device.build(Source(text, "cuda", device.target, s)), s, 1)
    assert calls(device, "allow_shared") == [("allow_shared", "two_p0", 100_000)]
    b = upload(device, np.zeros(4, np.float32))
    exe.run([b])
    assert (download(device, b, 4) == 6).all() and [c[4] for c in calls(device, "launch")] == [100_000, 0]


@needs_cxx
def test_the_arena_grows_with_the_grid(device: FakeCudaDevice) -> None:
    text = """extern "C" __global__ void grow_p0(float* p_b, unsigned char* arena, long long s_n) {
        float* mine = (float*)(arena + (blockIdx.x * 32ll + threadIdx.x) * 32768);
        mine[8191] = 2.0f;
        p_b[blockIdx.x] = mine[8191];
    }"""
    s = Signature("grow", (Param("b", float32, (N,), "out"),), ("n",), (N,), 32768, 0, (32,))
    exe = device.load(device.build(Source(text, "cuda", device.target, s)), s, 1)
    b = upload(device, np.zeros(8, np.float32))
    for n in (2, 1, 5):
        exe.run([b], [n])
    assert [c[1] for c in calls(device, "alloc") if c[1] > 1000] == [2 * 32 * 32768, 5 * 32 * 32768]
    assert list(download(device, b, 8)) == [2] * 5 + [0] * 3


@needs_cxx
def test_a_replay_queues_its_kernels_and_waits_once(device: FakeCudaDevice) -> None:
    exe = device.load(device.build(source()), signature(), 1)
    a, b, c = (upload(device, np.arange(100, dtype=np.float32)) for _ in range(3))
    replay = Replay([BoundCall(exe, (a, b), (90,)), BoundCall(exe, (b, c), (80,))], [[(0, 0)]])
    waits = len(calls(device, "wait"))
    replay(a)
    assert len(calls(device, "launch")) == 4 and len(calls(device, "wait")) == waits + 1
    assert (download(device, c, 80) == 2 * (2 * (np.arange(80) + 1) + 1)).all()
    exe.close()
    with pytest.raises(UsageError, match="add has been closed"):
        replay(a)
    with pytest.raises(UsageError, match=r"b of call 0 .* must lie at a multiple of 16 bytes"):
        Replay([BoundCall(device.load(device.build(source(align=16)), signature(align=16), 1), (256, 516), (1,))])


@needs_cxx
def test_a_replay_follows_an_arena_that_another_call_moved(device: FakeCudaDevice) -> None:
    text = """extern "C" __global__ void moved_p0(float* p_b, unsigned char* arena, long long s_n) {
        float* mine = (float*)(arena + (blockIdx.x * 32ll + threadIdx.x) * 32768);
        mine[8191] = 2.0f;
        p_b[blockIdx.x] = mine[8191];
    }"""
    s = Signature("moved", (Param("b", float32, (N,), "out"),), ("n",), (N,), 32768, 0, (32,))
    exe = device.load(device.build(Source(text, "cuda", device.target, s)), s, 1)
    b = upload(device, np.zeros(8, np.float32))
    replay = Replay([BoundCall(exe, (b,), (2,))])
    replay()
    exe.run([b], [5])
    replay()
    arenas = [c[5][1] for c in calls(device, "launch")]
    assert arenas[0] != arenas[1] == arenas[2]


@needs_cxx
def test_wrong_calls_are_refused(device: FakeCudaDevice) -> None:
    exe = device.load(device.build(source(align=16)), signature(align=16), 1)
    with pytest.raises(UsageError, match="takes 2 buffers, not 1"):
        exe.run([256], [1])
    with pytest.raises(UsageError, match=r"needs a value for each of its symbols \(n\), not 0"):
        exe.run([256, 512])
    with pytest.raises(UsageError, match="address of b must be a multiple of 16; copy it"):
        exe.run([256, 516], [1])
    with pytest.raises(UsageError, match="at least one"):
        exe.time([], [1])


@needs_cxx
def test_objects_are_checked(device: FakeCudaDevice) -> None:
    obj = device.build(source())
    with pytest.raises(BuildError, match="not a whole object"):
        device.load(obj[:-1], signature(), 1)
    with pytest.raises(BuildError, match="not a whole object"):
        device.load(b"something else", signature(), 1)
    other = device.build(source(target=named("sm_80")))
    with pytest.raises(DeviceError, match="built for sm_80 and Fake GPU is sm_90a"):
        device.load(other, signature(), 1)


@needs_cxx
def test_what_a_driver_refuses(device: FakeCudaDevice) -> None:
    obj = device.build(source())
    device.driver.fails["load"] = "NO_BINARY_FOR_GPU"
    with pytest.raises(DeviceError, match="update the driver"):
        device.load(obj, signature(), 1)
    device.driver.fails = {"alloc": "OUT_OF_MEMORY"}
    with pytest.raises(MeasureError, match="smaller shape"):
        device.load(obj, signature(), 1)
    device.driver.fails = {}
    exe = device.load(obj, signature(), 1)
    device.driver.fails = {"launch": "LAUNCH_OUT_OF_RESOURCES"}
    with pytest.raises(BuildError, match="fewer registers"):
        exe.run([256, 512], [1])
    device.driver.fails = {}


@needs_cxx
def test_after_a_fault_everything_says_that_the_process_is_lost(device: FakeCudaDevice) -> None:
    exe = device.load(device.build(source(TEXT + FAULT)), signature(), 1)
    a, b = upload(device, np.zeros(4, np.float32)), upload(device, np.zeros(4, np.float32))
    with pytest.raises(MeasureError, match=r"ILLEGAL_ADDRESS|illegal address"):
        exe.run([a, b], [1])
    for after in (
        lambda: exe.run([a, b], [1]),
        lambda: device.memory().alloc(1),
        lambda: device.load(device.build(source()), signature(), 1),
        exe.poison,
    ):
        with pytest.raises(MeasureError, match=r"the GPU is lost to this process since .*go on in a new one"):
            after()
    device.memory().free(a)
    exe.close()  # to let go of things is no use of them


# timing -------------------------------------------------------------------------------------------------------------------
class Clock:
    """The driver's clock: a launch of `add_p0` takes `of(number)` seconds of it, everything else nothing."""

    def __init__(self, device: FakeCudaDevice, of: Any) -> None:
        self.now, self.made, self.pointers = 0.0, 0, []
        driver = device.driver

        def launch(function: Any, groups: int, threads: int, shared: int, words: tuple[int, ...]) -> None:
            driver.calls.append(("launch", function[1]))
            if function[1] == "add_p0":
                self.now += of(self.made)
                self.made += 1
                self.pointers.append(words[0])

        driver.launch = launch  # type: ignore[method-assign]
        driver.record = lambda event: (driver.calls.append(("record",)), event.append(self.now))[0]  # type: ignore[method-assign]


@needs_cxx
def test_slow_calls_are_timed_one_by_one_over_rotated_buffers(device: FakeCudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_session, "_IDLE_S", 1000.0)
    exe = device.load(device.build(source()), signature(), 1)
    clock = Clock(device, lambda i: (i + 1) * 1e-4)
    times = exe.time([[256, 512], [1024, 2048], [4096, 8192]], [1], 7)
    assert times == pytest.approx([(i + 1) * 1e-4 for i in range(7)])
    assert clock.pointers == [256, 1024, 4096] * 2 + [256]
    # busy before the first event of every batch, waited for once a batch
    order = [c[0] for c in calls(device, "hold", "record", "wait")]
    assert order[:2] == ["hold", "wait"]  # it was idle
    assert order[2:6] == ["hold", "record", "record", "wait"] and order[6:] == ["hold"] + ["record"] * 7 + ["wait"]
    device.driver.calls.clear()
    exe.time([[256, 512]], [1], 1)
    assert [c[0] for c in calls(device, "hold", "record", "wait")] == ["hold", "record", "record", "wait"]  # it was not


@needs_cxx
def test_short_calls_are_timed_in_groups(device: FakeCudaDevice) -> None:
    exe = device.load(device.build(source()), signature(), 1)
    Clock(device, lambda i: 1e-3 if i == 0 else 5e-6)
    times = exe.time([[256, 512]], [1], 1 + 1 + 40)
    assert len(times) == 42 and times[0] == pytest.approx(1e-3) and times[1:] == pytest.approx([5e-6] * 41)
    # the first is called slow, so its successors go one by one in a batch of 20 ms; then ten at a time
    assert len(calls(device, "record")) < 50


@needs_cxx
def test_timing_stops_at_its_limit(device: FakeCudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = device.load(device.build(source()), signature(), 1)
    clock = Clock(device, lambda i: 0.5)
    monkeypatch.setattr(cuda_timing.time, "monotonic", lambda: clock.now)
    assert len(exe.time([[256, 512]], [1], 100, 1.6)) == 4
    assert len(exe.time([[256, 512]], [1], 100, 0.0)) == 1


class Holding(cuda_session.CudaSession):
    """The true holding kernel, as C++."""

    def build(self, text: str) -> bytes:
        return text.encode()


@needs_cxx
def test_a_hold_ends_when_it_is_released_or_by_its_own_clock(device: FakeCudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake driver runs a kernel in the call that launches it, so nobody could release one there: they end by the clock."""
    monkeypatch.setattr(cuda_session, "HOLD_S", 2e-4)
    s = Holding(device.driver, 0, device.target)
    with s.held():
        pass
    assert not s.complete() and s._word[0] == 1 and s._word[1] >= 2e5  # cycles at 1 GHz
    s.hold_clock()
    assert 900 <= s.clocks["sm_mhz_held"] <= 1100
    s._word[0] = 2  # released before it begins
    with s.held():
        pass
    assert s.complete() and calls(device, "launch")[-1][5][1:] == (2, 200_000)


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_holding_kernel_builds(arch: str) -> None:
    _, log = nvrtc.compile(cuda_session.HOLD, arch)
    assert nvrtc.resources(log)["hold"].stack == 0


@needs_cxx
def test_a_batch_whose_hold_ran_out_is_made_again(device: FakeCudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = device.load(device.build(source()), signature(), 1)
    Clock(device, lambda i: 1e-3)
    done = iter([False, True])
    monkeypatch.setattr(device._open(), "complete", lambda: next(done))
    assert exe.time([[256, 512]], [1], 1) == pytest.approx([1e-3])
    assert len(calls(device, "launch")) == 4 and next(done, None) is None


@needs_cxx
@pytest.mark.parametrize("blocking", [True, False])
def test_nothing_is_held_where_launches_wait_or_are_too_many(
    device: FakeCudaDevice, blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_session, "_IDLE_S", float("inf"))
    if blocking:
        monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    else:
        monkeypatch.setattr(cuda_timing, "_DEPTH", 2)
    exe = device.load(device.build(source()), signature(), 1)
    Clock(device, lambda i: 1e-3)
    assert exe.time([[256, 512]], [1], 2) == pytest.approx([1e-3] * 2) and not calls(device, "hold")


@needs_cxx
def test_no_more_is_queued_behind_a_hold_than_a_driver_takes(device: FakeCudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = device.load(device.build(source()), signature(), 1)
    Clock(device, lambda i: 1e-6)
    monkeypatch.setattr(cuda_timing, "_DEPTH", 7)
    exe.time([[256, 512]], [1], 20)
    between, most = 0, 0
    for name, *_ in calls(device, "launch", "record", "hold"):
        between = 0 if name == "hold" else between + 1
        most = max(most, between)
    assert most <= 7 + 1  # and the first event


# limits -------------------------------------------------------------------------------------------------------------------
@needs_cxx
def test_probe_kernels_touch_what_they_say() -> None:
    vectors = 700
    module = HostModule("\n".join(cuda.stream(kind, vectors) for kind in cuda.KINDS), [f"{kind}_p0" for kind in cuda.KINDS])
    for kind in cuda.KINDS:
        count = cuda._arrays(kind)
        arrays = [np.arange(4 * vectors, dtype=np.float32) + 1000 * i for i in range(count)]
        buffers = [Guarded(a.nbytes, 16) for a in arrays]
        for buffer, a in zip(buffers, arrays, strict=True):
            buffer.view()[...] = a.view(np.uint8)
        module.launch(f"{kind}_p0", 2, 256, [buffer.address for buffer in buffers])
        if count > 1:
            arrays[-1] = arrays[0] if count == 2 else arrays[0] + arrays[1] * np.float32(0.5)
        for buffer, a in zip(buffers, arrays, strict=True):
            assert (buffer.view() == a.view(np.uint8)).all() and not buffer.broken(), kind


@needs_nvrtc
@pytest.mark.parametrize("bits, fused", [(32, 4), (64, 8)])
def test_the_peak_kernel_builds_and_keeps_its_values_in_registers(bits: int, fused: int) -> None:
    _, log = nvrtc.compile(cuda.fma(bits), "sm_90a")
    takes = nvrtc.resources(log)[f"fma{bits}_p0"]
    assert takes.registers >= cuda.CHAINS * bits // 32 and takes.stack == takes.spill_stores == 0


def test_limits_are_measured_and_kept(device: FakeCudaDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(cuda, "_best", lambda device, name, text, pointers, groups, slot_s: 1e-3)
    monkeypatch.setattr(cuda, "_MIB", 1 << 10)
    assert device.limits() is None
    found = device.limits(probe=True)
    size = 1 << 20
    assert (
        found is not None
        and found.rates[1].copy == pytest.approx(2 * size / 1e-3)
        and found.rates[1].triad_nt == pytest.approx(3 * size / 1e-3)
    )
    assert found.rates[1].peak_f32 == pytest.approx(2 * 16 * 2048 * 256 * 8 * 132 / 1e-3)
    assert not device.driver.memory_ and device.limits() == found


def test_the_buffer_of_a_module_is_the_hosts(device: FakeCudaDevice) -> None:
    """Offsets of the device's memory are bytes."""
    memory = device.memory()
    h = memory.alloc(64)
    memory.fill(h, 0, 64)
    memory.fill(h, 7, 4, 60)
    host = (ctypes.c_uint8 * 64)()
    memory.read(h, ctypes.addressof(host), 8, 56)
    assert list(host[:8]) == [0] * 4 + [7] * 4
    memory.write(h, ctypes.addressof(host), 8, 8)
    memory.read(h, ctypes.addressof(host), 64)
    assert list(host[8:16]) == [0] * 4 + [7] * 4 and list(host[60:]) == [7] * 4


@pytest.mark.slow
@pytest.mark.parametrize("args, why", [([], "no GPU in this test"), (["--device", "cpu"], "runs on NVIDIA GPUs, not on cpu")])
def test_the_gpu_benchmark_refuses_where_there_is_none(args: list[str], why: str) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "gpu_vs_cublas.py"
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", cuda.VARIABLE: json.dumps({"error": "no GPU in this test", "visible": ""})}
    done = subprocess.run([sys.executable, str(script), *args], env=env, capture_output=True, text=True)
    assert done.returncode == 3 and why in done.stderr and not done.stdout and "Traceback" not in done.stderr
