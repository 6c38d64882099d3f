"""Hopper's units as CUDA text: NVRTC builds it without spills, and as C++ on the processor it gives the interpreter's bits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_build import needs_cxx, needs_nvdisasm, needs_nvrtc
from hopper_mutants import INTERPRETER_ALONE, LIMIT, MUTANTS
from hopper_programs import Gemm, gemm, operands, worst
from tilewright import targets
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.host import HostProgram
from tilewright.devices.cuda.machine_code import counts
from tilewright.interp import run
from tilewright.ir.errors import VerifyError
from tilewright.renderers import render

pytestmark = pytest.mark.slow

TARGET = targets.named("sm_90a")
SHAPES = {
    "ragged": Gemm(72, 136, 136),
    "together": Gemm(128, 64, 192, consumers=2, slots=2, roles=False),
    "across, two consumers": Gemm(128, 128, 192, columns=128, consumers=2, b_along="n"),
    "fragments": Gemm(64, 64, 192, slots=2, a_registers=True),
    "cluster": Gemm(200, 128, 192, columns=128, cluster=2, b_along="n"),
    "staged": Gemm(72, 136, 128, staged=True),
    "copies": Gemm(128, 64, 192, consumers=2, slots=1, roles=False, copied=True),
    "tf32": Gemm(64, 64, 64, "float32"),
    "s8": Gemm(64, 64, 256, "int8"),
    "fp8": Gemm(64, 64, 256, "float8_e4m3"),
}


@needs_cxx
@pytest.mark.parametrize("name", SHAPES)
def test_the_text_gives_the_interpreters_bits_in_both_orders(name: str) -> None:
    g = SHAPES[name]
    program = gemm(g)
    a, b, c = operands(g)
    want, host = c.copy(), HostProgram(render(program, TARGET))
    run(program, [a, b, want])
    for reverse in (False, True):
        got = c.copy()
        host.run([a, b, got], reverse=reverse)
        assert (got.view(np.uint32) == want.view(np.uint32)).all()
    host.close()


@needs_nvrtc
@pytest.mark.parametrize("g", [*SHAPES.values(), Gemm(256, 256, 512, columns=256, consumers=2, slots=4, b_along="n")], ids=str)
def test_it_builds_without_spills_and_products_stay_asynchronous(g: Gemm) -> None:
    """C7510: products had to be made one after another; C7507, C7508: setmaxnreg is ignored."""
    _, log = nvrtc.compile(render(gemm(g), TARGET).text, "sm_90a")
    (found,) = nvrtc.resources(log).values()
    assert found.spill_stores == 0 == found.stack
    assert not re.findall(r"C75\d\d", log)


@needs_nvrtc
@needs_nvdisasm
def test_the_machine_code_has_the_units_instructions() -> None:
    cubin, _ = nvrtc.compile(render(gemm(Gemm(256, 128, 256, columns=128, consumers=2, cluster=2, staged=True)), TARGET).text, "sm_90a")
    found = counts(cubin)
    for name in ("HGMMA", "UTMALDG", "UTMASTG", "USETMAXREG", "SYNCS"):
        assert found[name], name
    assert found["HGMMA"] % 4 == 0, "four steps of k a tile, however often the compiler unrolls the loop"


FEW = ("a slot is given back before wgmma is done", "no barrier before TMA reads a tile", "a group ends while another may reach it")
"""A build a fault takes a second: these are what only late work shows."""


@needs_cxx
@pytest.mark.parametrize("name", FEW)
def test_a_planted_fault_is_found_in_the_text(name: str) -> None:
    assert name not in INTERPRETER_ALONE
    g, fault, _ = MUTANTS[name]
    program = gemm(g)
    fault(program)
    a, b, c = operands(g)
    host, said = HostProgram(render(program, TARGET)), []
    for reverse in (False, True):
        out = c.copy()
        try:
            host.run([a, b, out], reverse=reverse)
        except VerifyError as e:
            said.append(str(e))
        else:
            said += ["differs"] if worst(g, a, b, out) > LIMIT else []
    assert said
