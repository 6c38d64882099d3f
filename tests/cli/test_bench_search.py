"""`tune bench-search`: scores, and clear words for what cannot be scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Tune


@pytest.fixture
def cache_json(tmp_path: Path) -> Path:
    rows: dict[str, Any] = {}
    for x in range(12):
        for y in range(5):
            rows[f"{x},{y}"] = {"x": x, "y": y, "time": 1.0 + abs(x - 7) + abs(y - 2) / 2, "compile_time": 1000.0}
    path = tmp_path / "space.json"
    path.write_text(json.dumps({"tune_params_keys": ["x", "y"], "cache": rows}))
    return path


def test_scores(tune: Tune, cache_json: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.json"
    done = tune("bench-search", str(cache_json), "--strategies", "uniform,choices,anneal", "--repeats", "3", "--json", str(out))
    assert done.code == 0, done.err
    assert "95 % interval" in done.out and "choices" in done.out
    data = json.loads(out.read_text())
    (space,) = data["spaces"].values()
    assert (space["configurations"], space["valid"], space["optimum_s"]) == (60, 60, 1e-3)
    assert {s["strategy"] for s in data["scores"]} == {"uniform", "choices", "anneal"}
    for s in data["scores"]:
        assert s["low"] <= s["score"] <= s["high"] <= 1
        assert list(s["spaces"]) == [str(cache_json)]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--strategies", "anealing"], "did you mean 'anneal'"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--budget", "200%"], "--budget is a share"),
        (["--strategies", ","], "--strategies names none"),
    ],
)
def test_bad_arguments(tune: Tune, cache_json: Path, args: list[str], said: str) -> None:
    done = tune("bench-search", str(cache_json), *args)
    assert done.code == 2 and said in done.err


def test_a_file_that_is_no_space(tune: Tune, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    done = tune("bench-search", str(path))
    assert done.code == 2 and f"{path}: not a recorded space" in done.err
