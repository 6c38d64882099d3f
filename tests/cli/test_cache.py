"""tune cache: list, show, export, import, clear, diff, merge and prune; whether a project's cache may answer; and tune report, on recorded rows."""

from __future__ import annotations

import io
import json
import re
import warnings
from argparse import Namespace
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import layers, project_consent
from tilewright.cli.command_line import ask_once

from .conftest import Tune, row


def test_report_of_an_empty_cache_says_how_to_fill_it(tune: Tune) -> None:
    done = tune("report")
    assert done.code == 0
    assert "tune run --kernel matmul" in done.out


def test_report_shows_time_rates_roofline_gain_and_options(tune: Tune, filled: Path) -> None:
    done = tune("report")
    assert done.code == 0
    line = next(text for text in done.out.splitlines() if "matmul" in text)
    cells = re.split(r"  +", line.strip())
    assert cells == ["matmul float32", "cpu", "9 µs", "21.8", "2.96", "56 %", "~2.78x", "beam", "Um8"]
    assert "softmax" in done.out


def test_report_narrows_by_kernel(tune: Tune, filled: Path) -> None:
    assert "matmul" not in tune("report", "--kernel", "softmax").out


def test_list_gives_the_best_of_each_key_and_all_measurements(tune: Tune, filled: Path) -> None:
    best = json.loads(tune("cache", "list", "--format", "json").out)
    assert [(r["name"], r["t_med"]) for r in best] == [("matmul", 10e-6), ("softmax", 0.02)]
    everything = json.loads(tune("cache", "list", "--format", "json", "--all").out)
    assert sorted(r["outcome"] for r in everything) == ["ok", "ok", "ok", "wrong"]
    assert everything[0]["shape"] == {"m": 64, "n": 48, "k": 32}


def test_list_narrows_by_a_part_of_the_shape(tune: Tune, filled: Path) -> None:
    assert len(json.loads(tune("cache", "list", "--format", "json", "--all", "--shape", "k=32").out)) == 3
    assert json.loads(tune("cache", "list", "--format", "json", "--all", "--shape", "k=33").out) == []


def test_list_table_names_failures(tune: Tune, filled: Path) -> None:
    done = tune("cache", "list", "--all")
    assert "wrong" in done.out and "Um64" in done.out


def test_show_prints_every_field(tune: Tune, filled: Path) -> None:
    done = tune("cache", "show", "--kernel", "matmul")
    assert 'opts_display   [["UPCAST", "m", 8]]' in done.out
    assert "t_med          1e-05" in done.out


