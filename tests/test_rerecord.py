"""Which code changed since a figure was recorded (`make bench-check`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import rerecord

COMMAND = "python benchmarks/record.py benchmarks/a.py"


def test_a_figure_of_a_commit_that_was_rebased_is_of_the_commit_it_came_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        author = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *author, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    file, code = tmp_path / "a.json", tmp_path / "opts" / "one.py"
    code.parent.mkdir()
    file.write_text(json.dumps({"command": COMMAND, "commit": "1" * 40}))
    for text in ("first", "second"):
        code.write_text(text)
        git("init", "-q"), git("add", "-A"), git("commit", "-qm", text)
    first, second = git("rev-parse", "HEAD~1"), git("rev-parse", "HEAD")
    monkeypatch.setattr(rerecord, "ROOT", tmp_path)
    for said, since, files in (("1" * 40, first, {"opts": 1}), ("", first, {"opts": 1}), (second + "+", second, {})):
        assert rerecord.changed(file, {"command": COMMAND, "commit": said}) == (since, files)
