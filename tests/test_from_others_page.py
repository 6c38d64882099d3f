"""The Python of docs/from-others.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "from-others.md").read_text()


@pytest.mark.slow
def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_limits: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    names: dict[str, Any] = {}
    found = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    assert len(found) == 4
    for i, block in enumerate(found):
        exec(compile(block, f"from-others.md, block {i + 1}", "exec"), names)
