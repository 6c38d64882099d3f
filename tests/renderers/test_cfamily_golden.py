"""The C, OpenCL and CUDA text of small Programs, kept as files: a change of a renderer shows up as a readable difference.

To accept a change run `TILEWRIGHT_GOLDEN=write python -m pytest tests/renderers/test_cfamily_golden.py` and review what git shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cuda_build import needs_nvrtc
from group_programs import ring
from hand_built import exp_half, grouped_sum, masked_sum, matmul
from tensor_programs import Tile
from tensor_programs import matmul as tensor_matmul
from tilewright import targets
from tilewright.devices.cpu import c_compiler as cc
from tilewright.devices.cpu.engine import elf_symbols
from tilewright.devices.cuda import nvrtc
from tilewright.ir import DeviceError
from tilewright.program.program import Program
from tilewright.renderers import render

GOLDEN = Path(__file__).parents[1] / "golden"
CASES: dict[str, Callable[[], Program]] = {
    "matmul-avx2.c": lambda: matmul(12, 32, 20, 6, 2, 8),
    "masked_sum-cascadelake.c": masked_sum,
    "exp-half-neon.c": exp_half,
    "matmul-opencl-cpu.cl": lambda: matmul(12, 32, 20, 6, 2, 8),
    "masked_sum-opencl-gpu.cl": masked_sum,
    "grouped_sum-opencl-gpu.cl": lambda: grouped_sum(False),
    "exp-half-opencl-gpu.cl": exp_half,
    "matmul-sm_80.cu": lambda: matmul(8, 16, 20, 4, 2, 4),
    "masked_sum-sm_90a.cu": masked_sum,
    "grouped_sum-sm_90a.cu": lambda: grouped_sum(True),
    "exp-half-sm_90a.cu": exp_half,
    "ring-sm_80.cu": lambda: ring(mask=True),
    "tensor_matmul-sm_90a.cu": lambda: tensor_matmul(Tile("mma.m16n8k16.bf16", m=16, n=16, k=32, down=1, high=1, wide=2)),
}


def target(case: str) -> targets.Target:
    found = targets.named(case.rpartition(".")[0].split("-", 1 if "half" not in case else 2)[-1])
    return replace(found, lang="c") if case.endswith(".c") else found


@pytest.mark.parametrize("case", CASES)
def test_text_is_as_recorded(case: str) -> None:
    text = render(CASES[case](), target(case)).text
    path = GOLDEN / case
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{case} differs; see this file's head"


@pytest.mark.parametrize("case", [c for c in CASES if c.endswith(".c")])
def test_recorded_c_needs_nothing_from_outside(case: str) -> None:
    t = target(case)
    if t.arch != targets.host().arch:
        pytest.skip(f"a compiler for {t.arch} is not looked for")
    try:
        compiler = cc.find()
    except DeviceError as e:
        pytest.skip(str(e))
    assert not elf_symbols(cc.compile_c((GOLDEN / case).read_text(), t, compiler))[1]


@pytest.mark.many
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("case", [c for c in CASES if c.endswith(".cu")])
def test_recorded_cuda_builds(case: str, arch: str) -> None:
    _, log = nvrtc.compile((GOLDEN / case).read_text(), arch)
    found = nvrtc.resources(log)
    assert found and all(r.spill_stores == 0 for r in found.values())
