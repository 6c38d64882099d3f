"""tune run beside other figures: PyTorch, the peak of a GPU's units, its clocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_gpu import FakeGpu
from tilewright.cli.terminal.live import Quiet
from tilewright.cli.terminal.style import flops
from tilewright.cli.tuning import run as rivals
from tilewright.ir import MeasureError
from tilewright.measure.outcome import Measurement, Outcome
from tilewright.measure.rival.versus import Versus
from tilewright.search.result import Job, make

from .conftest import Tune
from .test_run import RUN, Search, search

__all__ = ["search"]
WON = Versus("2.9", 1.25, 0.015, True, 1e-5, 1.25e-5, 10, 2e-7)


@pytest.fixture
def rival(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """PyTorch is there; what it was asked."""
    asked: list[Any] = []

    def compare(*given: Any) -> Versus:
        asked.append(given)
        return WON

    monkeypatch.setattr("tilewright.measure.rival.versus.check", lambda *given: asked.append(given))
    monkeypatch.setattr("tilewright.measure.rival.versus.against_library", compare)
    return asked


def test_the_summary_and_the_json_have_the_rival(tune: Tune, search: Search, rival: list[Any], tmp_path: Path) -> None:
    done = tune(*RUN, "--against", "torch:/some/python", "--json", str(tmp_path / "r.json"))
    assert done.code == 0, done.err
    assert "against" in done.out and "1.25x as fast as PyTorch 2.9 ±1.5 % (12.5 µs), in 10 rounds; outputs differ by 2e-07" in done.out
    assert json.loads((tmp_path / "r.json").read_text())["against"]["torch"]["ratio"] == 1.25
    (kernel, dtype, _, python, library), (*job, how) = rival
    assert (kernel, dtype, python, library) == ("matmul", "float32", "/some/python", "torch")
    assert job[0] == "matmul" and job[1] == {"m": 64, "n": 48, "k": 32} and how.python == "/some/python" and how.spec == "cpu"


def test_a_comparison_that_fails_leaves_the_result(tune: Tune, search: Search, rival: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> Versus:
        raise MeasureError("our own side failed: no memory")

    monkeypatch.setattr("tilewright.measure.rival.versus.against_library", fails)
    done = tune(*RUN, "--against", "torch")
    assert done.code == 0 and "tuned and verified" in done.out and "PyTorch could not: our own side failed: no memory" in done.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--kernel", "matmul", "--against", "jax"], "--against takes torch, torch:PYTHON for another interpreter, or numpy"),
        (["--kernel", "attention", "--against", "numpy"], "NumPy has no call or two for attention of float32; it is compared for add,"),
        (["--kernel", "my.py:f", "--against", "torch"], "PyTorch knows no others"),
        (["--kernel", "attention_dq", "--against", "torch"], "no one call for attention_dq of float32"),
        (["--manifest", "x.toml", "--against", "torch"], "--against is for one --kernel"),
    ],
)
def test_what_cannot_be_compared_is_said_before_the_search(tune: Tune, search: Search, args: list[str], said: str) -> None:
    done = tune("run", *args)
    assert done.code == 2 and said in done.err and not search.given


def test_the_share_of_a_gpus_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.devices.get", lambda spec: FakeGpu())
    job = Job("matmul", {"m": 64, "n": 64, "k": 64}, "bfloat16", "fake-cuda", 1, "portfolio", 2 * 64**3, 3 * 2 * 64**2)
    share = rivals.peak_share(make(job, t_min=1e-3), "fake")
    assert share is not None and share.unit == "tensor cores" and share.flops_s == pytest.approx(16 * 6e7, rel=0.05)
    assert share.percent == pytest.approx(100 * 2 * 64**3 / 1e-3 / share.flops_s)
    assert share.text.endswith(" GFLOP/s by tensor cores") and " % of " in share.text
    rows = rivals.comparison_rows(share, {"sm_mhz": 1755, "power_w": 610.4, "throttle": ["power cap"]}, WON)
    assert list(rows) == ["peak", "clocks", "against"] and rows["clocks"] == "multiprocessors at 1755 MHz, 610 W, slowed by power cap"
    assert set(rivals.facts(share, {"sm_mhz": 1755}, WON)) == {"peak", "clocks", "against"}
    assert rivals.comparison_rows(None, {}, None) == rivals.facts(None, {}, None) == {}


def test_the_clocks_are_those_of_the_best() -> None:
    shown = Quiet("", None, None)
    for t, mhz in ((2e-3, 1980), (1e-3, 1755), (3e-3, 1200)):
        shown.candidate(Measurement((), Outcome.ok, t, t, 3, clocks={"sm_mhz": mhz}))
    shown.candidate(Measurement((), Outcome.wrong))
    assert shown.clocks == {"sm_mhz": 1755}


def test_large_rates_are_in_teraflops() -> None:
    assert flops(9999) == "9999 GFLOP/s" and flops(61700) == "61.7 TFLOP/s" and flops(1.2e6) == "1200 TFLOP/s" and flops(None) == "-"
