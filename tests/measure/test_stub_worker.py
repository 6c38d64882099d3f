"""Measuring on a stub GPU, end to end: the worker opens the real driver package, results stay on the device to be compared, and what
goes wrong costs what it should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from measure_fakes import N, double, right, signature
from stub_cuda import SPEC, environment, needs_stub
from tilewright import devices
from tilewright.devices.cuda.device import forget
from tilewright.ir import MeasureError
from tilewright.ir.node import const
from tilewright.measure import Measurer, Outcome
from tilewright.plan import Built
from tilewright.program.program import Signature
from tilewright.renderers import Source

pytestmark = [needs_stub, pytest.mark.slow]


def built(body: str, name: str, work: int = 0) -> Built:
    """`double` with one thread an element; `body` goes before it is stored."""
    text = f"""// {name}
extern "C" __global__ void __launch_bounds__(64) double_p0(const float* __restrict__ x, float* __restrict__ y{", float* work" if work else ""}) {{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= {N}) return;
    float v = 2.0f * x[i];
    {body}
    y[i] = v;
}}"""
    one = signature(N, 0)
    device = devices.get(SPEC)
    source = Source(text, "cuda", device.target, Signature(one.name, one.params, (), (const(-(-N // 64)),), 0, work, (64,)))
    return Built((name,), source, frozenset(), name, 0.0, 0.0, device.build(source), 0.0)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[str]:
    """The stub for processes that this one starts; the path of its log."""
    log = f"{tmp_path}/log"
    for name, value in environment(STUB_LOG=log).items():
        monkeypatch.setenv(name, value)
    yield log
    forget()


def test_candidates_on_a_stub_gpu(stub: str) -> None:
    """A fault costs one worker, and nobody beside it is blamed; want of memory costs none."""
    good = built("", "good")
    bad = {
        built("if (i == 77) y[(1 << 28) + i] = 1.0f;", "illegal address"): (Outcome.crash, "illegal memory access"),
        built("", "memory", 1 << 40): (Outcome.crash, "the GPU's memory is in use or too small"),
        built("if (i == 4999) return;", "unwritten"): (Outcome.wrong, "1 of 5000 elements wrong, 1 hold the poison they began with"),
        built("if (i == 17) v *= 1.001f;", "off"): (Outcome.wrong, "y[17] is "),
        built(f"if (i == {N - 1}) y[{N}] = v;", "past the end"): (Outcome.wrong, "wrote outside y, past its end"),
    }
    with Measurer(double(), SPEC, 1, builders=1, deadline_s=20.0) as m:
        before, *got, after = m.measure([good, *bad, good])
        confirmed = m.confirm(good)
    assert before.ok and right(after) and confirmed.ok, (before, after, confirmed)
    for g, (outcome, detail) in zip(got, bad.values(), strict=True):
        assert g.outcome is outcome and detail in g.detail, g
    assert before.clocks["sm_mhz"] == 1755 and before.clocks["throttle"] == ["power cap"]
    assert confirmed.checks == ("whole", "fresh", confirmed.checks[2]) and confirmed.compared > 16
    said = Path(stub).read_text()
    # an output is 20 000 bytes: it came to the host only to be compared by NumPy once on each kind of inputs, where it is wrong, and for the report
    assert said.count("cuLaunchKernel compare_float32") > 5 and said.count("cuLaunchKernel compare_uint32") > 10
    assert said.count("cuMemcpyDtoH 20000") <= 12
    assert said.count("fault: ") == 2  # beside others, and alone


def test_an_endless_kernel_is_ended_with_its_worker(stub: str) -> None:
    with Measurer(double(), SPEC, 1, builders=1, deadline_s=8.0) as m:
        first, endless, after = m.measure([built("", "good"), built("while (i == 5) {}", "endless"), built("", "good")])
    assert first.ok and right(after) and endless.outcome is Outcome.timeout and "did not return within" in endless.detail


def test_another_processs_memory_fills_the_card(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_FREE", "0")
    good = built("", "good")
    with (
        Measurer(double(), SPEC, 1, builders=1) as m,
        pytest.raises(
            MeasureError, match=r"cannot be used for measuring: .*0 of 2048 MiB are free: .*out of memory.*end other programs on it"
        ),
    ):
        m.measure([good])


def test_without_room_for_references_the_host_compares(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands take 10 328 KiB (sets of them are rotated past the cache), the reference and what compares 64 more."""
    monkeypatch.setenv("STUB_FREE", "10345")
    good = built("", "good")
    with Measurer(double(), SPEC, 1, builders=1, deadline_s=20.0) as m:
        (got,) = m.measure([good])
    assert got.ok
    said = Path(stub).read_text()
    assert said.count("cuMemcpyDtoH 20000") > 2  # with room it is one: NumPy's comparison of the first candidate
