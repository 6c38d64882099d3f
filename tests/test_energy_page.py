"""The Python of docs/energy.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parents[1] / "docs/energy.md").read_text()


@pytest.mark.slow
def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cache.objective_types._registered", {})
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    for i, block in enumerate(blocks):
        exec(compile(block, f"energy.md, block {i + 1}", "exec"), names)
        if i == 0:
            assert names["found"].front and names["frugal"].origin == names["within"].origin == "exact"
    assert names["found"].value > names["found"].t_med * 1000
    assert names["within"].built.signature.working_memory(1) <= 64 << 10
