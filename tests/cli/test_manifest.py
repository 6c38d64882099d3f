"""tune run --manifest and tune cache check: what is shown, exit codes, and the commands they name. Searches are
scripted; the real ones: test_ci.py."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache
from tilewright.cli.commands import build_parser
from tilewright.cli.terminal.live import Board, Plain
from tilewright.cli.terminal.style import console
from tilewright.ir.errors import KernelError
from tilewright.opts.opt import opt
from tilewright.search.result import Job, Result, make

from .conftest import Tune, row

TEXT = """
[targets.ci]
threads = 1

[targets.far]
target = "llvm:x86_64:far:*"
threads = 8

[[kernel]]
name = "matmul"
shapes = ["m=8,n=8,k=8", "m=8,n=8,k=9"]
targets = ["ci"]

[[kernel]]
name = "softmax"
shapes = ["m=8,n=8"]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kernels.toml"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Scripted searches: `fate[kernel]` is raised or returned; `known` kernels are cached."""
    script: dict[str, Any] = {"fate": {}, "known": set(), "given": []}

    def tune(kernel: str, shape: Any, dtype: Any, device: Any, budget: Any = None, **more: Any) -> Result:
        job = Job(kernel, shape, getattr(dtype, "name", dtype) or "", device.name, more["threads"], "portfolio", flops=1000, bytes=1000)
        found = make(job, t_min=1e-6, t_med=1e-6, n=3, opts=(opt("UPCAST", "m", 8),), gain=1.5)
        script["given"].append((kernel, budget))
        more["progress"].phase("searching")
        more["progress"].best(found)
        fate = script["fate"].get(kernel)
        if isinstance(fate, BaseException):
            raise fate
        return fate or found

    def cached(
        kernel: str, shape: Any, dtype: Any, device: Any, threads: int, cache: Any, asked: Any, objective: str, numerics: str
    ) -> Result | None:
        return (
            make(Job(kernel, shape, getattr(dtype, "name", dtype) or "", device.name, threads, ""), t_min=1e-6, n=3)
            if kernel in script["known"]
            else None
        )

    monkeypatch.setattr("tilewright.search.api.tune", tune)
    monkeypatch.setattr("tilewright.search.api.cached", cached)
    monkeypatch.setattr("tilewright.cli.tuning.tune_manifest.probe", lambda *_: None)
    return script


def test_all_entries_are_tuned_and_summed_up(tune: Tune, file: str, searches: dict[str, Any]) -> None:
    done = tune("run", "--manifest", file, "--budget", "6m")
    assert done.code == 0
    said = done.out.splitlines()
    assert re.search(r"^tuning matmul m=8,n=8,k=8 float32 for ci  \(2/4, 1 elsewhere, [056]:\d\d left\)$", done.out, re.M)
    assert "[2/4] matmul m=8,n=8,k=8 float32 for ci: tuned, 1 µs  1 GFLOP/s  1 GB/s" in said
    table = [re.split(r"  +", x.strip()) for x in said if re.match(r" *(matmul|softmax)  ", x)]
    assert table[0] == ["matmul", "m=8,n=8,k=8", "float32", "ci", "tuned", "1 µs", "1", "1", "-", "1.50x", "Um8"]
    assert [t[3:5] for t in table] == [["ci", "tuned"], ["ci", "tuned"], ["ci", "tuned"], ["far", "elsewhere"]]
    assert "3 tuned, 1 elsewhere" in said
    assert said[-1].startswith("far is elsewhere: the device cpu here is llvm:")
    assert [k for k, _ in searches["given"]] == ["matmul", "matmul", "softmax"]
    assert searches["given"][0][1].seconds <= 120 < searches["given"][2][1].seconds, "time that was not used flows on"


def test_what_failed_is_named_and_the_exit_code_says_so(tune: Tune, file: str, searches: dict[str, Any]) -> None:
    searches["fate"] = {"matmul": KernelError("no such thing")}
    done = tune("run", "--manifest", file, "--quiet")
    assert done.code == 4 and "1 tuned, 2 failed, 1 elsewhere" in done.out and "tuning" not in done.out
    assert done.out.count("failed: matmul m=8,n=8,k=") == 2 and f"({file}, line 9): no such thing" in done.out


def test_an_interrupt(tune: Tune, file: str, searches: dict[str, Any]) -> None:
    searches["fate"] = {"matmul": KeyboardInterrupt()}
    done = tune("run", "--manifest", file)
    assert done.code == 130 and "1 elsewhere, 1 interrupted, 2 left" in done.out
    assert "the same command goes on from there" in done.out


def test_json_has_every_entry(tune: Tune, file: str, searches: dict[str, Any], tmp_path: Path) -> None:
    searches["known"] = {"softmax"}
    assert tune("run", "--manifest", file, "--json", str(tmp_path / "out.json"), "--quiet").code == 0
    got = json.loads((tmp_path / "out.json").read_text())
    assert got["schema"] == 1 and got["exit_code"] == 0
    assert [(e["kernel"], e["target"], e["status"]) for e in got["entries"]] == [
        ("matmul", "ci", "tuned"), ("matmul", "ci", "tuned"), ("softmax", "ci", "cached"), ("softmax", "far", "elsewhere"),
    ]  # fmt: skip
    assert got["entries"][0]["result"]["t_min"] == 1e-6 and got["entries"][3]["result"] is None
    done = tune("run", "--manifest", file, "--json", "-", "--target", "ci")
    assert len(json.loads(done.out)["entries"]) == 3 and "2 tuned, 1 cached" in done.err.replace("1 cached, 2 tuned", "2 tuned, 1 cached")


