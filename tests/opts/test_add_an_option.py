"""docs/add-an-option.md is true: every piece of code on the page stands in the file that it names, and no other file
knows of the option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "add-an-option.md").read_text()
PIECES = [
    (path, part.strip("\n"))
    for path, code in re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)
    for part in re.split(r"^\.\.\.\n", code, flags=re.MULTILINE)
]


@pytest.mark.parametrize(("path", "code"), PIECES, ids=[f"{i}-{path}" for i, (path, _) in enumerate(PIECES)])
def test_code_on_the_page_is_code_of_the_file(path: str, code: str) -> None:
    assert code in (ROOT / path).read_text(), f"{path} has changed; take the new lines into docs/add-an-option.md"


def test_the_page_names_at_most_four_files_to_write() -> None:
    written = dict.fromkeys(path for path, _ in PIECES)
    assert list(written) == re.findall(r"^## \d\. .*`([^`]+\.py)`$", PAGE, re.MULTILINE) and len(written) <= 4


def test_the_option_is_known_nowhere_else() -> None:
    """Outside what the page names, only what chooses among options (heuristics, and the default schedules of rows) may ask about EARLY_EXIT."""
    named = {path for path, _ in PIECES}
    found = set()
    for path in ROOT.glob("*/**/*.py"):
        where = path.relative_to(ROOT)
        if where.parts[0].startswith(".") or where.parts[0] in ("tests", "benchmarks", "build", "docs", "heuristics"):
            continue
        if re.search(r'"EARLY_EXIT"|\bearly_exit import', path.read_text()):
            found.add(str(where))
    assert found == named, found ^ named
