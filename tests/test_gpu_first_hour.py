"""The first hour with a GPU, without one: what is done is remembered, what fails is told, and the measuring scripts
run to their end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import gpu_first_hour
import gpu_limits
import gpu_vs_cublas
from cuda_build import needs_cxx, needs_nvdisasm, needs_nvrtc
from fake_gpu import FakeGpu
from parts import gpu_cublas, gpu_steps
from parts.gpu_cases import CASES, GOALS, GROUPS
from parts.gpu_steps import Step, StepFile, StepRun
from tilewright import kernels
from tilewright.devices.cuda import nvrtc, sass
from tilewright.measure.inputs import generate
from tilewright.plan import compile
from tilewright.search.result import Job, make

ROOT = Path(__file__).resolve().parents[1]
FAKE = f"{ROOT / 'tests' / 'support' / 'fake_gpu.py'}:FakeGpu"


def step(name: str, code: str, expected: float = 1, limit: float = 20, needs: str = "") -> Step:
    return Step(name, name, (sys.executable, "-c", code), expected, limit, needs)


class Clock:
    """A clock that goes as far as it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def play(steps: list[Step], state: StepFile, call: float = 100, total: float = 1000, clock: Any = None) -> tuple[bool, list[StepRun]]:
    told: list[StepRun] = []
    finished = gpu_steps.play(steps, state, call, total, {}, told.append, lambda: {"clocks.sm": "1755"}, clock or Clock())
    return finished, told


@pytest.mark.slow
def test_a_step_that_fails_is_told_and_the_next_goes_on(tmp_path: Path) -> None:
    steps = [
        step("good", "print('hello'); print('{\"a\": 1}'); print('{no json')"),
        step("bad", "print('{\"b\": 2}'); raise SystemExit('it broke')"),
        step("endless", "import time; print('begun', flush=True); time.sleep(60)", limit=2),
        step("missing", "", needs=str(tmp_path / "nothing.py")),
        Step("nowhere", "", ("/nowhere/program",), 1, 1),
        step("last", "print('{\"c\": 3}')"),
    ]
    state = StepFile(tmp_path / "state.json")
    finished, told = play(steps, state)
    assert finished and [r.status for r in told] == ["ok", "failed", "timeout", "failed", "failed", "ok"]
    good, bad, endless, missing, nowhere, _ = told
    assert good.rows == ({"a": 1},) and good.tail == ("hello", "{no json") and good.before == {"clocks.sm": "1755"} == good.after
    assert bad.rows == ({"b": 2},) and bad.code == 1 and bad.tail[-1] == "it broke"
    assert endless.tail[0] == "begun" and missing.tail == ("nothing.py is not there",) and "nowhere" in nowhere.tail[0]
    again, told = play(steps, StepFile(tmp_path / "state.json"))
    assert again and told == []


@pytest.mark.slow
def test_a_call_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    path, clock = tmp_path / "s" / "state.json", Clock()
    steps = [step(n, "print('{}')", expected=40) for n in ("one", "two", "three")]

    def told(run: StepRun) -> None:
        clock.now += 50

    def call(seconds: float, total: float = 1000) -> bool:
        return gpu_steps.play(steps, StepFile(path), seconds, total, {}, told, dict, clock)

    assert not call(100) and list(StepFile(path).runs) == ["one", "two"]
    assert call(100) and list(StepFile(path).runs) == ["one", "two", "three"]
    assert {r.status for r in StepFile(path).runs.values()} == {"ok"}
    assert json.loads(path.read_text())["spent"] == pytest.approx(StepFile(path).spent)


def test_what_the_whole_time_has_no_room_for_is_left_out_and_told(tmp_path: Path) -> None:
    finished, told = play(
        [step("long", "", expected=300), step("short", "print(1)", expected=1)],
        StepFile(tmp_path / "s.json"),
        1000,
        200,
    )
    assert finished and [r.status for r in told] == ["left out", "ok"] and "the 200 s of all steps are over" in told[0].tail


@pytest.mark.slow
def test_a_step_that_the_call_cuts_is_done_again(tmp_path: Path) -> None:
    state = StepFile(tmp_path / "s.json")
    finished, told = play([step("long", "import time; time.sleep(60)", expected=0.1, limit=30)], state, call=0.6)
    assert not finished and told[0].status == "cut" and not state.done(Step("long", "", (), 1, 1))
    finished, told = play([step("long", "print('{}')")], StepFile(tmp_path / "s.json"))
    assert finished and told[0].status == "ok"


