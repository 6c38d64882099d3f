"""CUDA sources: built by NVRTC for a GPU that is not here, and launched, checked and timed on a stub GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from stub_cuda import SPEC, needs_stub, run
from tilewright.ir.errors import BuildError, DeviceError, UsageError
from tilewright.sources.building import CheckedSource, build, schedule
from tilewright.sources.reading import spec_of
from tilewright.sources.source_device import SourceDevice

KERNEL = """
template <int W> __device__ float times(float x) { return W * x; }
__global__ void grow(const float *x, float *y, int n, float s, signed char up) {
    const int first = blockIdx.x * block_size_x * WORK + threadIdx.x;
    for (int k = 0; k < WORK; k++) {
        const int i = first + k * block_size_x;
        if (i < n) y[i] += times<2>(x[i]) * s + up;
    }
}
"""
TABLE = {
    "sizes": {"n": 1000},
    "args": [
        {"name": "x", "dtype": "float", "shape": ["n"]},
        {"name": "y", "dtype": "float", "shape": ["n"], "role": "inout"},
        {"name": "n", "dtype": "int", "value": "n"},
        {"name": "s", "dtype": "float", "value": 0.25},
        {"name": "up", "dtype": "int8", "value": -3},
    ],
    "params": {"block_size_x": [64, 2048], "WORK": [1, 4]},
    "launch": {"grid": "ceil(n / (block_size_x * WORK))"},
}


@pytest.mark.slow
def test_nvrtc_builds_for_a_gpu_that_is_not_here(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(KERNEL)
    spec = spec_of(tmp_path / "k.cu", "grow", args=TABLE)
    device = SourceDevice("cuda", "cuda", "sm_80")
    try:
        made = build(CheckedSource(spec, tmp_path), schedule(spec, spec.untuned), device)
    except DeviceError as e:
        pytest.skip(str(e))
    assert b'"registers"' in made.obj[:200]
    with pytest.raises(BuildError, match="the block is 2048x1x1 = 2048 threads and sm_80 takes at most 1024"):
        build(CheckedSource(spec, tmp_path), schedule(spec, spec.at({"block_size_x": "2048"})), device)
    (tmp_path / "k.cu").write_text(KERNEL.replace("int n,", "int n; int m,"))
    broken = spec_of(tmp_path / "k.cu", "grow", args=TABLE)
    with pytest.raises(BuildError, match=r"k\.cu\(3\): error"):
        build(CheckedSource(broken, tmp_path), schedule(broken, broken.untuned), device)
    with pytest.raises(UsageError, match="--target is a GPU"):
        SourceDevice("cpu", "c", "sm_80")


@needs_stub
@pytest.mark.slow
def test_a_stub_gpu_runs_them(tmp_path: Path) -> None:
    """What a call changes is copied back before each timed one. The stub takes pointers and 64-bit integers alone."""
    text = KERNEL.replace("int n, float s, signed char up", "long long n").replace("* s + up", "* 0.25f - 3")
    (tmp_path / "k.cu").write_text(text)
    table = {**TABLE, "args": [*TABLE["args"][:2], {"name": "n", "dtype": "int64", "value": "n"}]}  # type: ignore[index]
    done = run(
        f"""
import numpy as np
from pathlib import Path
from tilewright.sources.building import CheckedSource, build
from tilewright.sources.building import schedule
from tilewright.sources.source_device import SourceDevice
from tilewright.sources.reading import spec_of
spec = spec_of({str(tmp_path / "k.cu")!r}, "grow", args={table!r})
device = SourceDevice({SPEC!r}, "cuda")
made = build(CheckedSource(spec, Path({str(tmp_path)!r})), schedule(spec, spec.at({{"WORK": "4"}})), device)
exe, memory = device.load(made.obj, made.signature, 1), device.memory()
x, y, z = (np.arange(1000, dtype=np.float32) * f for f in (1, 2, 0))
a, b = memory.alloc(4000), memory.alloc(4000)
memory.write(a, x.ctypes.data, 4000)
memory.write(b, y.ctypes.data, 4000)
for work in (lambda: exe.time([[a, b]], (), 3), lambda: exe.run([a, b])):
    times = work()
    memory.read(b, z.ctypes.data, 4000)
    print(times is None or len(times), np.abs(z - y - (1 if times else 2) * (x / 2 - 3)).max())
exe.close()
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "0.0", "True", "0.0"], done.stdout
