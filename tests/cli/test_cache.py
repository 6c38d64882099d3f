"""tune cache: list, show, export, import, clear; and tune report, on recorded rows."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
from tilewright import cache

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


def test_a_kernel_from_a_file_is_found_wherever_the_file_is(tune: Tune, cache_file: Path) -> None:
    with cache.open() as store:
        store.record(row(name="there/my.py:make", kernel="u" * 64))
        store.record(row(name="there/my.py:other", kernel="v" * 64))
    assert [r["name"] for r in json.loads(tune("cache", "list", "--format", "json", "--kernel", "my.py:make").out)] == ["there/my.py:make"]
    assert tune("cache", "clear", "--kernel", "./my.py:make").out.startswith("deleted 1 ")


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
    assert tune("cache", "import", str(bundle)).out.endswith("4 were there already\n")
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
