"""NVRTC: machine code and resource figures without a GPU; its errors are ours."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cuda_build import ARCHITECTURES, needs_nvrtc
from tilewright.devices.cuda import nvrtc
from tilewright.ir import BuildError, DeviceError

KERNEL = """
extern "C" __global__ void __launch_bounds__(128) turn(const float* __restrict__ a, float* __restrict__ b) {
    __shared__ float s[128];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    b[threadIdx.x] = s[127 - threadIdx.x] * 2.0f + 1.0f;
}
"""
# an array that is indexed by what only the run knows, in a kernel that may have few registers
SPILLS = """
extern "C" __global__ void __launch_bounds__(1024, 2) heavy(const float* a, float* b) {
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = a[threadIdx.x + i * 1024];
    for (int r = 0; r < 4; r++) for (int i = 0; i < 64; i++) x[i] = x[i] * x[(i * 7 + 3) % 64] + x[(i + 1) % 64];
    for (int i = 0; i < 64; i++) b[threadIdx.x + i * 1024] = x[i];
}
"""
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 94 registers, used 1 barriers, 19456 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, 368 bytes cmem[0]
"""


def test_figures_are_read_from_a_log() -> None:
    assert nvrtc.resources(LOG) == {"first": nvrtc.Resources(94, 8, 4, 16, 19456), "second": nvrtc.Resources(12, 0, 0, 0, 0)}


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_kernel_becomes_machine_code_and_figures(arch: str) -> None:
    cubin, log = nvrtc.compile(KERNEL, arch)
    assert cubin.startswith(b"\x7fELF")
    found = nvrtc.resources(log)["turn"]
    assert 0 < found.registers <= 64 and found.shared == 512 and found.spill_stores == found.stack == 0


@needs_nvrtc
def test_spills_show() -> None:
    found = nvrtc.resources(nvrtc.compile(SPILLS, "sm_80")[1])["heavy"]
    assert found.registers <= 32 and found.spill_stores > 0 and found.spill_loads > 0


@needs_nvrtc
def test_a_multiplication_and_an_addition_stay_two_roundings() -> None:
    """Contraction is the Program's decision. One fused operation has its own code: text that asks for it differs."""
    plain = 'extern "C" __global__ void f(float* x) { x[0] = x[0] * x[1] + x[2]; }'
    fused = 'extern "C" __global__ void f(float* x) { x[0] = fmaf(x[0], x[1], x[2]); }'
    separate = 'extern "C" __global__ void f(float* x) { x[0] = __fadd_rn(__fmul_rn(x[0], x[1]), x[2]); }'
    codes = [nvrtc.compile(t, "sm_80")[0] for t in (plain, fused, separate)]
    assert codes[0] == codes[2] != codes[1]


@needs_nvrtc
def test_errors_carry_the_compilers_own_first_lines() -> None:
    with pytest.raises(BuildError, match=r"(?s)sm_80.*kernel.cu\(2\).*nothing_like_it"):
        nvrtc.compile('extern "C" __global__ void f(float* x) {\n x[0] = nothing_like_it;\n}', "sm_80")


@needs_nvrtc
def test_more_static_shared_memory_than_there_is_does_not_build() -> None:
    with pytest.raises(BuildError, match="too much shared data"):
        nvrtc.compile(KERNEL.replace("s[128]", "s[20000]"), "sm_80")


@needs_nvrtc
def test_an_architecture_that_this_nvrtc_does_not_know() -> None:
    with pytest.raises(DeviceError, match=r"does not compile for sm_30; it knows .*sm_80.*newer CUDA"):
        nvrtc.compile(KERNEL, "sm_30")


@needs_nvrtc
def test_threads_compile_side_by_side() -> None:
    codes: dict[int, bytes] = {}
    threads = [
        threading.Thread(target=lambda i=i: codes.update({i: nvrtc.compile(KERNEL.replace("2.0f", f"{i}.0f"), "sm_80")[0]}))
        for i in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(codes) == 4 and all(codes[i] == nvrtc.compile(KERNEL.replace("2.0f", f"{i}.0f"), "sm_80")[0] for i in codes)


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc.library.cache_clear()
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["libnvrtc-of-nowhere.so"]))
    try:
        with pytest.raises(DeviceError, match=r"not installed; pip install 'tilewright\[cuda\]'"):
            nvrtc.library()
    finally:
        nvrtc.library.cache_clear()


def test_a_library_that_does_not_load_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libnvrtc.so.13").write_text("not a library")
    nvrtc.library.cache_clear()
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter([str(tmp_path / "libnvrtc.so.13")]))
    try:
        with pytest.raises(DeviceError, match=r"not usable: .*libnvrtc.so.13"):
            nvrtc.library()
    finally:
        nvrtc.library.cache_clear()


def test_a_toolkit_is_found_by_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib64").mkdir()
    for name in ("libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13.0.88", "libnvrtc-builtins.so.13.0"):
        (tmp_path / "lib64" / name).touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    found = [Path(p).name for p in nvrtc._candidates() if p.startswith(str(tmp_path))]
    assert found == ["libnvrtc.so.13.0.88", "libnvrtc.so.12"]
