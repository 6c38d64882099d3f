"""`tune run --recorded`: what ran is shown, and tuned by weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import cache, named_kernels
from tilewright.cli.tuning import recorded
from tilewright.devices import get
from tilewright.plan import usage

from tests.cli.conftest import Tune

FILE = """
from tilewright.named_kernels import make

def mine(m, n):
    return make("softmax", {"m": m, "n": n})
"""


@pytest.fixture
def ran(cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two kernels that ran, of which one is from a file."""
    monkeypatch.setenv(usage.ENV, "record")
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    small, large = np.ones((4, 8), np.float32), np.ones((64, 64), np.float32)
    of_file = tw.best(f"{file}:mine", {"m": 4, "n": 8})
    of_file(small)
    named = tw.best("matmul", {"m": 64, "n": 64, "k": 64})
    for _ in range(50):
        named(large, large)
    usage.flush()
    monkeypatch.delenv(usage.ENV)
    return file


def test_the_list_has_the_heaviest_first(ran: Path, tune: Tune) -> None:
    shown = tune("run", "--recorded", "--dry-run")
    assert shown.code == 0
    assert shown.out.index("matmul") < shown.out.index("softmax") and "50" in shown.out and "start" in shown.out and str(ran) in shown.out


def test_a_run_that_is_not_worth_several_threads_weighs_what_it_takes_on_one(cache_file: Path) -> None:
    kernel = named_kernels.make("gelu", {"m": 30, "n": 100}, "float32")
    with cache.open() as store:
        one, two = (recorded._weighed(usage.UsedKernel(kernel, "", "cpu", n, 1), store) for n in (1, 2))
    assert 0 < two.seconds < 2 * one.seconds


def test_each_is_tuned_for_the_threads_that_it_ran_on(cache_file: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    with cache.open() as store:
        ran = [usage.UsedKernel(named_kernels.make("add", {"m": 4, "n": n}, "float32"), "", "cpu", n, 1) for n in (1, 2, 999)]
        usage.recorder(store)._add([(k, 1) for k in ran])
    found: list[Any] = []
    monkeypatch.setattr(recorded, "tune_entries", lambda manifest, *_, **__: (found.append(manifest), 0))
    monkeypatch.setattr(type(get("cpu")), "threads", 2)
    shown = " ".join(tune("run", "--recorded").out.split())
    assert {e.purpose: e.place.threads for e in found[0].entries} == {"cpu, 1 thread": 1, "cpu, 2 threads": 2}
    assert {tuple(e.shape.values()) for e in found[0].entries} == {(4,), (8,)}, "its sizes tell it from others of its name"
    assert "it ran on 999 threads, and this process may use 2" in shown


def test_what_ran_is_tuned_and_a_file_that_is_gone_is_said(
    ran: Path, tune: Tune, known_limits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    ran.unlink()
    done = tune("run", "--recorded", "--trials", "1", "--quiet")
    assert done.code == 0 and "left out" in done.out and "is gone" in done.out and "1 tuned" in done.out
    with cache.open() as store:
        assert {r.name for r in store.rows()} == {"matmul"}
    assert "exact" in tune("run", "--recorded", "--dry-run").out


def test_nothing_recorded_and_what_does_not_go_together(tune: Tune) -> None:
    assert "nothing was recorded" in tune("run", "--recorded").out
    assert "--dry-run and --background are for --recorded" in tune("run", "matmul", "--dry-run").err
    for more in (["--shape", "m=4"], ["--manifest", "x.toml"], ["--objective", "energy"], ["--mode", "require"]):
        refused = tune("run", "--recorded", *more)
        assert refused.code == 2 and "--recorded" in refused.err


def test_where_nothing_can_be_tuned_it_is_said_why(ran: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "_weighed", lambda used, store: recorded.Weighed(used, 0.0, why="my.py is gone"))
    for more in ([], ["--background"]):
        refused = tune("run", "--recorded", *more)
        assert refused.code == 2 and "nothing that ran can be tuned here: my.py is gone" in refused.err
