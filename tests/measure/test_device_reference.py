"""The reference as a kernel of its own, for devices: its values and bounds are the host's, and so is every verdict that follows."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_build import needs_cxx, needs_nvrtc
from fake_cuda import FakeCudaDevice
from tilewright import named_kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.executable import CudaMemory
from tilewright.ir import DeviceError, Kernel, MeasureError
from tilewright.ir.evaluation import evaluate, evaluate_error, evaluate_points
from tilewright.ir.evaluation.bounded import ERROR, bounded
from tilewright.measure.bench import Data, RunnerSetup
from tilewright.measure.checking import compiled_references as device_reference
from tilewright.measure.checking.compiled_references import FLAGS, WEIGHT, DeviceReference, expectation_kernel, plan
from tilewright.measure.checking.exact_sums import is_exact
from tilewright.measure.checking.verify import expectations
from tilewright.measure.inputs import generate, shape
from tilewright.measure.operands import DeviceOperands, Operands
from tilewright.measure.outcome import Outcome
from tilewright.measure.processes import runner as processes_runner
from tilewright.measure.processes.child import Candidate
from tilewright.measure.processes.runner import Runner
from tilewright.opts.defaults import plain_threads
from tilewright.plan import Built, compile, render

KNOWN = [
    "matmul",
    "matmul_bias_relu",
    "batched_matmul",
    "conv2d",
    "conv2d_dw",
    "max_pool2d",
    "sum_rows",
    "attention_delta",
    "add",
    "matmul_bias_gelu",
    "softmax",
    "gelu",
    "embedding",
    "layernorm",
]


def small(name: str, of: str) -> Kernel:
    return named_kernels.make(name, named_kernels.get(name).odd_shape, of)


@pytest.mark.many
@pytest.mark.parametrize("of", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.covering
def test_values_and_errors_are_those_of_the_evaluation(name: str, of: str) -> None:
    kernel = small(name, of)
    made = bounded(kernel)
    assert made is not None and [b.name for b in made.inputs] == [b.name for b in kernel.inputs]
    inputs = generate(kernel, {}, 3)
    got = evaluate(made, inputs)
    for output, (value, scale) in evaluate_error(kernel, inputs).items():
        b = next(b for b in kernel.outputs if b.name == output)
        error = scale * b.dtype.acc.eps
        np.testing.assert_allclose(got[output], value, rtol=1e-13, atol=1e-13 * float(np.abs(value).max()))
        np.testing.assert_allclose(got[output + ERROR], error, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["attention", "argmax", "cumsum", "embedding_grad", "matmul_int8"])
def test_what_has_no_formula_is_left_to_the_host(name: str) -> None:
    workload = named_kernels.get(name)
    kernel = named_kernels.make(name, workload.odd_shape, "float32" if "float32" in workload.dtypes else None)
    assert bounded(kernel) is None and expectation_kernel(kernel, False) is None


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("of", ["float32", "bfloat16"])
def test_weights_and_flags_are_the_verifiers(of: str, whole: bool) -> None:
    kernel = small("matmul", of)
    inputs = generate(kernel, {}, 5, whole)
    exact = whole and is_exact(kernel, {})
    assert exact == whole
    made = expectation_kernel(kernel, exact)
    assert made is not None
    got = evaluate(made, inputs)
    want = expectations(kernel, inputs, {}, whole)["c"]
    assert (got["c" + FLAGS] == 0).all() and want.special is None
    value = got["c"].reshape(-1)
    if exact:  # the evaluation in float64 does not round to the output's type, as the code does
        value = value.astype(np.float32).astype(kernel.outputs[0].dtype.np).astype(np.float64)
    np.testing.assert_allclose(value, want.value, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(got["c" + WEIGHT].reshape(-1).astype(np.float32), want.weight, rtol=1e-6)


def test_points_are_parts_of_the_whole() -> None:
    kernel = small("conv2d", "float32")
    inputs = generate(kernel, {}, 3)
    value, scale = evaluate_error(kernel, inputs)["y"]
    at, some, scales = evaluate_points(kernel, inputs, 20, 1)["y"]
    assert 10 < len(at) <= 22 and at[0] == 0 and at[-1] == value.size - 1
    np.testing.assert_allclose(some, value.reshape(-1)[at], rtol=1e-12)
    np.testing.assert_allclose(scales, scale.reshape(-1)[at], rtol=1e-12)


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("name, dims", [("matmul", dict(m=4096, n=4096, k=4096)), ("conv2d", {})])
def test_the_plain_schedule_has_a_thread_an_element_and_builds(name: str, dims: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = named_kernels.make(name, dims or None, "bfloat16")
    made = expectation_kernel(kernel, False)
    assert made is not None
    device = FakeCudaDevice()
    opts = plain_threads(made, device.target)
    assert opts and all(o.op == "LOCAL" for o in opts)
    source = render(made, opts, device).source
    assert source.signature.threads == (256,) and len(source.signature.items) == 1
    _, log = nvrtc.compile(source.text, "sm_90a")
    assert all(t.spill_stores == 0 for t in nvrtc.resources(log).values())


class Judging(FakeCudaDevice):
    compares = True

    def memory(self) -> CudaMemory:
        return CudaMemory(self._open())


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_reference, "DEVICE_FLOPS", 0.0)


def planned(kernel: Kernel, device: Judging, whole: bool) -> tuple[DeviceReference, dict[str, Any]]:
    inputs = generate(kernel, {}, 5, whole)
    reference = plan(kernel, device, inputs, whole and is_exact(kernel, {}))
    assert reference is not None
    return reference, inputs


def operands(kernel: Kernel, inputs: dict[str, Any], memory: CudaMemory) -> DeviceOperands:
    shapes = [shape(b, kernel, {}) for b in kernel.buffers]
    return DeviceOperands(Operands([b.name for b in kernel.buffers], [b.dtype for b in kernel.buffers], shapes, inputs), memory)


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("name, whole", [("matmul", True), ("matmul_bias_gelu", False)])
def test_the_device_makes_the_references_and_judges_by_them(light: None, name: str, whole: bool) -> None:
    kernel, device = small(name, "bfloat16"), Judging()
    reference, inputs = planned(kernel, device, whole)
    memory = device.memory()
    there = operands(kernel, inputs, memory)
    expect = reference.compute(device, there, memory)["c"]
    host = expectations(kernel, inputs, {}, whole)["c"]
    right = host.value.astype(host.dtype.np)
    out = there.checked[-1]
    memory.write(out, right.ctypes.data, right.nbytes)
    assert expect.check(out).ok
    wrong = right.copy()
    wrong[17] = -wrong[17] - 1
    memory.write(out, wrong.ctypes.data, wrong.nbytes)
    assert "is " in expect.check(out).detail and not expect.check(out).ok and "1 of" in expect.check(out).detail


@needs_cxx
@pytest.mark.slow
def test_a_reference_that_is_not_the_hosts_is_refused(light: None) -> None:
    """As where the device computes with other inputs."""
    kernel, device = small("matmul", "float32"), Judging()
    reference, inputs = planned(kernel, device, False)
    memory = device.memory()
    there = operands(kernel, {n: a * np.float32(1.001) for n, a in inputs.items()}, memory)
    before = len(device.driver.memory_)
    with pytest.raises(DeviceError, match=r"the device's reference of c is .* at \d+, the host's"):
        reference.compute(device, there, memory)
    assert len(device.driver.memory_) <= before + 1  # what compares has a buffer of its own


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("believed", [True, False])
def test_the_runner_measures_by_the_devices_reference(light: None, believed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the device's own is not believed, the worker makes the host's."""
    if not believed:
        monkeypatch.setattr(device_reference, "CLOSE", -1.0)
    kernel, device = small("matmul", "float32"), Judging()
    good = compile(kernel, (), device)
    right, wrong = (Candidate(g.obj, g.signature) for g in (good, _spoilt(good, device)))
    for task in (right, wrong):  # the children have what this process has compiled
        device.load(task.obj, task.signature, 1).close()
    reference, inputs = planned(kernel, device, False)
    with suppress(DeviceError):
        reference.compute(device, operands(kernel, inputs, device.memory()), device.memory())
    runner = Runner(RunnerSetup(kernel, None, 1, {}, 60.0, 1 << 30), device)
    try:
        bench = runner.bench(Data(1))
        assert bench.reference is not None and not bench.checker.comparers
        first = runner.measure(right, Data(1), None, False)
        second = runner.measure(wrong, Data(1), None, False)
    finally:
        runner.end_child()
    assert first.outcome is Outcome.ok and first.error is not None and first.error <= 1.0
    assert second.outcome is Outcome.wrong and "elements wrong" in second.detail and "expected" in second.detail


