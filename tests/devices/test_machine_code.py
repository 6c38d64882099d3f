"""Machine code as text, counted by kernel; what a kernel takes and holds; and what is said where nvdisasm is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_build import needs_nvdisasm, needs_nvrtc
from tilewright import named_kernels, targets
from tilewright.devices.cuda import machine_code as contents
from tilewright.devices.cuda import machine_code as sass
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.machine_code import occupancy
from tilewright.ir import BuildError, DeviceError
from tilewright.lower import lower
from tilewright.opts import Opt, apply
from tilewright.renderers import Source, render

TEXT = """
        .section        .text.matmul_p0,"ax",@progbits
matmul_p0:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E.U16.CONSTANT R4, desc[UR4][R2.64] ;
        /*0030*/                   LDGSTS.E.BYPASS.128 [R17], [R2.64] ;
        /*0040*/                   LDSM.16.MT88.4 R4, [R17] ;
        /*0050*/                   HMMA.16816.F32.BF16 R4, R4, R8, R4 ;
        /*0060*/                   HMMA.16816.F32.BF16 R4, R4, R8, R4 ;
        /*0070*/                   HFMA2.MMA R4, -RZ, RZ, 0, 0 ;
        /*0080*/              @UP0 UTMALDG.2D [UR8], [UR4] ;
        /*0090*/                   STL [R1+0x4], R4 ;
