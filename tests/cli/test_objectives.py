"""What the command says of searches for something but the time: tables, fronts, the page, a manifest."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from tilewright import cache

from .conftest import Tune, row

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
