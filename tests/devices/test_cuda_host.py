"""CUDA text as C++: what kernels may do works, and what they may not is found and named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cuda_build import needs_cxx
from tilewright.devices.cuda import host as cuda_host
from tilewright.devices.cuda.host import HostModule, run_on_host
from tilewright.ir import BuildError, DeviceError, VerifyError
from tilewright.ir.dtypes import DType, float32, int32
from tilewright.ir.node import const, sym
from tilewright.program.program import Param, Signature
from tilewright.targets import Target, named

pytestmark = needs_cxx

KERNELS = r"""
#define K extern "C" __global__ void

K turn(const float* __restrict__ a, float* __restrict__ b, long long n) {
    __shared__ __align__(16) float s[64];
    s[threadIdx.x] = a[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    b[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x] + (float)n;
}
K no_barrier(const float* a, float* b) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    b[threadIdx.x] = s[threadIdx.x / 2];
}
K exchanges_hide(const float* a, float* b) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncwarp();
    b[threadIdx.x] = s[threadIdx.x ^ 32];
}
K polls(float* b) {
    __shared__ int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 40) flag = 7;
    while (flag != 7) tilewright_host::poll(__LINE__, "a flag");
    b[threadIdx.x] = flag;
}
K polls_forever(float* b) {
    if (threadIdx.x == 40) while (b[0] == 0) tilewright_host::poll(__LINE__, "a flag");
    __syncthreads();
}
K stale(const float* a, float* b) {
    __shared__ float s[64];
    if (blockIdx.x == 0) s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    b[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x];
}
K sums(const float* a, float* b) {
    extern __shared__ __align__(16) unsigned char memory[];
    float* s = (float*)memory;
    float x = a[threadIdx.x];
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0) b[0] = s[0] + s[1];
}
K dynamic_overrun(const float* a, float* b) {
    extern __shared__ float s[];
    s[threadIdx.x] = a[0];
}
K lanes(int* b) {
    int t = threadIdx.x;
    b[t] = __shfl_down_sync(~0u, t, 1);
    b[64 + t] = __shfl_up_sync(~0u, t, 3);
    b[128 + t] = __shfl_sync(~0u, t, 5);
    b[192 + t] = (int)__ballot_sync(~0u, t % 3 == 0);
    b[256 + t] = __any_sync(~0u, t == 40) + 2 * __all_sync(~0u, t < 32);
    double d = __shfl_xor_sync(~0u, t + 0.5, 32 >> 1);
    b[320 + t] = (int)(2 * d);
}
K half_a_warp(float* b) {
    if (threadIdx.x < 16) b[threadIdx.x] = __shfl_xor_sync(0xffffu, (float)threadIdx.x, 1);
    else { __syncwarp(0xffff0000u); b[threadIdx.x] = -1.0f; }
}
K shuffle_outside(float* b) { if (threadIdx.x < 16) b[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 16); }
K shuffle_diverges(float* b) { if (threadIdx.x < 16) b[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1); else while (true) __syncthreads(); }
K wrong_mask(float* b) { b[threadIdx.x] = __shfl_xor_sync(1u, 1.0f, 1); }
K two_barriers(float* b) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}
K one_round_less(float* b) { for (unsigned i = 0; i < 3 - (threadIdx.x == 7); i++) __syncthreads(); }
K guard(float* b) {
    if (threadIdx.x >= 40) return;
    __syncthreads();
    b[threadIdx.x] = 1.0f;
    __syncthreads();
}
K past_end(const float* a, float* b) { b[threadIdx.x] = a[threadIdx.x + 2]; }
K before_start(const float* a, float* b) { b[(int)threadIdx.x - 1] = a[threadIdx.x]; }
K far_before_start(const float* a, float* b) { b[(int)threadIdx.x - 1000] = a[threadIdx.x]; }
K writes_input(float* a, float* b) { a[threadIdx.x] = 0.0f; }
K misaligned(const float* a, float* b) { float4 x = *(const float4*)(a + 1); *(float4*)b = x; }
K overflows(int* a, int* b) { b[threadIdx.x] = a[threadIdx.x] * 65536 * 32767; }
K divides(int* a, int* b) { b[threadIdx.x] = a[threadIdx.x] / (int)(threadIdx.x - threadIdx.x); }
K indexes(float* a, float* b) { float s[4]; for (int i = 0; i < 4; i++) s[i] = a[i]; b[0] = s[threadIdx.x]; }
K traps(float* b) { if (threadIdx.x == 3) __trap(); }
K deep(float* b) { volatile char big[700 << 10]; big[0] = 1; b[0] = big[0]; }
K vectors(const float4* a, float4* b) { float4 x = __ldg(a + threadIdx.x); __stcs(b + threadIdx.x, make_float4(x.w, x.z, x.y, fmaf(x.x, 2.0f, 1.0f))); }
"""
NAMES = [line.split("(")[0].split()[1] for line in KERNELS.splitlines() if line.startswith("K ")]


@pytest.fixture(scope="module")
def module() -> Any:
    return HostModule(KERNELS, NAMES)


def at(a: Any) -> int:
    return int(a.ctypes.data)


BOTH = pytest.mark.parametrize("reverse", [False, True])


@pytest.mark.slow
@BOTH
def test_groups_share_memory_between_barriers(module: HostModule, reverse: bool) -> None:
    a, b = np.arange(192, dtype=np.float32), np.zeros(192, np.float32)
    module.launch("turn", 3, 64, [at(a), at(b), -5], reverse=reverse)
    assert (b.reshape(3, 64) == a.reshape(3, 64)[:, ::-1] - 5).all()


def test_a_missing_barrier_shows_in_the_other_order(module: HostModule) -> None:
    a, b, c = np.arange(1, 65, dtype=np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32)
    module.launch("no_barrier", 1, 64, [at(a), at(b)])
    module.launch("no_barrier", 1, 64, [at(a), at(c)], reverse=True)
    assert (b == a[np.arange(64) // 2]).all() and (b != c).any()


def test_a_warp_runs_ahead_of_the_others(module: HostModule) -> None:
    """Exchanges keep the lanes of a warp together, and not the warps: the barrier that is missing shows in each order."""
    a = np.arange(1, 65, dtype=np.float32)
    for reverse, late in ((False, slice(0, 32)), (True, slice(32, 64))):
        b = np.zeros(64, np.float32)
        module.launch("exchanges_hide", 1, 64, [at(a), at(b)], reverse=reverse)
        assert np.isnan(b[late]).all() and (b != a[np.arange(64) ^ 32]).sum() == 32


@BOTH
def test_a_thread_that_polls_is_tried_again(module: HostModule, reverse: bool) -> None:
    b = np.zeros(64, np.float32)
    module.launch("polls", 1, 64, [at(b)], reverse=reverse)
    assert (b == 7).all()


def test_what_is_polled_for_in_vain_is_named(module: HostModule) -> None:
    b = np.zeros(64, np.float32)
    with pytest.raises(VerifyError, match=r"thread 40: polls in line \d+ for a flag, which never comes"):
        module.launch("polls_forever", 1, 64, [at(b)])


def test_shared_memory_does_not_outlive_a_group(module: HostModule) -> None:
    a, b = np.ones(64, np.float32), np.zeros(128, np.float32)
    module.launch("stale", 2, 64, [at(a), at(b)])
    assert (b[:64] == 1).all() and np.isnan(b[64:]).all()


@BOTH
def test_dynamic_shared_memory_and_shuffles(module: HostModule, reverse: bool) -> None:
    a, b = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    module.launch("sums", 1, 64, [at(a), at(b)], 8, reverse)
    assert b[0] == a.sum()


def test_dynamic_shared_memory_has_an_end(module: HostModule) -> None:
    a = np.ones(1, np.float32)
    with pytest.raises(VerifyError, match=r"dynamic_overrun, group 0, thread 4: .*0 bytes past the end of dynamic shared memory"):
        module.launch("dynamic_overrun", 1, 64, [at(a), 0], 16)


@BOTH
def test_every_exchange_of_a_warp(module: HostModule, reverse: bool) -> None:
    b = np.zeros(384, np.int32)
    module.launch("lanes", 1, 64, [at(b)], reverse=reverse)
    t = np.arange(64)
    down, up, one, votes, both, xor = b.reshape(6, 64)
    assert (down == np.where(t % 32 < 31, t + 1, t)).all() and (up == np.where(t % 32 >= 3, t - 3, t)).all()
    assert (one == t // 32 * 32 + 5).all() and (xor == 2 * (t ^ 16) + 1).all()
    assert [int(v) & 0xFFFFFFFF for v in votes[[0, 40]]] == [sum(1 << i for i in range(32) if (i + base) % 3 == 0) for base in (0, 32)]
    assert (both == np.where(t < 32, 2, 1)).all()


def test_part_of_a_warp(module: HostModule) -> None:
    b = np.zeros(32, np.float32)
    module.launch("half_a_warp", 1, 32, [at(b)])
    assert (b[:16] == np.arange(16) ^ 1).all() and (b[16:] == -1).all()


def test_threads_with_nothing_to_do_may_end_before_the_first_barrier(module: HostModule) -> None:
    b = np.zeros(64, np.float32)
    module.launch("guard", 1, 64, [at(b)])
    assert b.sum() == 40


FAULTS = {
    "shuffle_outside": r"thread 0: line \d+: __shfl_xor_sync reads lane 16, which is not in it",
    "shuffle_diverges": r"thread 0: waits in line \d+ for the other lanes of mask ffffffff to come to the same __shfl_xor_sync",
    "wrong_mask": r"thread 1: line \d+: __shfl_xor_sync with mask 00000001, which leaves out its own lane 1",
    "two_barriers": r"thread 0: waits at the barrier in line (\d+), and thread 63 at the one in line (?!\1)",
    "one_round_less": r"thread 0: waits at the barrier in line \d+, and thread 7 ended after 2 barriers",
    "traps": r"thread 3: __trap",
    "deep": r"thread 0: more than 512 KiB of local variables",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_the_launch_and_says_where(module: HostModule, name: str) -> None:
    b = np.zeros(64, np.float32)
    with pytest.raises(VerifyError, match=f"kernel {name}, group 0, {FAULTS[name]}"):
        module.launch(name, 1, 64, [at(b)])
    # and the next one runs
    test_groups_share_memory_between_barriers(module, False)


@dataclass
class Text:
    text: str
    target: Target
    signature: Signature
    sha: str = ""


def text_of(name: str, dtype: DType = float32, threads: int = 32, n: int = 32, align: int = 1) -> Text:
    """A kernel of two arrays as rendered text, with the entry's name of its one phase."""
    head, *kernels = KERNELS.split("\nK ")
    text = head + next(f"\nK {k}" for k in kernels if k.startswith(f"{name}("))
    params = (Param("a", dtype, (n,), "in"), Param("b", dtype, (n,), "out"))
    signature = Signature(name, params, (), (const(1),), 0, 0, (threads,), 0, align)
    return Text(text.replace(f"K {name}(", f"K {name}_p0("), named("sm_80"), signature)