.L_x_1:
        /*00a0*/               @P1 BRA `(.L_x_1);
        .section        .text.matmul_p1,"ax",@progbits
        /*0000*/                   STG.E.64 desc[UR4][R4.64], R12 ;
"""
KERNEL = """
extern "C" __global__ void __launch_bounds__(128) second(const float4* __restrict__ a, float4* __restrict__ b) {
    b[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(128) first(const float* __restrict__ a, float* __restrict__ b) {
    __shared__ float s[128];
    s[threadIdx.x] = fmaf(a[threadIdx.x], 2.0f, 1.0f);
    __syncthreads();
    b[threadIdx.x] = __shfl_xor_sync(~0u, s[127 - threadIdx.x], 1);
}
extern "C" __global__ void __launch_bounds__(32) product(const unsigned* __restrict__ a, float* __restrict__ c) {
    float d[4] = {0, 0, 0, 0};
    const unsigned* p = a + threadIdx.x * 6;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(p[4]), "r"(p[5]));
    for (int i = 0; i < 4; i++) c[threadIdx.x * 4 + i] = d[i];
}
"""


def test_instructions_are_counted_by_kernel_width_and_whole_name() -> None:
    found = sass.of_text(TEXT)
    assert list(found) == ["matmul_p0", "matmul_p1"]
    p0 = found["matmul_p0"]
    assert (p0["LDG"], p0["LDG.128"], p0["LDG.16"], p0["LDGSTS.128"], p0["STL.32"]) == (2, 1, 1, 1, 1)
    assert p0["HMMA"] == p0["HMMA.16816.F32.BF16"] == 2 and p0["LDSM"] == p0["UTMALDG"] == p0["BRA"] == p0["HFMA2"] == 1
    assert found["matmul_p1"] == {"STG": 1, "STG.64": 1} and p0["HGMMA"] == 0


def test_families_are_for_readers() -> None:
    found = sass.of_text(TEXT)
    said = sass.families(found["matmul_p0"])
    assert said["tensor cores"] == "2 HMMA.16816.F32.BF16" and said["global memory"] == "1 LDG.128, 1 LDG.16"
    assert said["spills"] == "1 STL.32" and said["asynchronous copies"] == "1 LDGSTS.128, 1 UTMALDG"
    assert sass.families(found["matmul_p1"]) == {"global memory": "1 STG.64"}


@pytest.mark.slow
@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
def test_machine_code_of_every_architecture_is_read(arch: str) -> None:
    cubin = nvrtc.compile(KERNEL, arch)[0]
    found = sass.by_kernel(cubin)
    assert list(found) == ["first", "product", "second"]
    assert found["second"]["LDG.128"] == found["second"]["STG.128"] == 1 and found["second"]["BAR"] == 0
    assert found["first"]["BAR"] == found["first"]["SHFL"] == found["first"]["FFMA"] == found["first"]["LDG.32"] == 1
    assert found["product"]["HMMA"] == 1 and found["product"]["HMMA.16816.F32.BF16"] == 1
    total = sass.counts(cubin)
    assert total["HMMA"] == 1 and total["LDG.128"] == 1 and total["STL"] == total["LDL"] == 0


@needs_nvdisasm
def test_what_is_no_machine_code_is_refused() -> None:
    with pytest.raises(BuildError, match="nvdisasm cannot read this machine code"):
        sass.counts(b"nothing of the kind")


def test_a_missing_tool_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sass, "packages", lambda: [tmp_path])
    monkeypatch.setattr(sass, "toolkits", lambda: [])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"nvdisasm.* is not installed; pip install 'tilewright\[sass\]'"):
        sass.disassemble(b"")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvdisasm").touch(0o755)
    with pytest.raises(DeviceError, match="does not run here"):
        sass.disassemble(b"")


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "groups", "warps", "full"),
    [
        ("sm_90a", 128, 98, 33 << 10, 4, 16, "registers"),  # 98 are handed out as 104: four warps in each quarter
        ("sm_90a", 384, 168, 200 << 10, 1, 12, "registers"),
        ("sm_90a", 128, 32, 100 << 10, 2, 8, "shared memory"),
        ("sm_90a", 256, 32, 0, 8, 64, "warps"),
        ("sm_90a", 32, 32, 0, 32, 32, "groups"),
        ("sm_80", 256, 64, 80 << 10, 2, 16, "shared memory"),
        ("sm_80", 256, 64, (82 << 10) - 512, 1, 8, "shared memory"),  # a group takes a KiB more
        ("sm_89", 512, 32, 0, 3, 48, "warps"),
    ],
)
def test_what_fits_on_a_multiprocessor(arch: str, threads: int, registers: int, shared: int, groups: int, warps: int, full: str) -> None:
    found = occupancy(arch, threads, registers, shared)
    assert found is not None and (found.groups, found.warps, found.full) == (groups, warps, full)
    assert 0 < found.share <= 1 and f"({warps} warps, {100 * found.share:.0f} %)" in found.text


def test_what_does_not_fit_and_what_is_not_known() -> None:
    found = occupancy("sm_80", 1024, 255, 0)
    assert found is not None and found.groups == 0 and "too much for one: registers" in found.text
    assert occupancy("sm_999", 32, 32, 0) is None and occupancy("gfx90a", 64, 32, 0) is None


def source() -> Source:
    target = targets.named("sm_90a")
    kernel = named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64}, "float32")
    return render(lower(apply(kernel, [Opt("LOCAL", "m", 8), Opt("LOCAL", "n", 16), Opt("SPLIT", "k", 2)], target)), target)


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.slow
def test_every_phase_of_a_schedule() -> None:
    text = source()
    first, second = contents.contents(text)
    assert (first.name, second.name) == ("matmul_p0", "matmul_p1")
    assert first.threads == 128 and 0 < first.registers < 256 and first.spills == first.stack == 0 and first.occupancy
    assert first.counts["FFMA"] > 0 and second.counts["FADD"] > 0 and "FFMA" in first.families["arithmetic"]
    assert first.takes.startswith(f"128 threads of {first.registers} registers; {first.occupancy.groups} groups a multiprocessor (")
    data = first.to_json()
    assert data["registers"] == first.registers and data["instructions"]["FFMA"] == first.counts["FFMA"] and data["why"] is None


@needs_nvrtc
def test_without_nvdisasm_there_are_figures_and_no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(cubin: bytes) -> str:
        raise DeviceError("nvdisasm is not installed")

    monkeypatch.setattr(sass, "disassemble", missing)
    first, _ = contents.contents(source())
    assert first.registers > 0 and not first.counts and not first.families and first.why == "nvdisasm is not installed"