def test_the_plan_names_every_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["--state", str(tmp_path / "s.json"), "--results", str(tmp_path / "r")]
    assert gpu_first_hour.main([*given, "--dry-run"]) == 0
    said = capsys.readouterr().out
    for name in (
        "look",
        "tests",
        "golden",
        "limits",
        *(f"seeds-{g}" for g in GROUPS),
        *(f"tune-{c.name}" for c in CASES),
    ):
        assert f"  {name} " in said
    assert str(ROOT) not in said and sys.executable not in said and not (tmp_path / "r").exists() and "25" not in said.splitlines()[0]
    steps = gpu_first_hour.steps(gpu_first_hour.arguments().parse_args(given))
    assert len({s.name for s in steps}) == len(steps) and max(s.expected for s in steps) < 540
    before_tuning = sum(s.expected for s in steps if not s.name.startswith("tune-"))
    assert before_tuning + sum(s.expected for s in steps if s.name.startswith("tune-")) // 2 < 1500
    assert gpu_first_hour.main([*given, "--only", "nothing"]) == 2 and gpu_first_hour.main([*given, "--again", "nothing"]) == 2


@pytest.mark.slow
def test_without_a_gpu_it_says_so_and_does_nothing(tmp_path: Path) -> None:
    places = ["--state", str(tmp_path / "state.json"), "--results", str(tmp_path / "r"), "--wheels", str(tmp_path / "none")]
    words = [sys.executable, str(ROOT / "benchmarks" / "gpu_first_hour.py"), "--device", "cpu", *places]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 3 and done.stderr == "cannot run: this benchmark runs on NVIDIA GPUs, not on cpu\n"
    assert not (tmp_path / "r").exists()


def test_a_gpu_has_a_folder() -> None:
    assert gpu_first_hour.slug("NVIDIA H200") == "h200" and gpu_first_hour.slug("NVIDIA GeForce RTX 4090") == "rtx-4090"
    assert gpu_first_hour.slug("NVIDIA H100 80GB HBM3") == "h100-80gb-hbm3" and gpu_first_hour.slug("") == "gpu"


def test_clocks_are_nvidia_smis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_first_hour.clocks() == {}
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.1, 1755, 3201, 1980, 54, 610.20, 700.00, 1, 143771'\n")
    tool.chmod(0o755)
    found = gpu_first_hour.clocks()
    assert found["clocks.sm"] == "1755" and found["power.draw"] == "610.20" and found["name"] == "NVIDIA H200"


