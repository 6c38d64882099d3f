"""Rendered CUDA text: it runs as C++ in both orders of its threads, agrees with the float64 reference, and bit for
bit with the interpreter; and NVRTC builds it. `--examples 50` draws so many schedules of each kernel anew; `python
tests/soak.py --groups --checks cuda,nvrtc` goes on for minutes."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_schedules
from cuda_build import ARCHITECTURES, needs_cxx, needs_nvrtc
from cuda_text import STARTS, check_cuda, check_nvrtc, run_both_ways, sources, together
from thorough import amount
from tilewright import named_kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.host import HostProgram, entries
from tilewright.heuristics import starts
from tilewright.ir import VerifyError
from tilewright.measure.checking.verify import check, expectations
from tilewright.measure.inputs import generate
from tilewright.opts import apply, opt

RANDOM = (
    "matmul",
    "softmax",
    "layernorm",
    "sum_rows",
    "transpose",
    "embedding_grad",
    "matvec",
    "max_pool2d",
    "cross_entropy",
    "batched_matmul",
)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", STARTS)
@pytest.mark.covering(each=2)
def test_start_schedules_agree_with_the_reference(name: str, request: pytest.FixtureRequest) -> None:
    kernel, target = named_kernels.make(name, named_kernels.get(name).odd_shape, STARTS[name]), targets.named("sm_90a")
    schedules = starts(kernel, target)[:1] if name == "attention" else [(), *starts(kernel, target)[: amount(request, 1, 2)]]
    made = sources(kernel, schedules, target)
    module = together([s for _, s in made])
    inputs = generate(kernel, {}, 1)
    expect = expectations(kernel, inputs, {})
    for program, source in made:
        outputs = run_both_ways(kernel, HostProgram(source, module), inputs, {})
        for out, want in expect.items():
            verdict = check(want, outputs[out].ctypes.data)
            assert verdict.ok, f"{program.name}: {verdict.detail}"
    if not nvrtc_is_missing():
        some = list(STARTS).index(name)  # one architecture each, or all
        for arch in (*ARCHITECTURES, *ARCHITECTURES)[some % len(ARCHITECTURES) :][: amount(request, 1, len(ARCHITECTURES))]:
            _, log = nvrtc.compile(made[-1][1].text, arch)
            assert set(nvrtc.resources(log)) == set(entries(made[-1][1]))


def nvrtc_is_missing() -> bool:
    return bool(needs_nvrtc.args[0])


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", RANDOM)
def test_random_schedules_agree_with_the_interpreter_in_every_bit(name: str, request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--examples")
    rng = random.Random(None if asked else f"cuda {name}")
    for _ in range(asked or 1):
        case = random_schedules.draw(name, rng.randrange, among=ARCHITECTURES)
        try:
            check_cuda(case.kernel, case.opts, case.target, case.vars, case.seed)
            if not nvrtc_is_missing():
                check_nvrtc(case.kernel, case.opts, case.target)
        except (AssertionError, VerifyError) as e:
            raise AssertionError(f"{case}: {e}") from e


TILED = [
    opt("LOCAL", "m", 8),
    opt("LOCAL", "n", 8),
    opt("UPCAST", "n", 4),
    opt("TILE", "k", 8),
    opt("STAGE", "a", {"at": "k", "pad": 4}),
    opt("STAGE", "b", {"at": "k"}),
]


def faulty(change: str) -> str:
    """A tiled matmul's text with a fault put in."""
    kernel, target = named_kernels.make("matmul", {"m": 24, "n": 40, "k": 19}, "float32"), targets.named("sm_80")
    ((_, source),) = sources(kernel, [TILED], target)
    text = {
        "no barrier": lambda t: t.replace("__syncthreads();", ""),
        "no first barrier": lambda t: t.replace("__syncthreads();", "", 1),
        "no last barrier": lambda t: "".join(t.rsplit("__syncthreads();", 1)),
        "a barrier for some": lambda t: t.replace("__syncthreads();", "if (threadIdx.x < 32) __syncthreads();", 1),
        "less shared memory": lambda t: re.sub(r"shared\[(\d+)\]", lambda m: f"shared[{int(m[1]) // 2}]", t),
        "nothing": lambda t: t,
    }[change](source.text)
    assert (text != source.text) == (change != "nothing")
    inputs = generate(kernel, {}, 1)
    expect = expectations(kernel, inputs, {})["c"]
    try:
        got = run_both_ways(kernel, HostProgram(replace(source, text=text)), inputs, {})["c"]
    except (VerifyError, AssertionError) as e:
        return f"{type(e).__name__}: {e}"
    return check(expect, np.ascontiguousarray(got).ctypes.data).detail


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize(
    "change, found",
    [
        ("nothing", "^$"),
        ("no barrier", "."),
        ("no first barrier", "."),
        ("no last barrier", "."),
        ("a barrier for some", "waits at the barrier in line"),
    ],
)
def test_planted_faults_are_found(change: str, found: str) -> None:
    assert re.search(found, faulty(change))


@needs_cxx
def test_the_example_of_the_page_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "gpu.md"
    (block,) = (b for b in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.S | re.M) if "run_on_host" in b)
    space: dict[str, Any] = {}
    exec(compile(block, str(page), "exec"), space)
    e = np.exp(space["x"] - space["x"].max(1, keepdims=True))
    np.testing.assert_allclose(space["y"], e / e.sum(1, keepdims=True), rtol=1e-5)


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
    kernel, opts = named_kernels.make(name, shape, dtype), (opt("TC", value, row=row, m=m, n=n, k=k),)
    assert apply(kernel, opts, TARGET).effects == {"REASSOC"}
    check_cuda(kernel, opts, TARGET)
    ((_, source),) = sources(kernel, [opts], TARGET)
    assert "mma_" in source.text
    assert not any(r.spill_stores for r in nvrtc.resources(nvrtc.compile(source.text, "sm_90a")[1]).values())
