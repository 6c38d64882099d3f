"""tune run around a scripted search: arguments, several sizes, objectives, summary, JSON, exit codes. The real search: test_pty.py."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache
from tilewright.cli.commands import build_parser
from tilewright.ir.errors import CacheMiss, DeviceError
from tilewright.measure.outcome import Measurement, Outcome
from tilewright.opts.opt import opt
from tilewright.search.result import Job, Result, make
from tilewright.targets import command_prefix

from .conftest import Tune, row

JOB = Job("matmul", {"m": 64, "n": 48, "k": 32}, "float32", "cpu", 2, "portfolio", 2 * 64 * 48 * 32, 26624, 5e-6, 0, "auto", "2s")
FOUND = make(
    JOB,
    opts=(opt("UPCAST", "m", 8), opt("PARALLEL", "n")),
    t_min=10e-6,
    t_med=11e-6,
    n=40,
    start_opts=(opt("UPCAST", "m", 4),),
    start_s=25e-6,
    counts={"ok": 12, "slow": 3, "wrong": 1},
    seconds=2.04,
    verified=True,
    confirmed=True,
    significant=True,
    gain=2.4,
)
RUN = ["run", "--kernel", "matmul", "--shape", "m=64,n=48,k=32", "--budget", "2s"]


class Search:
    """Stands in for `search.tune`."""

    def __init__(self, result: Result | Exception | type[BaseException]) -> None:
        self.result, self.given = result, dict[str, Any]()

    def __call__(self, kernel: str, **given: Any) -> Result:
        self.given = {"kernel": kernel, **given}
        progress = given["progress"]
        progress.phase("searching")
        progress.candidate(Measurement((), Outcome.ok, 1e-5, 1e-5, 10))
        if not isinstance(self.result, Result):
            raise self.result
        if self.result.found:
            progress.best(self.result)
        progress.done(self.result)
        return self.result


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Search:
    found = Search(FOUND)
    monkeypatch.setattr("tilewright.search.tune", found)
    return found


LOWERED = "".join(f"{word} " for word in command_prefix("cpu"))
"""What commands begin with where the tests run as another processor."""


def test_summary(tune: Tune, search: Search) -> None:
    done = tune(*RUN)
    assert done.code == 0
    said = done.out.splitlines()
    assert said[0] == "tuning matmul m=64,n=48,k=32 on cpu"
    at = said.index("matmul m=64,n=48,k=32 float32 on cpu, 2 threads: tuned and verified")
    assert [line.strip() for line in said[at + 1 :]] == [
        "best        10 µs  19.7 GFLOP/s  2.66 GB/s  50 % of roofline",
        "timed       min 10 µs, median 11 µs of 40 runs",
        "start       25 µs; the best is 2.40x as fast, side by side",
        "opts        Um8 Pn",
        "search      16 candidates in 2.0 s with portfolio: ok 12, slow 3, wrong 1",
        f"look at it  {LOWERED}tune show --kernel matmul --shape m=64,n=48,k=32 --dtype float32 --device cpu --threads 2",
        f"reproduce   {LOWERED}tune run --kernel matmul --shape m=64,n=48,k=32 --dtype float32 --device cpu --threads 2"
        " --strategy portfolio --random-seed 0 --budget 2s --retune",
    ]


def test_the_lines_it_prints_are_commands(tune: Tune, search: Search, tmp_path: Path) -> None:
    said = tune(*RUN, "--cache", str(tmp_path / "my cache.db")).out.splitlines()
    commands = [
        shlex.split(line[len("reproduce   ") :].removeprefix(LOWERED)) for line in said if line.startswith(("look at it", "reproduce"))
    ]
    assert [c[:2] for c in commands] == [["tune", "show"], ["tune", "run"]]
    for command in commands:
        args = build_parser().parse_args(command[1:])
        assert (args.kernel, args.threads, args.cache) == ("matmul", 2, str(tmp_path / "my cache.db"))


def test_every_argument_reaches_the_search(tune: Tune, search: Search) -> None:
    tune(
        *RUN,
        "--dtype",
        "float16",
        "--threads",
        "1",
        "--trials",
        "9",
        "--seed",
        "7",
        "--seeds",
        "none",
        "--strategy",
        "beam",
        "--mode",
        "tune",
        "--retune",
        "--study",
        "s.log",
        "--allow",
        "downconvert",
        "--objective",
        "scratch, time",
    )
    del search.given["progress"]
    assert isinstance(search.given.pop("since"), float)
    assert search.given == {
        "kernel": "matmul",
        "shape": {"m": 64, "n": 48, "k": 32},
        "dtype": "float16",
        "device": "cpu",
        "budget": "2s",
        "trials": 9,
        "threads": 1,
        "strategy": "beam",
        "start": "none",
        "random_seed": 7,
        "cache": None,
        "mode": "tune",
        "retune": True,
        "study": "s.log",
        "objective": "time,scratch",
        "allow": ["downconvert"],
        "policy": None,
        "interrupt": "return",
    }


def test_json_has_the_promised_fields(tune: Tune, search: Search, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert tune(*RUN, "--json", str(file), "--quiet").code == 0
    got = json.loads(file.read_text())
    assert (
        got["kernel"] == "matmul" and got["shape"] == {"m": 64, "n": 48, "k": 32} and got["dtype"] == "float32" and got["device"] == "cpu"
    )
    assert got["strategy"] == "portfolio" and got["start_opts"] == [["UPCAST", "m", 4]] and got["start_s"] == 25e-6
    assert got["opts"] == [["UPCAST", "m", 8], ["PARALLEL", "n"]] and (got["t_min"], got["t_med"], got["n"]) == (10e-6, 11e-6, 40)
    assert (
        got["gflops"] == pytest.approx(19.66, rel=1e-3)
        and got["gbytes_s"] == pytest.approx(2.6624)
        and got["roofline_pct"] == pytest.approx(50)
    )
    assert got["counts"] == {"ok": 12, "slow": 3, "wrong": 1} and got["seconds"] == 2.04 and got["verified"] is True


def test_json_to_standard_output_leaves_nothing_else_there(tune: Tune, search: Search) -> None:
    done = tune(*RUN, "--json", "-")
    assert json.loads(done.out)["kernel"] == "matmul"
    assert "tuned and verified" in done.err


def test_quiet_prints_no_progress(tune: Tune, search: Search) -> None:
    assert tune(*RUN, "--quiet").out.startswith("matmul m=64")


def test_the_title_has_the_whole_shape(tune: Tune, search: Search) -> None:
    assert tune("run", "--kernel", "matmul", "--shape", "k=32").out.startswith("tuning matmul m=1024,n=1024,k=32 on cpu\n")


def test_cached(tune: Tune, search: Search) -> None:
    search.result = dataclasses.replace(FOUND, origin="cached", counts={})
    done = tune(*RUN)
    assert done.code == 0 and "2 threads: cached" in done.out


def test_nothing_valid(tune: Tune, search: Search) -> None:
    search.result = make(JOB, counts={"crash": 4}, seconds=2.0, exit_code=4, message="nothing valid was found")
    done = tune(*RUN)
    assert done.code == 4
    assert "nothing valid found" in done.out and "crash 4" in done.out


def test_why_candidates_failed_is_shown(tune: Tune, search: Search) -> None:
    said = {"wrong": "Un8: y[3, 4] is inf, expected 2.5 (a value on the way overflows its type)", "build": "Pn: no such instruction"}
    search.result = make(JOB, counts={"wrong": 55, "build": 1}, failures=said, seconds=2.0, exit_code=4)
    done = tune(*RUN)
    shown = " ".join(done.out.split())
    assert "first wrong Un8: y[3, 4] is inf, expected 2.5 (a value on the way overflows its type)" in shown
    assert "first build Pn: no such instruction" in shown and search.result.to_json()["failures"] == said


def test_interrupted(tune: Tune, search: Search) -> None:
    search.result = dataclasses.replace(FOUND, exit_code=130)
    done = tune(*RUN)
    assert done.code == 130 and "interrupted; the best so far is saved" in done.out


@pytest.mark.parametrize(("error", "code"), [(DeviceError("no such device"), 3), (CacheMiss("not there"), 5), (KeyboardInterrupt, 130)])
def test_errors_of_the_search(tune: Tune, search: Search, error: Any, code: int) -> None:
    search.result = error
    done = tune(*RUN)
    assert done.code == code and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--shape", "m"], "cannot read 'm' as a size"),
        (["--budget", "soon"], "budget 'soon' is not a time"),
        (["--json", "/nowhere/at/all.json"], "cannot write --json /nowhere/at/all.json"),
        (["--dtype", "int16"], "matmul is not defined for int16"),
        (["--strategy", "beem"], "unknown strategy 'beem'; did you mean 'beam'?"),
        (["--kernel", "nowhere.py:f"], "there is no file nowhere.py"),
    ],
)
def test_bad_values_are_found_before_the_search(tune: Tune, search: Search, args: list[str], said: str) -> None:
    done = tune("run", "--kernel", "matmul", *args)
    assert done.code == 2 and said in done.err and "tuning" not in done.err
    assert search.given == {}


ENERGY = {
    "joules": 2e-3,
    "spread": 0.01,
    "windows": 3,
    "calls": 30,
    "resolution": 0.03,
    "watts": 40.0,
    "idle_w": None,
    "source": "RAPL: package-0",
}


def fill(cache_file: Path) -> None:
    """The fastest, a front of three of which one is beaten since, and the most frugal."""

    def of(opts: str, t: float, **facts: object) -> object:
        data = [["UPCAST", "n", int(opts)]]
        return row(opts=data, opts_display=data, t_min=t, t_med=t, provenance={"confirmed": True, **facts})

    with cache.open(cache_file) as store:
        for opts, t, scratch in (("8", 3e-5, 4096), ("16", 5e-5, 64), ("32", 6e-5, 64)):
            store.record(of(opts, t, objective="time,scratch", scratch=scratch))  # type: ignore[arg-type]
        store.record(of("8", 3e-5))  # type: ignore[arg-type]
        store.record(of("4", 9e-5, objective="energy", energy=ENERGY, start_value=3e-3, gain=1.5, paired=True))  # type: ignore[arg-type]


def test_reports_say_what_each_row_was_searched_for(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    fill(cache_file)
    shown = tune("report").out
    assert "matmul, for energy" in shown and "matmul, for time and scratch" in shown and "times less energy" in shown
    front = shown[shown.index("front of matmul") :]
    assert "4 KiB" in front and "64 B" in front and "Un8" in front and "Un16" in front and "Un32" not in front
    listed = tune("cache", "list").out
    assert listed.count("time and scratch") == 2 and " for " in listed and "Un32" not in listed
    found = {r["objective"]: r for r in csv.DictReader(io.StringIO(tune("report", "--format", "csv").out))}
    assert set(found) == {"time", "energy", "time,scratch"}
    assert (found["energy"]["energy"], found["energy"]["gain"], found["time,scratch"]["scratch"]) == ("0.002", "1.5", "4096")
    t4 = json.loads(tune("report", "--format", "t4").out)["results"]
    assert {tuple(r["objectives"]) for r in t4} == {("time",), ("energy",), ("time", "scratch")}
    assert {"name": "energy", "value": 2e-3, "unit": "J"} in next(r for r in t4 if r["objectives"] == ["energy"])["measurements"]
    assert "**matmul**, for energy" in tune("report", "--format", "markdown").out


def test_the_page_draws_a_front(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    fill(cache_file)
    tune("report", "--html", str(tmp_path / "r.html"))
    page = (tmp_path / "r.html").read_text()
    assert (
        page.count("<h4>Front of time and scratch</h4>") == 1
        and 'aria-label="front of time and scratch: from 30 µs and 4 KiB to 50 µs and 64 B"' in page
    )
    assert page.count("<polyline") >= 1 and "2 mJ" in page


def test_a_manifest_wants_rows_of_its_objective(tune: Tune, tmp_path: Path) -> None:
    manifest = tmp_path / "m.toml"
    entry = '[[kernel]]\nname = "softmax"\nshapes = ["m=8,n=64"]\n'
    manifest.write_text(f'[targets.here]\nthreads = 1\n{entry}{entry}objective = ["scratch", "time"]\n')
    asked = tune("cache", "check", "--manifest", str(manifest))
    assert (
        asked.code == 5
        and "for here, for time and scratch" in asked.out + asked.err
        and "--objective time,scratch" in asked.out + asked.err
    )
    manifest.write_text(f'{entry}objective = "enrgy"\n')
    assert (
        "line 4, [[kernel]] 1 (softmax): no objective is called 'enrgy'; did you mean energy?"
        in tune("run", "--manifest", str(manifest)).err
    )
    assert "say their objective themselves" in tune("run", "--manifest", str(manifest), "--objective", "energy").err
    assert "one kernel of one shape on this machine" in tune("run", "matmul", "--shape", "m=1..4,n=8,k=8", "--objective", "scratch").err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--shape", "m=5..2,n=3,k=4"], "m=5..2 is no range of sizes; write the smaller number first, as in m=1..4096"),
        (["--shape", "m=0..30"], "m=0..30 is no range of sizes"),
        (["--shape", "m=1..30,n=4..4"], "n=4..4 is a single size; write n=4"),
        (["--shape", "m=1..30,q=1..4"], "matmul has no size 'q'"),
        (["--shape", "m=1..30", "--schedules", "0"], "schedules must be at least 1"),
        (["--shape", "m=1..30", "--buckets", "0"], "schedules must be at least 1"),
        (["--shape", "m=1..30", "--buckets", "2", "--schedules", "2"], "give one of them"),
        (["--shape", "m=4", "--buckets", "2"], "--buckets is for many shapes: give ranges, such as --shape m=1..4096"),
        (["--shape", "m=1..30", "--shapes", "m=3;m=4"], "leave out --shape"),
        (["--shape", "m=4", "--aggregate", "worst"], "--aggregate is for many shapes"),
        (["--shapes", ""], "--shapes is empty; write two shapes or more"),
        (["--shapes", "none.txt"], "cannot read the shapes in none.txt"),
        (["--shapes", "m=4"], "--shapes wants two shapes or more"),
        (["--shapes", "m=4;m=4"], "a shape is given twice"),
        (["--shapes", "m=4 * 0;m=5"], "'0' is no weight of a shape"),
        (["--shapes", "m=4;m=5", "--strategy", "beam"], "--strategy is for a single shape; --shapes tunes several"),
        (["--shapes", "m=4;m=5", "--mode", "require"], "--mode require is for a single shape"),
    ],
)
def test_what_cannot_be_asked_for(tune: Tune, args: list[str], said: str) -> None:
    done = tune("run", "matmul", "--threads", "1", *args)
    assert done.code == 2
    assert said in " ".join((done.out + done.err).split())