def test_export_clear_import_is_a_round_trip(tune: Tune, filled: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "all.jsonl"
    before = tune("cache", "list", "--format", "json", "--all").out
    assert tune("cache", "export", str(bundle)).out == f"wrote 4 measurements to {bundle}\n"
    assert tune("cache", "clear", "--all").out.startswith("deleted 4 measurements")
    assert json.loads(tune("cache", "list", "--format", "json", "--all").out) == []
    assert tune("cache", "import", str(bundle)).out.startswith("added 4 measurements")
    again = tune("cache", "import", str(bundle)).out
    assert "4 were there already\nsome are for x86_64:znver5:avx2, and this processor is x86_64:" in again
    after = json.loads(tune("cache", "list", "--format", "json", "--all").out)
    assert all(r["provenance"].pop("imported") for r in after), "they say where they are from"
    assert sorted(map(json.dumps, after)) == sorted(map(json.dumps, json.loads(before)))
    assert "unverified" in tune("cache", "list").out and "unverified" not in tune("cache", "list", "--all", "--kernel", "nothing").out


def test_export_best_to_standard_output(tune: Tune, filled: Path) -> None:
    lines = tune("cache", "export", "-", "--best").out.splitlines()
    assert [json.loads(line)["name"] for line in lines[1:]] == ["matmul", "softmax"]


def test_clear_asks_what_and_narrows(tune: Tune, filled: Path) -> None:
    done = tune("cache", "clear")
    assert done.code == 2 and "--all for everything" in done.err
    assert tune("cache", "clear", "--shape", "m=64").out.startswith("deleted 3 ")
    assert [r["name"] for r in json.loads(tune("cache", "list", "--format", "json").out)] == ["softmax"]


@pytest.mark.parametrize("text", ["not json", '{"tilewright":"bundle","schema":99}', ""])
def test_import_of_something_else_is_refused(tune: Tune, tmp_path: Path, text: str) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(text + "\n")
    done = tune("cache", "import", str(bad))
    assert done.code == 2
    assert done.err.startswith("error: ") and "Traceback" not in done.err


def test_a_damaged_cache_is_moved_aside_by_a_command_that_writes(tune: Tune, filled: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "b.jsonl"
    tune("cache", "export", str(bundle))
    data = filled.read_bytes()
    filled.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    damaged = filled.read_bytes()
    for words in (["report"], ["cache", "list"], ["cache", "show"], ["cache", "prune", "--dry-run"], ["cache", "export", "-"]):
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # this process has said it before
            done = tune(*words)
        assert done.code in (0, 2) and "is damaged" in done.err and filled.read_bytes() == damaged, words
        assert sorted(p.name for p in tmp_path.iterdir()) == ["b.jsonl", "cache.db"], words
    done = tune("cache", "import", str(bundle))
    assert done.code == 0 and "is damaged; it was moved to" in done.err
    assert [p.read_bytes() for p in tmp_path.glob("cache.db.corrupt-*")] == [damaged], "the old file must not be lost"


def test_an_unwritable_cache_is_bad_usage(tune: Tune, tmp_path: Path, filled: Path) -> None:
    bundle = tmp_path / "b.jsonl"
    tune("cache", "export", str(bundle))
    done = tune("cache", "import", str(bundle), "--cache", str(tmp_path / "b.jsonl" / "cache.db"))
    assert done.code == 2 and done.err.startswith("error: ")


def test_diff_says_what_differs_and_exits_so_on_request(tune: Tune, filled: Path, tmp_path: Path) -> None:
    other = str(tmp_path / "b.jsonl")
    assert tune("cache", "export", other, "--kernel", "softmax").code == 0
    done = tune("cache", "diff", str(filled), other)
    assert done.code == 0 and "only in A" in done.out and "2 keys: 1 only in A, 1 same" in done.out
    assert tune("cache", "diff", str(filled), other, "--exit-code").code == 1
    assert tune("cache", "diff", str(filled), other, "--exit-code", "--kernel", "softmax").code == 0
    told = json.loads(tune("cache", "diff", str(filled), other, "--format", "json").out)
    assert [(k["name"], k["state"]) for k in told["keys"]] == [("matmul", "only in A"), ("softmax", "same")]
    assert told["keys"][0]["measurements"] == {"both": 0, "only_a": 3, "only_b": 0}
    assert tune("cache", "diff", str(filled), str(tmp_path / "none.db")).code == 2


def test_diff_fits_every_width(tune: Tune, filled: Path, tmp_path: Path, monkeypatch: object) -> None:
    with cache.open(tmp_path / "b.db") as c:
        c.record(row(opts=[["UPCAST", "a0", 2]], opts_display=[["UPCAST", "m", 2]], t_med=1.0, t_min=1.0))
    for width in (40, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))  # type: ignore[attr-defined]
        lines = tune("cache", "diff", str(filled), str(tmp_path / "b.db")).out.splitlines()
        table = [x for x in lines if not x.startswith(("A: ", "B: ", "measurements: ", "2 keys"))]
        assert max(map(len, table)) <= width and any("9 µs" in x for x in table)


def test_merge_says_what_it_added(tune: Tune, filled: Path, tmp_path: Path) -> None:
    into = str(tmp_path / "all.db")
    told = json.loads(tune("cache", "merge", str(filled), "--into", into, "--dry-run", "--format", "json").out)
    assert told["inputs"][0]["added"] == 4 and not Path(into).exists()
    assert tune("cache", "merge", str(filled), str(filled), "--into", into).out.splitlines()[-1] == f"{into} holds 4 measurements"


def test_prune_shows_first_and_keeps_a_copy(tune: Tune, filled: Path, tmp_path: Path) -> None:
    with cache.open() as store:
        store.record(row(run_id="again", when="2026-02-01T08:00:00.000000+00:00"))
    shown = tune("cache", "prune", "--dry-run")
    assert shown.code == 0 and "1 of 5 measurements would be deleted; nothing was" in shown.out
    saved = str(tmp_path / "gone.jsonl")
    done = tune("cache", "prune", "--superseded", "--save", saved)
    assert "deleted 1 of 5 measurements" in done.out and len(Path(saved).read_text().splitlines()) == 2
    lost = tune("cache", "prune", "--target", "*znver5*", "--dry-run")
    assert "get another one: 2" in lost.out and "softmax" in lost.out
    told = json.loads(tune("cache", "prune", "--target", "*znver5*", "--format", "json").out)
    assert told["deleted"] == 4 and len(told["lost"]) == 2
    assert tune("cache", "prune", "--before", "soon").code == 2
    before = Path(saved).read_bytes()
    assert tune("cache", "prune", "--cache", saved).code == 2 and Path(saved).read_bytes() == before, "a bundle is no cache"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (layers.ENV, project_consent.ENV):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "project" / ".tilewright" / "cache.db"
    with cache.open(path) as c:
        c.record(row())
    monkeypatch.chdir(path.parent.parent)
    return path


def asked(monkeypatch: pytest.MonkeyPatch, typed: str, **args: object) -> bool:
    """Whether somebody who types this was asked."""
    said = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", said)
    ask_once(Namespace(**({"cache": None} | args)))
    return "Use it? [y/N]" in said.getvalue()


@pytest.mark.parametrize(("typed", "answer"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", None)])
def test_it_is_asked_once_and_the_answer_is_kept(project: Path, monkeypatch: pytest.MonkeyPatch, typed: str, answer: bool | None) -> None:
    assert asked(monkeypatch, typed) and project_consent.answer(project) is answer
    assert asked(monkeypatch, "n\n") is (answer is None)


def test_nobody_is_asked_without_need(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not asked(monkeypatch, "y\n", cache="x.db")
    ask_once(Namespace())  # a command without a cache
    for name, value in ((project_consent.ENV, "0"), (project_consent.ENV, "1"), (layers.ENV, "x.db")):
        with monkeypatch.context() as m:
            m.setenv(name, value)
            assert not asked(m, "y\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ask_once(Namespace(cache=None))
    assert project_consent.answer(project) is None, "no terminal"
    project.chmod(0o666)
    assert not asked(monkeypatch, "y\n"), "it would not be used"


def test_an_answer_that_cannot_be_kept_counts_for_now(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("in the way")
    monkeypatch.setenv(project_consent.ENV, "")
    with pytest.warns(UserWarning, match="the answer cannot be kept .*TILEWRIGHT_PROJECT_CACHE=1 says the same"):
        assert asked(monkeypatch, "y\n")
    assert project_consent.setting() is True


def test_patterns_of_names_narrow(tune: Tune, filled: Path) -> None:
    assert "matmul" in tune("cache", "list", "--kernel", "mat*").out and "softmax" not in tune("cache", "list", "--kernel", "mat*").out


@pytest.mark.parametrize("place", ["postgres//u@h/db", "postgresql:/u:secret@h/db", "postgres:u@h"])
def test_a_misspelt_url_is_no_file(tune: Tune, place: str) -> None:
    done = tune("cache", "list", "--cache", place)
    assert done.code == 2 and "is no URL and looks like one: write postgresql://USER@HOST/DATABASE" in done.err and "secret" not in done.err


def test_a_difference_for_reviewers(tune: Tune, filled: Path, tmp_path: Path) -> None:
    other = str(tmp_path / "b.db")
    with cache.Cache.open(other) as store:
        store.record(
            [
                row(
                    opts=[["UPCAST", "a0", 4], ["PARALLEL", "a1"]],
                    opts_display=[["UPCAST", "m|[x]", 4], ["PARALLEL", "n"]],
                    t_min=3e-6,
                    t_med=3e-6,
                )
            ]
        )
    said = tune("cache", "diff", str(filled), other, "--format", "markdown").out.splitlines()
    assert said[0].startswith("2 answers differ from cache.db to b.db") and said[2].startswith("| kernel | change | time")
    assert (
        r"| **matmul** m=64,n=48,k=32 float32 | other schedule | 9 µs → 3 µs (3.00x as fast) | into registers: 8 of m → "
        r"into registers: 4 of m\|\[x\]; parallel: n | once | cpu, 2 threads, llvm:x86\_64:znver5:avx2 |"
    ) in said
    assert any("only in A" in line and "20 ms → none" in line and "as written" in line for line in said)


def test_export_of_what_a_manifest_names(tune: Tune, cache_file: Path, known_limits: Path, tmp_path: Path) -> None:
    manifest, bundle = tmp_path / "m.toml", tmp_path / "b.jsonl"
    manifest.write_text('[[kernel]]\nname = "add"\nshapes = ["m=64", "m=96"]\n[targets.here]\nthreads = 1\n')
    for m in ("64", "128"):
        assert tune("pin", "add", "--shape", f"m={m}", "--threads", "1", "--opts", "start").code == 0
    done = tune("cache", "export", str(bundle), "--manifest", str(manifest))
    assert done.code == 5 and "1 of 2 entries" in done.err and "m=96" in done.err and not bundle.exists()
    manifest.write_text(manifest.read_text().replace(', "m=96"', ""))
    done = tune("cache", "export", str(bundle), "--manifest", str(manifest))
    assert done.code == 0 and "wrote 1 measurement to" in done.out and '"m":64' in bundle.read_text().replace(" ", "").replace("\\", "")


def test_a_cache_that_is_not_there_yet_is_said(tune: Tune, filled: Path, tmp_path: Path) -> None:
    assert "no such file" in tune("cache", "list", "--cache", str(tmp_path / "other.db")).out and not (tmp_path / "other.db").exists()
    assert "no such file" not in tune("cache", "list", "--kernel", "none*").out
