"""Measuring on the cuda device, over a driver whose memory is the host's: what a fault of the GPU costs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cuda_build import needs_cxx
from fake_cuda import FAULT, SPEC, FakeCudaDevice
from measure_fakes import N, double, right, signature
from tilewright import devices
from tilewright.ir.node import const
from tilewright.measure import Measurer, Outcome
from tilewright.plan import Built
from tilewright.program.program import Signature
from tilewright.renderers import Source

pytestmark = needs_cxx


def built(body: str, name: str) -> Built:
    """`double` with one thread an element; `body` goes before it is stored."""
    text = f"""// {name}
extern "C" __global__ void __launch_bounds__(64) double_p0(const float* __restrict__ x, float* __restrict__ y) {{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= {N}) return;
    float v = 2.0f * x[i];
    {body}
    y[i] = v;
}}"""
    one = signature(N, 0)
    device = devices.get(SPEC)
    source = Source(text, "cuda", device.target, Signature(one.name, one.params, (), (const(-(-N // 64)),), 0, 0, (64,)))
    return Built((name,), source, frozenset(), name, 0.0, 0.0, device.build(source), 0.0)


@pytest.fixture(scope="module")
def m() -> Iterator[Measurer]:
    with Measurer(double(), SPEC, 1, builders=1, deadline_s=2.0) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def good() -> Built:
    return built("", "good")


@pytest.mark.slow
def test_right_candidates_are_verified_and_timed(m: Measurer, good: Built) -> None:
    first, second = m.measure([good, built("v = x[i] + x[i];", "other")])
    assert first.ok and right(second) and first.t_min is not None and 0 < first.t_min < 1


FAULTS = {
    FAULT: (Outcome.crash, "illegal address"),
    "if (i == 77) y[(1ll << 40) + i] = 1.0f;": (Outcome.crash, "illegal address"),
    f"if (i == {N - 1}) y[{N}] = v;": (Outcome.wrong, "wrote outside y, past its end"),
    "if (i == 4999) return;": (Outcome.wrong, ""),
    "while (i == 5) {}": (Outcome.timeout, "did not return within"),
}


@pytest.mark.slow
def test_faults_have_their_outcomes_and_the_worker_is_replaced(m: Measurer, good: Built) -> None:
    before, *bad, after = m.measure([good, *(built(body, body) for body in FAULTS), good])
    assert right(before, after), (before, after)
    for got, (body, (outcome, detail)) in zip(bad, FAULTS.items(), strict=True):
        assert got.outcome is outcome and detail in got.detail, (body, got)


@pytest.mark.slow
def test_the_device_is_not_opened_in_this_process(m: Measurer, good: Built) -> None:
    assert m.measure([good])[0].ok
    device = devices.get(SPEC)
    assert isinstance(device, devices.Device) and "driver" not in vars(device) and type(device).__name__ == FakeCudaDevice.__name__


@pytest.mark.parametrize("cores, builders", [(16, 15), (1, 1)])
def test_builders_have_the_cores_that_the_runner_leaves(monkeypatch: pytest.MonkeyPatch, cores: int, builders: int) -> None:
    """The GPU is what is timed: nobody is paused for it, unless there is one core."""
    started: list[int] = []

    class Pool:
        group = 0

        def __init__(self, setup: object, count: int, deadline_s: float, free: int) -> None:
            started.append(count)

        def close(self) -> None:
            pass

    monkeypatch.setattr("tilewright.measure.measurer.BuildPool", Pool)
    monkeypatch.setattr("tilewright.measure.measurer.usable_cores", lambda: cores)
    monkeypatch.setattr(Measurer, "_start_runner", lambda self, prepared: None)
    with Measurer(double(), SPEC) as m:
        assert started == [builders] and m._pause == (cores == 1)
