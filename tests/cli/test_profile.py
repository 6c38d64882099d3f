"""`tune profile`: what is counted, what is said of it, and how the script is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tilewright.cli.functions.profile import Profile, ProfileRow, coloured, gains
from tilewright.named_kernels import get
from tilewright.tensor.running.observers import Event

from .conftest import Tune

SCRIPT = """
import sys
import numpy as np
import beside
from tilewright import Tensor, jit

x = Tensor(np.ones((64, 64), np.float32))
step = jit(lambda x: x @ x + 1.0)  # NumPy would compute eager code of this size
for _ in range(3):
    y = step(x).numpy()
print("arguments", sys.argv[1:], beside.VALUE, __name__)
sys.exit(7 if "--fail" in sys.argv else 0)
"""


def row(origin: str, seconds: float, roofline_s: float | None, name: str = "k") -> ProfileRow:
    return ProfileRow(name, "cpu", 10, seconds, 100, 100, roofline_s, origin, 1)


def test_what_would_gain_most_is_the_distance_to_the_roofline_of_all_calls() -> None:
    rows = [
        row("exact", 9.0, 0.1),
        row("start", 1.0, 0.05, "near"),
        row("nearest", 0.9, 0.01, "far"),
        row("NumPy", 5.0, None),
        row("start", 0.1, 0.02),
    ]
    assert [(r.name, round(s, 6)) for r, s in gains(rows)] == [("far", 0.8), ("near", 0.5)]
    assert gains([row("start", 0.5, None)])[0][1] == 0.5 and row("start", 1e-6, None).gflops == pytest.approx(1.0)


def test_calls_of_equal_kernels_are_one_row_and_the_rest_is_python() -> None:
    a, b = (get("add").kernel({"m": 4, "n": 4}, "float32") for _ in range(2))
    profile = Profile(keep=True, wall=1.0, begin=5.0)
    for kernel, at in ((a, 5.0), (b, 5.5)):
        profile.told(Event("kernel", "add", at, 0.125, "cpu", kernel, 1))
    profile.told(Event("build", "add", 5.25, 0.25, "cpu", a))
    profile.told(Event("numpy", "sort", 5.75, 0.0625, "cpu"))
    assert [(r.name, r.calls, r.seconds, r.nbytes) for r in profile.rows()] == [("add", 2, 0.25, 3 * 64), ("sort", 1, 0.0625, 0)]
    assert profile.others()["looking up and building kernels"] == (1, 0.25)
    assert profile.others()["Python, and all else"] == (0, 0.4375)
    events = [e for e in profile.trace()["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["ts"], e["dur"], e["tid"]) for e in events[:2]] == [("add", 0.0, 125000.0, 1), ("add", 500000.0, 125000.0, 1)]


def test_names_are_coloured_by_part() -> None:
    text = coloured("matmul+add")
    assert text.plain == "matmul+add" and len({str(s.style) for s in text.spans}) == 3


@pytest.mark.slow
def test_a_script_is_run_as_python_runs_it_and_its_kernels_counted(
    tune: Tune, tmp_path: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("VALUE = 3")
    trace, figures = tmp_path / "t.json", tmp_path / "f.json"
    done = tune("profile", "--trace", str(trace), "--json", str(figures), str(script), "--fail", "1")
    assert done.code == 7 and "arguments ['--fail', '1'] 3 __main__" in done.out, done.err
    assert "matmul+add" in done.out and "what" not in done.err and "start" in done.out and "Python" in done.out
    (kernel,) = json.loads(figures.read_text())["kernels"]
    assert (kernel["name"], kernel["calls"], kernel["origin"]) == ("matmul+add", 3, "start") and kernel["roofline_s"] > 0
    assert sum(e["cat"] == "kernel" for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X") == 3
    script.write_text("import beside\nprint('here')\n1 / 0\n")
    done = tune("profile", str(script))
    assert done.code == 1 and "ZeroDivisionError" in done.err and "no kernel ran" in done.out
    assert tune("profile", str(tmp_path / "none.py")).code == 2