def test_nothing_is_for_this_machine(tune: Tune, file: str, searches: dict[str, Any]) -> None:
    done = tune("run", "--manifest", file, "--target", "far")
    assert done.code == 3 and "no target of" in done.err and searches["given"] == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--manifest", "{file}", "--dtype", "float32", "--random-seed", "1"], "--dtype, --random-seed cannot be used with --manifest"),
        (["--manifest", "{file}", "--kernel", "matmul"], "not allowed with argument"),
        (["--manifest", "{file}", "--mode", "record"], "--mode record is for one kernel"),
        (["--manifest", "{file}", "--mode", "require", "--retune"], "use one of them"),
        (["--manifest", "{file}", "--target", "cii"], "did you mean 'ci'"),
        (["--manifest", "/nowhere.toml"], "cannot read the manifest /nowhere.toml"),
        (["--manifest", "{file}", "--json", "/nowhere/x.json"], "cannot write --json"),
        (["--manifest", "{file}", "--budget", "soon"], "budget 'soon' is not a time"),
        (["--kernel", "matmul", "--target", "ci"], "--target picks targets of a --manifest"),
        ([], "required: KERNEL (or --kernel NAME), or --manifest"),
    ],
)
def test_bad_usage(tune: Tune, file: str, searches: dict[str, Any], args: list[str], said: str) -> None:
    done = tune("run", *(a.format(file=file) for a in args))
    assert done.code == 2 and said in done.err and searches["given"] == []


# looking up ---------------------------------------------------------------------------------------------------------
def test_require_lists_what_is_missing_with_the_command_that_tunes_it(tune: Tune, file: str) -> None:
    done = tune("run", "--manifest", file, "--mode", "require")
    assert done.code == 5 and "0 of 4 present" in done.out and done.out.count("nothing that was verified is cached") == 4
    assert "target llvm:x86_64:far:*, 8 threads, compiler llvmlite-" in done.out
    commands = [shlex.split(x) for x in done.out.splitlines() if x.startswith("  tune run")]
    assert len(commands) == 4
    for words in commands:
        assert build_parser().parse_args(words[1:]).kernel in ("matmul", "softmax")
    assert commands[0] == shlex.split("tune run --kernel matmul --shape m=8,n=8,k=8 --dtype float32 --threads 1")
    assert done.out.splitlines()[-1] == f"all at once, on a machine of that target: tune run --manifest {file} --budget 5m"


def test_check_in_all_formats(tune: Tune, file: str, cache_file: Path) -> None:
    before = json.loads(tune("cache", "check", "--manifest", file, "--format", "json").out)["entries"]
    assert {e["state"] for e in before} == {"missing"}
    from tilewright.cache.version import tool_version

    wanted = [{**e["wanted"], "target": e["wanted"]["target"].replace("*", "fma")} for e in before]
    with cache.open() as store:
        store.record([row(**w, tool_version=tool_version(), opts="[]", opts_display="[]") for w in wanted])
        store.record(row(**(wanted[0] | {"threads": 99})))
    done = tune("cache", "check", "--manifest", file)
    assert done.code == 0 and "4 of 4 present" in done.out
    assert tune("run", "--manifest", file, "--mode", "require", "--quiet").out == "4 of 4 present\n"
    lines = tune("cache", "check", "--manifest", file, "--format", "markdown").out.splitlines()
    assert lines[0] == f"**{file}**: all 4 entries are in the cache"
    assert lines[2:5] == [
        "| kernel | shape | dtype | for | state | time | measured |", "|---|---|---|---|---|---:|---|",
        "| matmul | m=8,n=8,k=8 | float32 | ci | present | 9 µs | 2026-01-31 |",
    ]  # fmt: skip
    with cache.open() as store:
        store.clear(threads=8)
    done = tune("cache", "check", "--manifest", file, "--format", "markdown")
    assert done.code == 5 and "3 of 4 entries" in done.out and "| **missing** |" in done.out
    assert tune("cache", "check", "--manifest", file, "--target", "ci").code == 0


def test_stale_rows_are_to_be_tuned_again(tune: Tune, file: str, cache_file: Path) -> None:
    entry = json.loads(tune("cache", "check", "--manifest", file, "--format", "json").out)["entries"][3]
    with cache.open() as store:
        store.record(row(**(entry["wanted"] | {"target": "llvm:x86_64:far:avx2"}), tool_version="old"))
    done = tune("cache", "check", "--manifest", file, "--target", "far")
    assert done.code == 5 and "stale: softmax" in done.out and "--threads 8 --retune" in done.out


def test_json_of_a_look_up_can_go_to_a_file(tune: Tune, file: str, tmp_path: Path) -> None:
    done = tune("run", "--manifest", file, "--mode", "require", "--json", str(tmp_path / "o.json"))
    assert done.code == 5 and len(json.loads((tmp_path / "o.json").read_text())["entries"]) == 4 and "0 of 4 present" in done.out
    done = tune("run", "--manifest", file, "--mode", "require", "--json", "-")
    assert len(json.loads(done.out)["entries"]) == 4 and "0 of 4 present" in done.err


def test_displays_show_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    Plain("matmul", 3.0, None, console(), overall=lambda: "1/2, 0:03 left")
    assert capsys.readouterr().out == "tuning matmul  (1/2, 0:03 left)\n"
    out = console()
    out.print(Board("matmul", 3.0, None, out, overall=lambda: "1/2, 0:03 left").render())
    assert re.search(r"manifest +1/2, 0:03 left", capsys.readouterr().out)