class Silent(Judging):
    """Its driver answers nobody."""

    def memory(self) -> CudaMemory:
        time.sleep(60)
        raise AssertionError("it was waited for")


def test_a_driver_that_does_not_answer_ends_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """After DRIVER_S seconds, not after those that a step of ours may take."""
    monkeypatch.setattr(processes_runner, "DRIVER_S", 0.3)
    kernel, device = small("add", "float32"), Silent()
    runner = Runner(RunnerSetup(kernel, None, 1, {}, 0.3, 1 << 30), device)
    with pytest.raises(MeasureError, match=r"cannot be used: its driver did not answer within 0\.3 s"):
        runner.measure(Candidate(b"", None), Data(1), None, False)  # type: ignore[arg-type]
    assert runner.end_child() is None


def _spoilt(built: Built, device: Judging) -> Built:
    """The same, with another sum."""
    text = built.source.text
    assert "fmaf(" in text
    source = replace(built.source, text=text.replace("fmaf(", "1.01f * fmaf("))
    return replace(built, source=source, obj=device.build(source))


def test_kernels_that_are_soon_done_are_left_to_the_host() -> None:
    kernel = small("matmul", "float32")
    assert plan(kernel, Judging(), generate(kernel, {}, 1), False) is None
    assert targets.named("sm_90a").kind == "gpu" and plan(kernel, FakeCudaDevice(), {}, False) is None
