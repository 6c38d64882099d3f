"""Recorded spaces of other tuners: what is read of them, and what is said of a file that is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tilewright.ir.errors import UsageError
from tilewright.search import Recording, Space
from tilewright.search.bench.space_files import load


def entry(x: int, y: str, time: float | str, **more: Any) -> dict[str, Any]:
    costs = {"compile_time": 400.0, "verification_time": 0, "benchmark_time": 50.0, "framework_time": 5.0, "strategy_time": 1e9}
    return {"x": x, "y": y, "time": time, "times": [1.0, 2.0], **costs, **more}


def kernel_tuner(**more: Any) -> dict[str, Any]:
    rows = [entry(16, "a", 2.0), entry(2, "a", 1.5), entry(16, "b", "CompilationFailedConfig"), entry(2, "b", "RuntimeFailedConfig")]
    return {
        "kernel_name": "k",
        "device_name": "d",
        "tune_params_keys": ["x", "y"],
        "cache": {str(i): r for i, r in enumerate(rows)},
        **more,
    }


def t4() -> dict[str, Any]:
    def row(x: int, invalidity: str, ms: float | None) -> dict[str, Any]:
        times = {"compilation_time": 400.0, "framework": 5.0, "search_algorithm": 1e9, "validation": 0.0, "runtimes": [1.0, 2.0]}
        said = [{"name": "time", "value": ms, "unit": "ms"}] if ms is not None else []
        return {
            "configuration": {"x": x},
            "times": times,
            "invalidity": invalidity,
            "correctness": 1,
            "measurements": said,
            "objectives": ["time"],
        }

    return {
        "schema_version": "1.0.0",
        "results": [row(2, "correct", 1.5), row(4, "compile", None), row(8, "constraints", None), row(16, "correct", None)],
    }


def test_kernel_tuners_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(kernel_tuner()))
    space = load(path)
    assert [(e.outcome, e.t_min) for e in space.entries] == [("ok", 2e-3), ("ok", 1.5e-3), ("build", None), ("crash", None)]
    assert {e.cost_s for e in space.entries} == {0.455}, "the search's own time is not part of what a configuration costs"
    assert space.about["device_name"] == "d"
    (template,) = Space(space).templates()
    assert dict(template.params) == {"x": (2, 16), "y": ("a", "b")}
    assert Space(space).instance(template, {"x": 2, "y": "a"}) == space.entries[1].opts


def test_a_cache_that_was_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "cache.json.gz"
    path.write_bytes(gzip.compress((json.dumps(kernel_tuner())[:-2] + ",\n").encode()))
    assert len(load(path).entries) == 4


def test_t4(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(t4()))
    assert [(e.params["x"], e.outcome, e.t_min, e.cost_s) for e in load(path).entries] == [
        (2, "ok", 1.5e-3, pytest.approx(0.408)),
        (4, "build", None, pytest.approx(0.408)),
        (16, "ok", 1.5e-3, pytest.approx(0.408)),  # no objective: the mean of its runs
    ]


def test_ours_packed(tmp_path: Path) -> None:
    path = tmp_path / "plain.json"
    path.write_text(json.dumps(kernel_tuner()))
    space = load(path)
    space.save(tmp_path / "space.jsonl.gz")
    assert load(tmp_path / "space.jsonl.gz") == space == Recording.load(tmp_path / "space.jsonl.gz")


BROKEN = {
    "none of the formats": ("{}", "neither .cache. .Kernel Tuner. nor .results. .T4."),
    "no JSON": ("a,b\n1,2\n", "neither JSON nor JSON Lines"),
    "a list": ("[1]", "the outermost thing in it is no object"),
    "nothing recorded": (json.dumps(kernel_tuner(cache={})), "it holds no configuration"),
    "no time": (json.dumps(kernel_tuner(cache={"1": {"x": 1, "y": 2}})), "the entry '1' has no \"time\""),
    "a parameter is missing": (json.dumps(kernel_tuner(cache={"1": {"x": 1, "time": 2}})), "lacks the parameter 'y'"),
    "no names": (json.dumps(kernel_tuner(tune_params_keys=None)), "tune_params_keys"),
    "a list as a value": (json.dumps(kernel_tuner(cache={"1": entry([1], "a", 1.0)})), "a list or an object"),  # type: ignore[arg-type]
    "no time in T4": (
        json.dumps({"results": [{"configuration": {"x": 1}, "times": {}, "invalidity": "correct"}]}),
        "result 1 is correct and has no time",
    ),
    "no unit of time": (
        json.dumps({"results": [{"configuration": {"x": 1}, "measurements": [{"name": "time", "value": 1, "unit": "J"}]}]}),
        "only times can be compared",
    ),
    "ours, another schema": ('{"tilewright_space": 7}\n', "schema 7"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_no_space_is_said(what: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(BROKEN[what][0])
    with pytest.raises(UsageError, match=BROKEN[what][1]):
        load(path)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*No such file"):
        load(tmp_path / "nowhere.json")
    (tmp_path / "torn.json.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path / "torn.json.gz")
