"""The Python of docs/api.md runs as it stands, in an empty folder."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parents[1] / "docs/api.md").read_text()


@pytest.mark.slow
def test_the_python_of_the_page_runs(
    tmp_path: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "default.db"))
    names: dict[str, Any] = {}
    logger = logging.getLogger("tilewright.search")
    level = logger.level
    try:
        blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
        for i, block in enumerate(blocks):
            exec(compile(block, f"api.md, block {i + 1}", "exec"), names)
    finally:
        logger.setLevel(level)
    assert len(blocks) == 6 and names["result"].found and names["compiled"].origin == "exact"
    assert (names["out"] == names["c"]).all() and "Tune it first" in capsys.readouterr().out
