"""The Python of docs/tensor.md runs as it stands, and what it quotes is what its commands print."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tilewright.tensor.partition import Rule

from tests.test_docs import module

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "tensor.md").read_text()


@pytest.mark.slow
def test_the_python_of_the_page_runs() -> None:
    names: dict[str, Any] = {}
    found = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    assert len(found) > 4
    for i, block in enumerate(found):
        exec(compile(block, f"tensor.md, block {i + 1}", "exec"), names)


@pytest.mark.slow
def test_commands_print_what_the_page_says() -> None:
    made = module(DOCS / "make_tensor.py").made(PAGE)
    assert PAGE.count("```text\n") == 3
    difference = "".join(difflib.unified_diff(PAGE.splitlines(True), made.splitlines(True)))
    assert made == PAGE, f"run `python docs/make_tensor.py` and read the difference:\n{difference}"


def test_every_rule_is_in_the_table() -> None:
    table = PAGE[PAGE.index("| rule |") : PAGE.index("### Attention")]
    rows = {name.strip() for row in re.findall(r"^\| ([a-z ,]+) \|", table, re.M) for name in row.split(",")}
    explained = {"host_input": "host", "fold": "head"}
    missing = {r.name for r in Rule if explained.get(r.name, r.name.replace("_", " ")) not in rows}
    assert not missing, sys.modules[__name__]
