"""The Python of docs/tiles.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tilewright.tile import TileKernel

PAGE = (Path(__file__).resolve().parents[1] / "docs/tiles.md").read_text()


@pytest.mark.slow
def test_the_python_of_the_page_runs() -> None:
    names: dict[str, Any] = {}
    for i, block in enumerate(re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)):
        exec(compile(block, f"tiles.md, block {i + 1}", "exec"), names)
    made = {n for n, x in names.items() if isinstance(x, TileKernel)}
    assert made == {"matmul", "blur", "attention", "recurrence", "split", "checked"}
    assert names["kernel"].blocks.axes == ("m", "n", "k") and (64, 128, 64) not in names["kernel"].blocks.sizes
