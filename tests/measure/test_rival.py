"""A schedule beside PyTorch: both are right, take turns, and whatever one side cannot is told and not raised."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tilewright import devices, named_kernels
from tilewright.ir import MeasureError, UsageError
from tilewright.ir.evaluation import evaluate
from tilewright.measure.inputs import generate
from tilewright.measure.rival import torch_side, versus
from tilewright.measure.rival import versus as environment
from tilewright.opts import Opt

STUB = Path(__file__).resolve().parents[1] / "torch_stub"
SHAPE = {"m": 32, "n": 48, "k": 16}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """PyTorch is NumPy, in other processes too."""
    monkeypatch.setenv("PYTHONPATH", str(STUB))
    monkeypatch.delenv("TORCH_STUB", raising=False)
    return monkeypatch


def play(device: str = "cpu", place: str = "", opts: tuple[Opt, ...] = (Opt("UPCAST", "n", 8),)) -> versus.Versus:
    how = versus.Rivalry(sys.executable, 3, place=place)
    return versus.against_library("matmul", SHAPE, "float32", opts, devices.get(device), 1, how)


@pytest.mark.slow
def test_both_sides_play_the_same_inputs_in_turns(stub: pytest.MonkeyPatch) -> None:
    found = play()
    assert not found.why and found.version == "0.stub" and found.rounds == 3
    assert found.ratio and found.ours_s and found.theirs_s and found.noise is not None
    assert found.difference is not None and found.difference < 1e-6
    assert "PyTorch 0.stub" in found.text and f"{found.ratio:.2f}x" in found.text
    assert found.to_json()["ratio"] == found.ratio


def test_the_largest_difference_is_relative(tmp_path: Path) -> None:
    np.save(tmp_path / "ours.npy", np.array([[1.0, -4.0]], np.float32))
    np.save(tmp_path / "rival.npy", np.array([1.5, -4.0], np.float64))
    assert versus.difference(tmp_path) == 0.125


@pytest.mark.slow
def test_a_rival_that_cannot_is_told(stub: pytest.MonkeyPatch) -> None:
    found = play(place="cuda")
    assert found.ratio is None and "cannot use the GPU: install a build for CUDA" in found.why and "could not" in found.text
    stub.setenv("TORCH_STUB", "die")
    assert "its process ended" in play().why


@pytest.mark.slow
def test_our_own_failure_is_an_error(stub: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasureError, match=r"our own side failed: .*UPCAST"):
        play(opts=(Opt("UPCAST", "nothing", 8),))


def _has_torch() -> bool:
    from importlib.util import find_spec

    return find_spec("torch") is not None


@pytest.mark.slow
@pytest.mark.skipif(not _has_torch(), reason="PyTorch is not installed (the extra torch)")
def test_every_twin_computes_the_same() -> None:
    """In this process: PyTorch takes two seconds to begin, in another for each kernel."""
    import torch

    for name in sorted(torch_side.KERNELS - {"matmul_mixed"}):  # which is on GPUs only
        declared = named_kernels.get(name)
        shape = {k: v for k, v in declared.odd_shape.items() if isinstance(v, int)}
        kernel = named_kernels.make(name, shape, declared.dtypes[0])
        given = generate(kernel, {}, 0)
        with torch.no_grad():
            found = torch_side.twin(torch, name, {k: torch.from_numpy(x) for k, x in given.items()}, declared.complete(shape))().numpy()
        wanted = evaluate(kernel, given)[kernel.outputs[0].name]
        assert np.abs(found.reshape(wanted.shape) - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1e-30), name


@pytest.mark.slow
@pytest.mark.skipif(not _has_torch(), reason="PyTorch is not installed (the extra torch)")
def test_pytorch_itself_is_a_side() -> None:
    how = versus.Rivalry(rounds=1)
    found = versus.against_library("softmax", {"m": 5, "n": 37}, "float32", (), devices.get("cpu"), 1, how)
    assert not found.why and found.difference is not None and found.difference < 1e-5


def test_what_has_a_twin() -> None:
    assert set(named_kernels.NAMES) >= torch_side.KERNELS
    assert torch_side.has_twin("matmul", "bfloat16") and torch_side.has_twin("matmul", "int8")
    assert not torch_side.has_twin("attention_dq", "float32") and not torch_side.has_twin("softmax", "int8")


def test_what_cannot_be_compared_is_refused_before(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = devices.get("cpu")
    with pytest.raises(UsageError, match="no one call for attention_dq of float32"):
        versus.check("attention_dq", "float32", cpu)
    with pytest.raises(UsageError, match="cannot run /nowhere/python"):
        versus.check("matmul", "float32", cpu, "/nowhere/python")
    monkeypatch.setattr(versus, "_TELLS", "raise SystemExit(1)")
    with pytest.raises(UsageError, match=r"not installed in .*pip install 'tilewright\[torch\]'.*--against torch:PYTHON"):
        versus.check("matmul", "float32", cpu)
    from fake_gpu import FakeGpu

    with pytest.raises(UsageError, match="on the devices cpu and cuda, not on fake-cuda"):
        versus.place(FakeGpu())
    assert versus.place(cpu) == "cpu"


def test_variables_that_slow_a_rival_are_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENBLAS_CORETYPE",
        "MKL_CBWR",
        "KMP_AFFINITY",
        "ATEN_CPU_CAPABILITY",
        "NVIDIA_TF32_OVERRIDE",
        "CUDA_LAUNCH_BLOCKING",
    ):
        monkeypatch.setenv(name, "1")
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    env = environment.environment(3)
    assert not {n for n in env if n.startswith(environment.SLOWING)} - {
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
    }
    assert env["OMP_NUM_THREADS"] == "3" and env["PATH"]


def test_events_share_a_groups_mean() -> None:
    """The GPU is held before the first event, and short calls are timed in groups."""
    seen: list[str] = []

    class Event:
        at = 0.0

        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            seen.append("event")
            Event.at += 1.0
            self.mine = Event.at

        def elapsed_time(self, other: Event) -> float:
            return other.mine - self.mine

    class Cuda:
        synchronize = staticmethod(lambda: seen.append("wait"))
        _sleep = staticmethod(lambda cycles: seen.append("hold"))

    Cuda.Event = Event  # type: ignore[attr-defined]
    torch = type("Torch", (), {"cuda": Cuda})
    times = torch_side.timed_by_events(torch, lambda: seen.append("call"), 10, 1e-5)
    assert times == [pytest.approx(1e-3 / 5)] * 10
    assert seen == ["hold", "event", *["call"] * 5, "event", *["call"] * 5, "event", "wait"]
