"""Oclgrind as checker: what it finds in kernels with a fault put in, that sound ones are sound, and its log."""

from __future__ import annotations

import numpy as np
import pytest
from opencl_driver import needs_oclgrind, source
from tilewright.devices.opencl import drivers as opencl_drivers
from tilewright.devices.opencl import oclgrind
from tilewright.ir import BuildError, DeviceError, MeasureError
from tilewright.targets import named

GPU = named("opencl-gpu")
REVERSE = """
__kernel void k_p0(__global const float *a, __global float *b) {
    __local float s[16];
    const int t = get_local_id(0);
    s[t] = a[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    b[get_global_id(0)] = s[15 - t];
}
"""
FAULTS = {
    "race": ("    barrier(CLK_LOCAL_MEM_FENCE);\n", ""),
    "bounds": ("b[get_global_id(0)]", "b[get_global_id(0) + 1]"),
    "barrier": ("    barrier(CLK_LOCAL_MEM_FENCE);\n", "    if (t < 7) barrier(CLK_LOCAL_MEM_FENCE);\n"),
    "uninitialised": ("s[t] = a", "if (t != 3) s[t] = a"),
}


def arrays() -> list[np.ndarray]:
    return [np.arange(64, dtype=np.float32), np.full(64, np.nan, np.float32)]


@needs_oclgrind
def test_a_sound_kernel_is_sound_and_its_result_comes_back() -> None:
    a, b = arrays()
    report = oclgrind.check(source(REVERSE, GPU, items=4, threads=16, shared=64), [a, b])
    assert report.findings == () and report.unchecked == ()
    assert (b == a.reshape(4, 16)[:, ::-1].ravel()).all()


@pytest.mark.slow
@needs_oclgrind
@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_found(kind: str) -> None:
    text = REVERSE.replace(*FAULTS[kind])
    assert text != REVERSE
    made = source(text, GPU, items=4, threads=16, shared=64)
    report = oclgrind.check(made, arrays())
    assert kind in {f.kind for f in report.findings}
    assert "k_p0" in report.findings[0].text


@pytest.mark.slow
@needs_oclgrind
def test_workspace_symbols_and_an_arena() -> None:
    text = """
__kernel void k_p0(__global const float *a, __global float *b, __global uchar *work, __global uchar *arena, long n) {
    __global float *mine = (__global float *)(arena + (get_group_id(0) * 4 + get_local_id(0)) * 20032);
    mine[4999] = a[get_global_id(0)] + n;
    ((__global float *)work)[get_global_id(0)] = mine[4999];
}
__kernel void k_p1(__global const float *a, __global float *b, __global uchar *work, __global uchar *arena, long n) { b[get_global_id(0)] = ((__global float *)work)[get_global_id(0)]; }
"""
    a, b = arrays()
    made = source(text, GPU, items=(16, 64), threads=(4, 1), work=256, scratch=20000, symbols=("n",))
    assert oclgrind.check(made, [a, b], [5]).findings == ()
    assert (b == a + 5).all()
    over = source(
        text.replace("mine[4999]", "mine[4999 + 8 + 5008 * 63]"),
        GPU,
        items=(16, 64),
        threads=(4, 1),
        work=256,
        scratch=20000,
        symbols=("n",),
    )
    assert {f.kind for f in oclgrind.check(over, [a, b], [5]).findings} >= {"bounds"}


@pytest.mark.slow
@needs_oclgrind
def test_text_it_does_not_take_and_kernels_that_do_not_end() -> None:
    with pytest.raises(BuildError, match=r"Oclgrind's compiler refused it: .*nothing"):
        oclgrind.check(source(REVERSE.replace("s[t]", "nothing"), GPU), arrays())
    with pytest.raises(MeasureError, match="did not end within 3 s under Oclgrind"):
        oclgrind.check(source(REVERSE.replace("barrier", "for (volatile int i = 1; i;); barrier"), GPU), arrays(), limit_s=3.0)


def test_other_languages_are_refused() -> None:
    with pytest.raises(BuildError, match="checks OpenCL C, not llvm"):
        oclgrind.check(source("", named("avx2")), [])


def test_without_oclgrind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_drivers, "installed", lambda: [("/etc/OpenCL/vendors/pocl.icd", "libpocl.so.2")])
    for name in opencl_drivers.CHOICE:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DeviceError, match=r"Oclgrind is not installed: pip install 'tilewright\[opencl-check\]'"):
        oclgrind.check(source(REVERSE, GPU), arrays())


def test_a_library_that_is_not_oclgrind_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(oclgrind, "library", lambda: "/nowhere/liboclgrind.so")
    with pytest.raises(DeviceError, match=r"Oclgrind does not work here \(.*PLATFORM_NOT_FOUND"):
        oclgrind.check(source(REVERSE, GPU), arrays())


def test_the_log() -> None:
    log = """
Read-write data race at local memory address 0x1000000000004
\tKernel: k_p0

\tFirst entity:  Global(0,0,0) Local(0,0,0) Group(0,0,0)

Invalid write of size 4 at global memory address 0x2
\tKernel: k_p0

Work-item has diverged
"""
    assert [f.kind for f in oclgrind.findings(log)] == ["race", "bounds", "barrier"]
    assert "First entity" in oclgrind.findings(log)[0].text
    assert oclgrind.findings("\n\n") == ()
