"""tune fleet sweep: the plan, and resuming, with searches that are stood in for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tilewright.search.manifest import tune_all as manifests
from tilewright.search.manifest.tune_all import CACHED, FAILED, TUNED, Done

from .conftest import Tune

SWEEP = """
[targets.here]
threads = 1
[models.tiny]
hidden = 8
tokens = [1, 4, 16]
[[kernel]]
name = "softmax"
shape = { m = "tokens", n = "hidden" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(SWEEP)
    return path


class Died(BaseException):
    """The process goes away."""


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """What comes of the entry with so many tokens; what was tuned before is in the cache. `began`: those that were searched for."""
    script: dict[Any, Any] = {"began": [], "done": set()}

    def cached(entry: Any, *rest: Any) -> Any:
        return Done(entry, CACHED) if entry.shape["m"] in script["done"] else None

    def tune(
        entry: Any,
        device: Any,
        threads: int,
        cache: Any,
        share: Any,
        trials: Any,
        again: Any,
        strategy: Any,
        until: Any,
        show: Any,
        overall: Any,
    ) -> Done:
        with show(entry, share, trials, overall):
            m = entry.shape["m"]
            script["began"].append(m)
            come = script.get(m, TUNED)
            if come is Died:
                raise Died
            if come == TUNED:
                script["done"].add(m)
            return Done(entry, come, message="it broke" if come == FAILED else "")

    monkeypatch.setattr(manifests, "_cached", cached)
    monkeypatch.setattr(manifests, "_tune", tune)
    monkeypatch.setattr("tilewright.cli.tuning.tune_manifest.probe", lambda *rest: None)
    return script


def test_the_plan_says_what_waits_for_what_and_writes_nothing(tune: Tune, file: Path) -> None:
    told = json.loads(tune("fleet", "sweep", str(file), "--dry-run", "--json", "-").out)
    assert [(e["shape"]["m"], e["after"], e["depth"], e["models"]) for e in told["entries"]] == [
        (4, None, 0, ["tiny"]), (1, 0, 1, ["tiny"]), (16, 0, 1, ["tiny"])
    ]  # fmt: skip
    done = tune("fleet", "sweep", str(file), "--dry-run")
    assert "3 entries in 1 tree, at most 2 after one another; nothing was tuned" in done.out
    assert [p.name for p in file.parent.iterdir()] == ["models.toml"]


def test_an_ended_sweep_goes_on_and_a_deadly_entry_is_left(tune: Tune, file: Path, searches: dict[Any, Any]) -> None:
    sweep = ("fleet", "sweep", str(file), "--quiet")
    searches.update({4: TUNED, 1: FAILED, 16: Died})
    for _ in range(2):
        with pytest.raises(Died):
            tune(*sweep)
    assert searches["began"] == [4, 1, 16, 1, 16], "what is done is not begun again, what failed is"
    searches[1] = TUNED
    done = tune(*sweep)
    assert done.code == 4 and searches["began"][5:] == [1]
    assert "1 cached" in done.out and "1 tuned" in done.out and "took its process with it" in done.out
    shown = json.loads(tune("fleet", "sweep", str(file), "--dry-run", "--json", "-").out)["entries"]
    assert [e["journal"] for e in shown] == ["cached", "tuned", "begun"]
    searches[16] = TUNED
    assert tune(*sweep, "--retry").code == 0 and searches["began"][6:] == [16]
    assert tune(*sweep).code == 0 and len(searches["began"]) == 7


def test_mistakes_end_before_anything_begins(tune: Tune, file: Path, searches: dict[Any, Any]) -> None:
    assert "has no model 'big'" in tune("fleet", "sweep", str(file), "--model", "big").err
    assert tune("fleet", "sweep", str(file), "--journal", str(file)).code == 2 and file.read_text() == SWEEP, "it is no journal"
    file.write_text(SWEEP.replace("hidden = 8", "hidden = []"))
    bad = tune("fleet", "sweep", str(file))
    assert bad.code == 2 and "line 4, [models.tiny]" in bad.err and not searches["began"]
