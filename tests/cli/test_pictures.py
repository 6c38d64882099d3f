"""The report's pictures: no name over another, whatever the number of kernels."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cli.report.svg import ROOM, labels
from tilewright.search.strategies.optuna_study import StudyKeeper, StudyTrial

from .conftest import Tune, row

KERNELS = 40


def record_crowd(file: Path) -> None:
    """Kernels of nearly one intensity and one rate, some exactly at the same place."""
    limits = {"roofline": {"bound": "memory", "peak": 3e11, "bandwidth": 2e10}}
    rows = [
        row(
            kernel=f"{i:064d}",
            name=f"my_long_kernel_{i}",
            shape={"m": 64 + i},
            t_min=1e-5 * (1 + 0.02 * (i // 2)),
            t_med=2e-5,
            flops=100_000 + 2000 * (i % 5),
            provenance=limits,
        )
        for i in range(KERNELS)
    ]
    with cache.open(file) as store:
        store.record(rows)


def test_names_without_room_are_left_out_and_no_two_meet() -> None:
    points = [(f"kernel_number_{i}", 200.0 + 3 * (i % 5), 150.0 + 2 * (i // 5)) for i in range(KERNELS)]
    note = (210.0, 100.0, 290.0, 120.0)
    at = labels(points, ROOM, [note])
    boxes = [(x, y - 13.5, x + 8.6 * len(name), y + 3.6) for (name, _, _), spot in zip(points, at, strict=True) if spot for x, y in [spot]]
    assert 4 < len(boxes) < KERNELS
    for a, b in [*combinations(boxes, 2), *((a, note) for a in boxes)]:
        assert not (a[0] < b[2] and a[2] > b[0] and a[1] < b[3] and a[3] > b[1]), (a, b)
    assert all(ROOM[0] < b[0] and b[2] < ROOM[2] and ROOM[1] < b[3] < ROOM[3] for b in boxes)
    assert labels([("alone", 200.0, 150.0)], ROOM) == [(210.0, pytest.approx(154.86))]
    assert labels([("x" * 80, 200.0, 150.0)], ROOM) == [None], "wider than the picture"


def test_every_kernel_of_a_crowd_is_named_once(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    record_crowd(cache_file)
    assert tune("report", "--html", str(tmp_path / "r.html")).code == 0
    text = (tmp_path / "r.html").read_text()
    figure = text[text.index("<figure><figcaption>cpu") : text.index("</figure>")]
    named = re.findall(r'<text class="label"[^>]*>([^<]*)</text>', figure)
    listed = re.findall(r'<a href="#k\d+">(my_long_kernel_\d+) \d+ %</a>', figure)
    assert sorted(named + listed) == sorted(f"my_long_kernel_{i}" for i in range(KERNELS)) and named and listed
    assert figure.count('class="point"') == KERNELS


def test_convergence_has_every_measurement_and_failures_apart(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    def at(s: int, **fields: object) -> object:
        return row(run_id="r", when=f"2026-01-01T00:00:0{s}.000000+00:00", opts=[["UPCAST", "a0", s]], **fields)

    failed = {"t_min": None, "t_med": None, "verified": False}
    with cache.open(cache_file) as store:
        store.record(
            [
                at(1, t_min=9e-5, t_med=9e-5),
                at(2, outcome="wrong", **failed),
                at(3, t_min=8e-4, t_med=9e-4, outcome="slow", verified=False),
                at(4, outcome="wrong", **failed),
                at(5, t_min=4e-5, t_med=4e-5),
                at(6, outcome="crash", **failed),
            ]
        )
    assert tune("report", "--html", str(tmp_path / "r.html")).code == 0
    text = (tmp_path / "r.html").read_text()
    both = re.findall(r'<path class="trials c0" d="([^"]*)"', text)
    assert [d.count("h0") for d in both] == [3, 3]
    dots = [tuple(map(float, d)) for d in re.findall(r"M([\d.]+),([\d.]+)h0", both[0])]
    assert [x for x, _ in dots] == sorted({x for x, _ in dots}) and dots[1][1] < dots[0][1] < dots[2][1], "slower is higher"
    assert text.count("<title>2 wrong</title>") == text.count("<title>1 crash</title>") == 2
    assert text.count('class="curve c0"') == 2 and "90 µs first, 40 µs after 6 measurements" in text


@dataclass(frozen=True)
class Blocks:
    """A template of two choices."""

    name: str = "blocks"
    params: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"copies": (1, 2, 4), "unroll": (1, 2), "fixed": (8, 16)})

    def make(self, params: object) -> tuple[()]:
        return ()


def keep_study(url: str, name: str = "matmul") -> None:
    """Twelve finished trials and one that failed, of a study about `name`."""
    keeper = StudyKeeper(url, f"study of {name}", [Blocks()], {"kernel": name, "dtype": "float32", "device": "cpu", "threads": 2})
    for i, (copies, unroll) in enumerate([*product((1, 2, 4), (1, 2))] * 2):
        keeper.add(StudyTrial("blocks", {"copies": copies, "unroll": unroll, "fixed": 8}, "ok", 1e-6 * (copies + unroll + i / 100)))
    keeper.add(StudyTrial("blocks", {"copies": 1, "unroll": 1, "fixed": 16}, "crash"))
    keeper.close()


@pytest.mark.slow
def test_a_study_is_drawn_by_optuna_into_the_page(tune: Tune, filled: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="plotly is an extra: pip install 'tilewright[pictures]'")
    hostile = "</script><b>&matmul"
    url, page = str(tmp_path / "study.log"), tmp_path / "r.html"
    keep_study(url, hostile)
    done = tune("report", "--html", str(page), "--study", url)
    assert done.code == 0 and not done.err, done.err
    text = page.read_text()
    ends = re.findall(r'<script type="application/json" id="(p0-0-\d)">(.*?)</script>', text, re.S)
    history, importance, lines = (json.loads(made) for _, made in ends)
    assert [mark for mark, _ in ends] == re.findall(r'data-figure="([^"]*)"', text)
    assert max(history["data"][0]["y"]) == pytest.approx(6.11) and "µs" in history["layout"]["yaxis"]["title"]["text"]
    assert set(importance["data"][0]["y"]) == {"copies", "unroll"}, "short names, and nothing of what never differed"
    assert "copies" in json.dumps(lines) and hostile not in text and "13 trials: 12 ok, 1 crash" in text
    assert text.count("<script") == text.count("</script>") and not re.search(r"<script[^>]* src=", text)

    assert "no study like that" in tune("report", "softmax", "--html", str(page), "--study", url).err


@pytest.mark.slow
def test_mistakes_with_studies_say_what_to_do(tune: Tune, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = str(tmp_path / "r.html")
    assert "--study is a part of the page that --html writes" in tune("report", "--study", "x").err
    monkeypatch.setattr("tilewright.cli.report.study.library", lambda: "")
    for url in ("none.log", "sqlite:///none.db", f"sqlite:///{filled}"):
        done = tune("report", "--html", page, "--study", url)
        assert done.code == 2 and "there is no study at" in done.err, done.err
    assert not Path("none.log").exists() and not Path("none.db").exists()
    with sqlite3.connect(filled) as c:
        assert not c.execute("SELECT 1 FROM sqlite_master WHERE name = 'studies'").fetchone(), "the cache is left as it is"
    monkeypatch.undo()
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(filled))
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert "pip install 'tilewright[pictures]'" in tune("report", "--html", page, "--study", "x").err
