"""Kernels of quantised models and gradients of convolutions by tensor cores: what is stored is what is multiplied, so none of them
needs leave to round its operands."""

from __future__ import annotations

import pytest
from cuda_build import needs_cxx, needs_nvrtc
from cuda_text import check_cuda, sources
from tilewright import kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.opts import apply, opt

TARGET = targets.named("sm_90a")
MATMUL, IMAGES = (
    {"m": 40, "n": 24, "k": 96},
    {"n": 2, "c": 8, "h": 6, "w": 8, "oc": 32, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1},
)
CASES = {
    "matmul_fp8": ("float8_e5m2", MATMUL, "acc", "mma.m16n8k32.e5m2", "mnk"),
    "matmul_fp8_blocks": ("float8_e4m3", {**MATMUL, "block": 32}, "part", "mma.m16n8k32.e4m3", "mnk"),
    "matmul_w8": ("bfloat16", MATMUL, "acc", "mma.m16n8k16.bf16", "mnk"),
    "matmul_w4": ("float16", {**MATMUL, "group": 32}, "part", "mma.m16n8k16.f16", "mnk"),
    "conv2d_dx": ("float16", {**IMAGES, "oc": 16}, "acc", "mma.m16n8k16.f16", ("w", "c", "oc")),
    "conv2d_dw": ("bfloat16", {**IMAGES, "n": 4}, "acc", "mma.m16n8k16.bf16", ("oc", "c", "n")),
}


@pytest.mark.slow
@needs_cxx
@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_on_tensor_cores(name: str) -> None:
    """The text gives the interpreter's bits in both orders of its threads, and NVRTC builds it without spills."""
    dtype, shape, value, row, (m, n, k) = CASES[name]
    kernel, opts = kernels.make(name, shape, dtype), (opt("TC", value, row=row, m=m, n=n, k=k),)
    assert apply(kernel, opts, TARGET).effects == {"REASSOC"}
    check_cuda(kernel, opts, TARGET)
    ((_, source),) = sources(kernel, [opts], TARGET)
    assert "mma_" in source.text
    assert not any(r.spill_stores for r in nvrtc.resources(nvrtc.compile(source.text, "sm_90a")[1]).values())
