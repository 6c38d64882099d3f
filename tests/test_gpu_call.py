"""The calls on a lent GPU, without one: what is done is kept whatever happens, what hangs costs its own limit, and the measuring scripts
run to their end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import gpu_call
import gpu_limits
import gpu_vs_cublas
import thorough
from cuda_build import needs_cxx, needs_nvdisasm, needs_nvrtc
from fake_gpu import FakeGpu
from parts import gpu_cublas, gpu_steps
from parts.gpu_cases import CASES, GOALS, GROUPS
from parts.gpu_steps import CallFolder, Step, StepRun
from tilewright import named_kernels
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.machine_code import counts
from tilewright.measure.inputs import generate
from tilewright.plan import compile
from tilewright.search.result import Job, make

ROOT = Path(__file__).resolve().parents[1]
FAKE = f"{ROOT / 'tests' / 'support' / 'fake_gpu.py'}:FakeGpu"


def step(name: str, code: str, limit: float = 20) -> Step:
    return Step(name, name, (sys.executable, "-c", code), limit)


def play(steps: list[Step], calls: CallFolder, seconds: float = 100) -> tuple[bool, list[StepRun]]:
    told: list[StepRun] = []
    return gpu_steps.play(steps, calls, time.monotonic() + seconds, dict(os.environ), told.append), told


def folder(tmp_path: Path, name: str = "work") -> CallFolder:
    return CallFolder(tmp_path / name, tmp_path / "all.tar.gz")


def packed(tmp_path: Path, name: str) -> str:
    with tarfile.open(tmp_path / "all.tar.gz") as t:
        file = t.extractfile(f"./{name}")
        assert file is not None
        return file.read().decode()


@pytest.mark.slow
def test_a_step_that_fails_is_told_and_the_next_goes_on(tmp_path: Path) -> None:
    steps = [
        step("good", "print('hello'); print('{\"a\": 1}'); print('{no json')"),
        step("bad", "print('{\"b\": 2}'); raise SystemExit('it broke')"),
        step("endless", "import time; print('begun', flush=True); time.sleep(60)", limit=2),
        Step("nowhere", "", ("/nowhere/program",), 1),
        step("last", "print('{\"c\": 3}')"),
    ]
    finished, told = play(steps, folder(tmp_path))
    assert finished and [r.status for r in told] == ["ok", "failed", "timeout", "failed", "ok"]
    good, bad, endless, nowhere, _ = told
    assert good.rows == ({"a": 1},) and good.tail == ("hello", "{no json")
    assert bad.rows == ({"b": 2},) and bad.code == 1 and bad.why == "it broke"
    assert endless.tail[0] == "begun" and "nowhere" in nowhere.tail[0]
    assert packed(tmp_path, "output/endless.txt").startswith("begun\n")
    assert {n: r["status"] for n, r in json.loads(packed(tmp_path, "state.json"))["runs"].items()} == {r.name: r.status for r in told}
    again, told = play(steps, folder(tmp_path))
    assert again and told == []


def test_a_step_without_room_is_passed_over_and_comes_first_in_the_next_call(tmp_path: Path) -> None:
    steps = [step("long", "print('{}')", limit=80), step("short", "print('{}')")]
    finished, told = play(steps, folder(tmp_path), seconds=30)
    assert not finished and [r.name for r in told] == ["short"]
    finished, told = play(steps, folder(tmp_path))
    assert finished and [r.name for r in told] == ["long"]


@pytest.mark.slow
def test_what_a_call_cut_comes_last_in_the_next_one_which_goes_on_from_the_tar(tmp_path: Path) -> None:
    long = "import time; print('x', flush=True); time.sleep(60)"
    steps = [step("one", "print('{}')", limit=4), step("long", long, limit=8), step("two", "")]
    finished, told = play(steps, folder(tmp_path), seconds=6)
    assert not finished and [(r.name, r.status) for r in told] == [("one", "ok"), ("long", "cut")]
    fresh = folder(tmp_path, "elsewhere")
    assert fresh.resume(fresh.tar) and not fresh.resume(fresh.tar)  # where something is known, that holds
    assert [s.name for s in fresh.left(steps)] == ["two", "long"]
    assert (fresh.folder / "output" / "long.txt").read_text().startswith("x\n")


def test_the_plan_has_the_order_of_value(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["--out", str(tmp_path / "o"), "--work", str(tmp_path / "w")]
    assert gpu_call.main([*given, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert str(ROOT) not in said and sys.executable not in said and not (tmp_path / "o" / gpu_call.TAR).exists()
    steps = gpu_call.steps(gpu_call.arguments().parse_args(given))
    names = [s.name for s in steps]
    assert len(set(names)) == len(names) and all(f"  {n} " in said for n in names)
    assert names[:4] == ["look", "limits", "tune-run", "tests"] and {f"{w}-{c.name}" for w in ("start", "tune") for c in CASES} <= set(
        names
    )
    first = names.index("start-softmax-float32") + 1
    second = names.index("tune-softmax-float32") + 1
    assert sum(s.limit for s in steps[:first]) <= 8.5 * 60 and sum(s.limit for s in steps[first:second]) <= 6 * 60
    assert steps[2].command == ("tune", "run", "--kernel", "matmul", "--device", "cuda", "--budget", "20s")
    assert gpu_call.main([*given, "--only", "nothing"]) == 2 and gpu_call.main([*given, "--again", "nothing"]) == 2
    assert gpu_call.main([*given, "--resume", str(tmp_path / "nothing")]) == 2


@pytest.mark.slow
def test_without_a_gpu_it_says_so_and_does_nothing(tmp_path: Path) -> None:
    places = ["--out", str(tmp_path / "o"), "--work", str(tmp_path / "w"), "--wheels", str(tmp_path / "none")]
    words = [sys.executable, str(ROOT / "benchmarks" / "gpu_call.py"), "--device", "cpu", *places]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 3 and "this benchmark runs on NVIDIA GPUs, not on cpu" in done.stdout, done.stdout + done.stderr


def test_a_gpu_has_a_folder() -> None:
    assert gpu_call.slug("NVIDIA H200") == "h200" and gpu_call.slug("NVIDIA GeForce RTX 4090") == "rtx-4090"
    assert gpu_call.slug("NVIDIA H100 80GB HBM3") == "h100" and gpu_call.slug("") == "gpu"


def test_clocks_are_logged_by_queries_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool, file = tmp_path / "nvidia-smi", tmp_path / "clocks.csv"
    tool.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/words\necho 'x, NVIDIA H200, 580.1, 1755'\nsleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with gpu_call.clock_log(file):
        until = time.monotonic() + 240
        while not file.read_text() and time.monotonic() < until:
            time.sleep(0.01)
    words = (tmp_path / "words").read_text().split()
    assert "1755" in file.read_text() and words[0].startswith("--query-gpu=") and words[-2:] == ["-lms", "500"]
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with gpu_call.clock_log(tmp_path / "none.csv"):
        pass
    assert not (tmp_path / "none.csv").exists()


def test_wheels_are_unzipped_and_tune_is_there(tmp_path: Path) -> None:
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    wheels.mkdir()
    (wheels / "no_wheel-1.0-py3-none-any.whl").write_bytes(b"no wheel")
    with zipfile.ZipFile(wheels / "made_up-2.0-py3-none-any.whl", "w") as z:
        z.writestr("made_up.py", "answer = 42\n")
        z.writestr("made_up-2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: made-up\nVersion: 2.0\n")
    with zipfile.ZipFile(wheels / "numpy-0.1-py3-none-any.whl", "w") as z:
        z.writestr("numpy.py", "")
    (problem,) = gpu_call.install(wheels, site)
    assert problem.startswith("no_wheel-1.0-py3-none-any.whl: ") and (site / "made_up.py").is_file()
    assert not (site / "numpy.py").exists()  # one that is installed is left
    assert gpu_call.install(wheels, site) == [problem]
    env = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([str(site / "bin" / "tune"), "--version"], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


# the rehearsal ------------------------------------------------------------------------------------------------------------
def rehearse(tree: Path, out: Path, *more: str, env: dict[str, str], minutes: str = "60") -> subprocess.Popen[str]:
    words = ["bash", str(tree / "scripts" / "gpu_call.sh"), "--minutes", minutes, "--out", str(out), "--smoke", *more]
    words += ["--device", f"{tree}/tests/support/planted_gpu.py:PlantedGpu"]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", start_new_session=True)


@pytest.mark.slow
@needs_cxx
@pytest.mark.timeout(600)
def test_two_calls_as_they_will_be_made(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The commands of both calls in a tree without its history, with an empty home, in a plain locale: a candidate that hangs, one that
    faults and one that is wrong cost a schedule each, a killed call costs the step under way, and the next call goes on."""
    tree, home, out = tmp_path / "tree", tmp_path / "home", tmp_path / "out"
    kept = shutil.ignore_patterns(".git", ".venv", "build", "*.pyc.*", "results", ".*_cache", ".hypothesis", ".gpu-wheels")
    shutil.copytree(ROOT, tree, ignore=kept)
    home.mkdir()
    steps = ("look", "tune-run", "tests", "golden-tma", "start-matmul-bfloat16-8192x8192x", "start-conv2d-bfloat16-c128-56-k3", "start-attention-d128", "start-softmax-float32")  # fmt: skip
    only = ("--only", *(steps if thorough.amount(request, 0, 1) else tuple(s for s in steps if s != "tests")))
    planted = f"hang=softmax,fault=attention,wrong=conv2d,in={tmp_path}"
    env = {"PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C", "TILEWRIGHT_PLANTED": planted}
    call = rehearse(tree, out, *only, env=env)
    said = []
    assert call.stdout is not None
    for line in call.stdout:
        said.append(line)
        if line.startswith("golden-tma: "):  # the next step has begun
            break
    cut, until = "start-matmul-bfloat16-8192x8192x8192", time.monotonic() + 240
    while cut not in tar_text(out, "state.json") and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(call.pid, signal.SIGKILL)
    call.wait()
    first = json.loads(tar_text(out, "state.json"))["runs"]
    assert first[cut]["status"] == "cut" and {r["status"] for n, r in first.items() if n != cut} == {"ok"}, (first, said)
    assert "\nreproduce " in tar_text(out, "output/tune-run.txt")
    # another machine: nothing is there but the tree and the tar
    shutil.rmtree(tree / "build")
    earlier = tmp_path / "earlier.tar.gz"
    shutil.move(out / gpu_call.TAR, earlier)
    call = rehearse(tree, out, *only, "--resume", str(earlier), env=env)
    text, _ = call.communicate()
    assert call.returncode == 0, text
    runs = json.loads(tar_text(out, "state.json"))["runs"]
    assert all(r["status"] == "ok" for r in runs.values()), text
    assert all(runs[n]["date"] == r["date"] for n, r in first.items() if n != cut)
    assert text.index("start-softmax-float32: ok") < text.index(f"{cut}: ok")
    rows = {n: r["rows"] for n, r in runs.items()}
    (hung,) = [t for t in rows["start-softmax-float32"][0]["tried"] if "timeout" in t]
    (fault,) = [t for t in rows["start-attention-d128"][0]["tried"] if "crash" in t]
    (wrong,) = [t for t in rows["start-conv2d-bfloat16-c128-56-k3"][0]["tried"] if "wrong" in t]
    assert "did not return" in hung and "illegal address" in fault and "elements wrong" in wrong
    assert all(rows[n][0]["error"] <= 1 for n in rows if n.startswith("start-") and "opts" in rows[n][0])
    result = json.loads(tar_text(out, "results/fake-gpu/start-softmax-float32.json"))
    assert result["device"]["gpu"] == "Fake GPU" and result["command"].startswith("python benchmarks/gpu_vs_cublas.py --device ")
    assert not (tree / "results").exists() and sorted(p.name for p in out.iterdir()) == [gpu_call.TAR]


def tar_text(out: Path, name: str) -> str:
    with tarfile.open(out / gpu_call.TAR) as t:
        file = t.extractfile(f"./{name}")
        assert file is not None
        return file.read().decode()


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
    early, row, summary = map(json.loads, done.stdout.splitlines())
    assert early["unfinished"] and early["opts"] == row["opts"] and "unfinished" not in row
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
        d = named_kernels.get(c.kernel)
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
    found = counts(cubin)
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
    kernel = named_kernels.make("matmul", {"m": 5, "n": 7, "k": 9}, dtype)
    built = compile(kernel, (), device)
    ours = device.load(built.obj, built.signature, 1)
    found = gpu_cublas.beside(device, ours, list(generate(kernel, {}, 0).values()), dtype, 3)
    assert found["difference"] < (1e-6 if dtype == "float32" else 1e-2) and found["ratio"] > 0 and len(found["range"]) == 2
    calls = [c[0] for c in device.driver.calls]
    assert calls.count("alloc") - calls.count("free") <= 1  # all but what the product works in
