"""HIP text: clang's HIP front end compiles it for each of AMD's GPUs, and as C++ on the processor it gives the interpreter's bits."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cuda_build import needs_cxx
from cuda_text import run_both_ways
from tilewright import named_kernels, targets
from tilewright.devices.cuda.host import HostProgram
from tilewright.heuristics import quick_starts
from tilewright.interp import run as interpret
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.measure.inputs import generate, shape
from tilewright.opts import Opt, Opts, apply
from tilewright.renderers import Source, render
from tilewright.targets import Target

GPUS = ("gfx90a", "gfx942", "gfx1100")
NAMES = ("clang++-19", "clang-19", "clang++", "clang", "/opt/rocm/llvm/bin/clang++")
FLAGS = ("-x", "hip", "--cuda-device-only", "-nogpulib", "-O1", "-S", "-Wall", "-Werror", "-Wno-unused")
CASES = {
    "matmul": "float32", "softmax": "float16", "layernorm": "bfloat16", "argmax": "float64", "cumsum": "int8", "matmul_w4": "bfloat16",
    "matmul_fp8": "float8_e5m2", "attention": "float16", "conv2d_dx": "float32",
}  # fmt: skip


def compiled(text: str, gpu: str, clang: str, folder: Path) -> str:
    """The assembly of HIP text."""
    (folder / "kernel.hip").write_text(text)
    command = [clang, *FLAGS, f"--offload-arch={gpu}", "kernel.hip", "-o", "kernel.s"]
    for path in ([], ["--rocm-path=/usr"]):
        done = subprocess.run([*command, *path], cwd=folder, capture_output=True, text=True, check=False)
        if not done.returncode:
            return (folder / "kernel.s").read_text()
    raise AssertionError(done.stderr[:2000])


@functools.cache
def clang_for(gpu: str) -> str:
    """A clang that compiles HIP with AMD's headers (Debian: clang-19, libamdhip64-dev), or ''."""
    import tempfile

    for name in filter(shutil.which, NAMES):
        with tempfile.TemporaryDirectory() as folder:
            try:
                compiled("#include <hip/hip_runtime.h>\n__global__ void f(float *x) { x[threadIdx.x] = 1.0f; }\n", gpu, name, Path(folder))
            except AssertionError:
                continue
            return name
    return ""


def rendered(kernel: Kernel, opts: Opts, gpu: str) -> Source:
    target = targets.named(gpu)
    return render(lower(apply(kernel, opts, target)), target)


def test_text_has_nothing_of_ptx() -> None:
    kernel = named_kernels.make("softmax", {"m": 8, "n": 256}, "float16")
    text = rendered(kernel, (Opt("GROUP", "n", 64),), "gfx90a").text
    assert "__shfl_xor(" in text and "__launch_bounds__(64)" in text and "_Float16" in text and "fp contract(off)" in text
    assert "asm" not in text and "_sync(" not in text
    # waves of 64 threads exchange values over 32 lanes, those of 32 do not
    assert re.search(r"__shfl_xor\(\w+, 32\)", text)
    assert not re.search(r"__shfl_xor\(\w+, 32\)", rendered(kernel, (Opt("GROUP", "n", 64),), "gfx1100").text)


def test_what_hip_has_not_is_refused() -> None:
    target = targets.named("gfx942")
    assert not target.language.async_copies and not target.language.tensor_cores and not target.language.nontemporal


@pytest.mark.slow
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", ["matmul", "softmax", "argmax", "cumsum", "matmul_w4", "attention"])
@pytest.mark.covering
def test_clang_compiles_start_schedules(name: str, gpu: str, tmp_path: Path) -> None:
    clang = clang_for(gpu)
    if not clang:
        pytest.skip(f"no clang here compiles HIP for {gpu} (Debian: clang-19 and libamdhip64-dev)")
    kernel = named_kernels.make(name, named_kernels.get(name).odd_shape, CASES[name])
    assembly = compiled(rendered(kernel, quick_starts(kernel, targets.named(gpu))[0], gpu).text, gpu, clang, tmp_path)
    assert all(int(n) == 0 for n in re.findall(r"\.vgpr_spill_count: *(\d+)", assembly))
    waves = re.findall(r"\.wavefront_size: *(\d+)", assembly)
    assert waves and {int(n) for n in waves} == {targets.named(gpu).warp}


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["matmul", "softmax", "matmul_w4", "matmul_fp8", "argmax"])
def test_as_cpp_it_gives_the_interpreters_bits(name: str) -> None:
    """Waves of 32 threads, as the fibers of `devices.cuda.host` are."""
    target: Target = targets.named("gfx1100")
    kernel = named_kernels.make(name, named_kernels.get(name).odd_shape, CASES[name])
    program = lower(apply(kernel, quick_starts(kernel, target)[0], target))
    source = render(program, target)
    exchange = "#define __HIPCC_RTC__\n#define __shfl_xor(x, distance) __shfl_xor_sync(0xffffffffu, x, distance)\n"
    host = HostProgram(replace(source, text=exchange + source.text))
    inputs = generate(kernel, {}, 0)
    want = {b.name: np.zeros(shape(b, kernel, {}), b.dtype.np) for b in kernel.outputs}
    interpret(program, {**inputs, **want})
    try:
        got = run_both_ways(kernel, host, inputs, {})
    finally:
        host.close()
    assert all(got[out].tobytes() == w.tobytes() for out, w in want.items())
