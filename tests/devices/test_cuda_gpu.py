"""On a machine with an NVIDIA GPU: the same checks as without one, on the GPU. Skipped where there is none."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from cuda_build import needs_cxx
from cuda_text import STARTS, sources
from tilewright import devices, named_kernels
from tilewright.devices.cuda.device import CudaDevice
from tilewright.devices.cuda.host import run_on_host
from tilewright.heuristics import starts
from tilewright.ir import DeviceError
from tilewright.ir.dtypes import DType, dtype
from tilewright.ir.node import const
from tilewright.measure import Measurer, Outcome
from tilewright.measure.checking.compare import trusted
from tilewright.measure.checking.compiled_references import plan
from tilewright.measure.inputs import generate, shape
from tilewright.plan import Built, best, compile
from tilewright.plan.compiled_kernel import Copying
from tilewright.program.program import Signature
from tilewright.renderers import Source

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu() -> CudaDevice:
    device = devices.get("cuda")
    try:
        device.check()
    except DeviceError as e:
        pytest.skip(f"no GPU: {e}")
    assert isinstance(device, CudaDevice)
    return device


@pytest.mark.parametrize("name", STARTS)
def test_start_schedules_are_right(gpu: CudaDevice, name: str) -> None:
    """Verified on the whole output and timed, by the worker; the schedules of the usual size."""
    kernel = named_kernels.make(name, None, STARTS[name])
    with Measurer(kernel, "cuda", builders=4) as m:
        for got in m.measure([compile(kernel, opts, gpu) for opts in starts(kernel, gpu.target)[:4]]):
            assert got.ok and got.t_min is not None and got.t_min > 0, got


APPROXIMATE = "exp2_approx("
"""What text calls where a GPU computes otherwise than the processor: ex2.approx.f32, whose relative error is 2**-22 (PTX ISA)."""


@needs_cxx
@pytest.mark.parametrize("name", STARTS)
def test_the_gpu_and_the_processor_give_the_same_bits(gpu: CudaDevice, name: str) -> None:
    kernel = named_kernels.make(name, named_kernels.get(name).odd_shape, STARTS[name])
    inputs = generate(kernel, {}, 3)
    for _, source in sources(kernel, starts(kernel, gpu.target)[:2], gpu.target):
        here = {b.name: np.zeros(shape(b, kernel, {}), b.dtype.np) for b in kernel.outputs}
        there = {n: a.copy() for n, a in here.items()}
        run_on_host(source, {**inputs, **here})
        exe = Copying(gpu.load(gpu.build(source), source.signature, 1), gpu.memory())
        exe.run([{**inputs, **there}[p.name].ctypes.data for p in source.signature.params])
        exe.close()
        for n, a in here.items():
            if APPROXIMATE in source.text:
                np.testing.assert_allclose(there[n].astype(float), a.astype(float), rtol=2e-5, atol=1e-6)
            else:
                assert a.tobytes() == there[n].tobytes(), f"{n} of {source.signature.name}"


def test_pytorchs_tensors_on_its_stream_and_in_a_graph(gpu: CudaDevice) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch was built without CUDA")
    shape = {"m": 64, "n": 96, "k": 128}
    for kind in ("float32", "bfloat16"):
        kernel = best("matmul", shape, kind, device=gpu)
        a, b = (torch.randn(*s, device="cuda").to(getattr(torch, kind)) for s in ((64, 128), (128, 96)))
        want = a.float() @ b.float()
        made = kernel(a, b)
        assert made.dtype == a.dtype and torch.allclose(made.float(), want, rtol=2e-2, atol=0.3)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            out = torch.zeros_like(made)
            kernel(a, b, out=out)
            stream.synchronize()
            assert torch.equal(out, made)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                kernel(a, b, out=out)
            out.zero_()
            graph.replay()
            stream.synchronize()
            assert torch.equal(out, made)


def test_a_fault_costs_one_worker(gpu: CudaDevice) -> None:
    kernel = named_kernels.make("add", {"n": 4096}, "float32")
    good = compile(kernel, starts(kernel, gpu.target)[0], gpu)
    bad = _hand(gpu, good, "p[(1ll << 44) + threadIdx.x] = 1.0f;")
    endless = _hand(gpu, good, "while (*(volatile float*)p != 1e30f) {}")
    with Measurer(kernel, "cuda", builders=1, deadline_s=3.0) as m:
        before, fault, hang, after = m.measure([good, bad, endless, good])
    assert before.ok and after.ok, (before, after)
    assert fault.outcome is Outcome.crash and "lost" not in fault.detail, fault
    assert hang.outcome is Outcome.timeout, hang


def _hand(gpu: CudaDevice, like: Built, body: str) -> Built:
    s = like.signature
    args = ", ".join(f"float* {'p' if p.role == 'out' else p.name}" for p in s.params)
    text = f'extern "C" __global__ void {s.name}_p0({args}) {{ {body} }}'
    one = Signature(s.name, s.params, (), (const(1),), 0, 0, (32,))
    source = Source(text, "cuda", gpu.target, one)
    return Built((), source, frozenset(), body, 0.0, 0.0, gpu.build(source), 0.0)


def test_limits_are_those_of_a_gpu(gpu: CudaDevice, monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    limits = gpu.limits(probe=True)
    assert limits is not None
    r = limits.rates[1]
    assert r.peak_f32 >= r.peak_f64 > 0 and min(r.read, r.copy, r.copy_nt, r.triad, r.triad_nt) > 0


def test_a_hold_lasts_until_it_is_released(gpu: CudaDevice) -> None:
    """And its own count of cycles is a clock that such a GPU can have."""
    s = gpu._open()
    with s.lock:
        s.use()
        s.wake()
        with s.held():
            time.sleep(0.02)
        s.wait()
        s.hold_clock()
        assert s.complete() and s._word[2] >= 15e6
    assert 200 <= s.clocks["sm_mhz_held"] <= 4000


COMPARED = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]


@pytest.mark.parametrize("of", [dtype(n) for n in COMPARED], ids=lambda d: d.name)
def test_the_gpu_judges_as_numpy_does(gpu: CudaDevice, of: DType) -> None:
    memory = gpu.memory()
    trusted(of, np.ones(1, np.float32), memory)
    if not of.is_float:
        trusted(of, None, memory)


def test_a_heavy_reference_is_computed_on_the_gpu(gpu: CudaDevice) -> None:
    """4096³: the worker makes it, 64 of its points are the host's, and candidates are judged by it."""
    kernel = named_kernels.make("matmul", {"m": 4096, "n": 4096, "k": 4096}, "bfloat16")
    inputs = generate(kernel, {}, 0)
    assert plan(kernel, gpu, inputs, False) is not None
    with Measurer(kernel, "cuda", builders=4) as m:
        (got,) = m.measure([compile(kernel, starts(kernel, gpu.target)[0], gpu)])
    assert got.ok and got.error is not None and 0 < got.error <= 1, got