PLACES = {
    "past_end": r"thread 30: an access to address 0x[0-9a-f]+, which it may not touch: 0 bytes past the end of a$",
    "before_start": r"wrote beside b, before its start",
    "far_before_start": r"thread 0: .*: 4000 bytes before the start of b$",
    "writes_input": r"thread 0: .*: a write to the read-only bytes of a$",
    "misaligned": r"thread 0: line \d+: an access that is not aligned for its type",
    "indexes": r"thread 4: line \d+: an index outside its array",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
def test_memory_faults_name_the_buffer(name: str) -> None:
    a, b = np.ones(32, np.float32), np.zeros(32, np.float32)
    with pytest.raises(VerifyError, match=PLACES[name]):
        run_on_host(text_of(name), [a, b])


@pytest.mark.slow
@pytest.mark.parametrize("name, what", [("overflows", "a signed multiplication that overflows"), ("divides", "division by zero")])
def test_undefined_arithmetic(name: str, what: str) -> None:
    with pytest.raises(VerifyError, match=rf"{name}_p0, group 0, thread \d+: line \d+: .*{what}"):
        run_on_host(text_of(name, int32), [np.arange(32, dtype=np.int32), np.zeros(32, np.int32)])


def test_vectors_are_aligned_where_the_signature_promises_it() -> None:
    a, b = np.arange(24, dtype=np.float32), np.zeros(24, np.float32)
    run_on_host(text_of("vectors", threads=6, n=24, align=16), [a, b])
    want = a.reshape(6, 4)[:, ::-1].copy()
    want[:, 3] = a[::4] * 2 + 1
    assert (b.reshape(6, 4) == want).all()


def test_phases_symbols_workspace_and_arena() -> None:
    """All arguments in the order of the calling convention; what nobody wrote is NaN."""
    n = sym("n", 1, 100)
    text = r"""
    extern "C" __global__ void two_p0(const float* p_a, float* p_b, float* work, unsigned char* arena, long long s_n) {
        float* mine = (float*)(arena + (blockIdx.x * blockDim.x + threadIdx.x) * 32768);
        mine[5] = 3.0f;
        work[blockIdx.x * 8 + threadIdx.x] = p_a[blockIdx.x] * mine[5] + (isnan(mine[6]) ? 1.0f : 0.0f);
    }
    extern "C" __global__ void two_p1(const float* p_a, float* p_b, float* work, unsigned char* arena, long long s_n) {
        float sum = 0.0f;
        for (int i = 0; i < 8; i++) sum += work[blockIdx.x * 8 + i];
        if (blockIdx.x + 1 < s_n) p_b[blockIdx.x] = sum;
    }
    """.replace("isnan(mine[6])", "mine[6] != mine[6]")
    params = (Param("a", float32, (n,), "in"), Param("b", float32, (n,), "out"))
    signature = Signature("two", params, ("n",), (n, n), 32768, 10 * 32, (8, 1))
    a, b = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    run_on_host(Text(text, named("sm_80"), signature), {"a": a, "b": b}, [10])
    assert (b[:9] == 8 * (3 * a[:9] + 1)).all() and np.isnan(b[9])


def test_arrays_must_fit() -> None:
    with pytest.raises(VerifyError, match="parameter b: give a C-contiguous array of 32 elements of float32"):
        run_on_host(text_of("past_end"), [np.ones(32, np.float32), np.zeros(31, np.float32)])


def test_text_that_is_not_c_plus_plus() -> None:
    with pytest.raises(BuildError, match=r"(?s)kernel\.cu:2:.*nothing_like_it"):
        HostModule('extern "C" __global__ void f(float* x) {\n x[0] = nothing_like_it;\n}', ["f"])


def test_a_group_of_too_many_threads(module: HostModule) -> None:
    with pytest.raises(VerifyError, match="1 to 1024 threads"):
        module.launch("guard", 1, 1025, [0])


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    cuda_host._compiler.cache_clear()
    try:
        with pytest.raises(DeviceError, match=r"install g\+\+ or clang\+\+"):
            HostModule("", [])
    finally:
        cuda_host._compiler.cache_clear()
