"""What a kernel takes and holds, and how much of a multiprocessor its groups fill."""

from __future__ import annotations

import pytest
from cuda_build import needs_nvdisasm, needs_nvrtc
from tilewright import kernels, targets
from tilewright.devices.cuda import machine_code as contents
from tilewright.devices.cuda import machine_code as sass
from tilewright.devices.cuda.machine_code import occupancy
from tilewright.ir import DeviceError
from tilewright.lower import lower
from tilewright.opts import Opt, apply
from tilewright.renderers import Source, render


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
    kernel = kernels.make("matmul", {"m": 64, "n": 64, "k": 64}, "float32")
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
