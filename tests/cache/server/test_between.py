"""A server beside files and bundles: compared, merged, pruned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache
from tilewright.cache.comparison import compare, hold, merge
from tilewright.cli import main

from ..conftest import MakeRow


def test_a_server_is_merged_into_compared_and_pruned(
    server: Cache, url: str, make_row: MakeRow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = make_row(when="2026-01-01T08:00:00.000000+00:00"), make_row(when="2026-02-01T08:00:00.000000+00:00")
    with cache.open(tmp_path / "a.db") as mine:
        mine.record([old, new])
    assert merge([hold(tmp_path / "a.db")], url).added == (2,)
    assert not any(d.more_a or d.more_b for d in compare(hold(tmp_path / "a.db").rows, hold(url).rows))
    assert main(["cache", "prune", "--cache", url, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["deleted"] == 1 and "password" not in told["cache"]
    assert hold(url).rows == (new,), "the mirror hears of it"
    assert main(["cache", "diff", str(tmp_path / "a.db"), url, "--exit-code"]) == 0
    assert "1 in both, 1 only in A, 0 only in B" in capsys.readouterr().out