@pytest.mark.slow
@needs_cxx
def test_from_wheels_to_results(tmp_path: Path) -> None:
    """The script itself, on a GPU that is none."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "nothing_of_the_kind-1.0-py3-none-any.whl").write_bytes(b"no wheel")
    places = ["--state", str(tmp_path / "b" / "state.json"), "--results", str(tmp_path / "r"), "--wheels", str(wheels)]
    only = ["--only", "look", "limits", "seeds-fp32"]
    words = ["bash", str(ROOT / "scripts" / "gpu_first_hour.sh"), "--device", FAKE, "--smoke", *only, *places]
    done = subprocess.run(words, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not installed: nothing_of_the_kind-1.0-py3-none-any.whl: " in done.stdout and "look: ok" in done.stdout
    place = tmp_path / "r" / "fake-gpu"
    summary = json.loads((place / "summary.json").read_text())
    assert summary["steps"]["install"]["status"] == "failed" and summary["device"]["gpu"] == "Fake GPU"
    assert {summary["steps"][n]["status"] for n in ("look", "limits", "seeds-fp32")} == {"ok"}
    limits = json.loads((place / "limits.json").read_text())
    assert {"limits", "launch", "l2"} <= {r["what"] for r in limits["rows"]} and limits["versions"]["numpy"] and limits["date"]
    assert limits["command"].startswith("python benchmarks/gpu_limits.py --device ")
    seeds = json.loads((place / "seeds-fp32.json").read_text())["rows"]
    assert seeds[0]["name"] == "matmul-float32-4096x4096x4096" and "cuBLAS" in seeds[0]["missing"]["cublas"]


@pytest.mark.slow
@needs_cxx
def test_the_benchmark_tunes_and_compares_on_a_gpu_that_is_none() -> None:
    words = [
        sys.executable,
        str(ROOT / "benchmarks" / "gpu_vs_cublas.py"),
        "--device",
        FAKE,
        "--smoke",
        "--trials",
        "1",
        "--rounds",
        "1",
    ]
    done = subprocess.run([*words, "--only", "sum_all"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    row, summary = map(json.loads, done.stdout.splitlines())
    assert row["counts"] == {"ok": 1} and row["to_95_s"] is not None and row["measured_per_second"] > 0 and row["opts"]
    assert row["against"]["copy"]["ratio"] > 0 and set(row["missing"]) == {"torch", "inductor"}
    assert summary == {
        "group": "rows",
        "beside": "copy",
        "cases": 1,
        "mean_ratio": summary["mean_ratio"],
        "goal": 0.9,
        "worst": summary["worst"],
    }


def test_every_case_is_a_kernel() -> None:
    assert set(GOALS) == set(GROUPS) == {c.group for c in CASES} and len({c.name for c in CASES}) == len(CASES)
    for c in CASES:
        d = kernels.get(c.kernel)
        assert d.complete(c.shape) == dict(c.shape) and c.dtype in d.dtypes
        assert sum(n.startswith(c.name) for n in (x.name for x in CASES)) == 1


def test_seconds_to_what_is_near_the_best() -> None:
    history = tuple({"seconds": s, "trials": 1, "t_min": t, "opts": []} for s, t in ((2.0, 1e-3), (5.0, 5.1e-4), (30.0, 5.0e-4)))
    job = Job("matmul", {}, "float32", "cuda", 1, "portfolio")
    assert gpu_vs_cublas.near(make(job, history=history)) == 5.0 and gpu_vs_cublas.near(make(job)) is None


def test_groups_are_summed_up() -> None:
    rows = [{"group": "skinny", "name": n, "against": {"cublas": {"ratio": r}}} for n, r in (("a", 0.5), ("b", 2.0))]
    rows.append({"group": "skinny", "name": "c", "error": "nothing valid"})
    (found,) = gpu_vs_cublas.summaries(rows)
    assert found["mean_ratio"] == 1.0 and found["worst"] == ["a", 0.5] and found["cases"] == 2


@pytest.mark.slow
@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("kind", sorted(gpu_limits.TENSOR))
def test_the_peak_of_tensor_cores_is_measured_by_nothing_else(kind: str) -> None:
    cubin, log = nvrtc.compile(gpu_limits.tensor_text(kind), "sm_90a")
    found = sass.counts(cubin)
    assert found["HMMA"] + found["IMMA"] >= 8 and found["STL"] == found["LDL"] == 0
    assert nvrtc.resources(log)["tensor_p0"].registers <= 128


@pytest.fixture
def cublas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cuBLAS is a stub on this processor."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the stub is built by a C compiler, on Linux")
    (tmp_path / "lib64").mkdir()
    words = [
        compiler,
        "-O1",
        "-shared",
        "-fPIC",
        str(ROOT / "tests" / "support" / "cublas_stub.c"),
        "-o",
        str(tmp_path / "lib64" / "libcublas.so.13"),
    ]
    subprocess.run(words, check=True)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(nvrtc, "packages", lambda: iter(()))


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cublas_gets_what_it_takes_for_our_product(cublas: None, dtype: str) -> None:
    """Rows are its columns: types, sizes and the order of operands are checked by what comes out."""
    device = FakeGpu()
    kernel = kernels.make("matmul", {"m": 5, "n": 7, "k": 9}, dtype)
    built = compile(kernel, (), device)
    ours = device.load(built.obj, built.signature, 1)
    found = gpu_cublas.beside(device, ours, list(generate(kernel, {}, 0).values()), dtype, 3)
    assert found["difference"] < (1e-6 if dtype == "float32" else 1e-2) and found["ratio"] > 0 and len(found["range"]) == 2
    calls = [c[0] for c in device.driver.calls]
    assert calls.count("alloc") - calls.count("free") <= 1  # all but what the product works in
