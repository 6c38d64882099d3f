"""tune cache diff, merge and prune."""

from __future__ import annotations

import json
from pathlib import Path

from tilewright import cache

from .conftest import Tune, row


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
