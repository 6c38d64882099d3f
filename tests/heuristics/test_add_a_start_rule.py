"""docs/add-a-start-rule.md is true: the code on the page stands in the files that it names, at most three, and no other file knows of the rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tilewright import heuristics, named_kernels, targets
from tilewright.opts import apply

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "add-a-start-rule.md").read_text()
PIECES = re.findall(r'^```(?:python|text) title="([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)
RULE = "ShortSums"


@pytest.mark.parametrize(("path", "code"), PIECES)
def test_code_on_the_page_is_code_of_the_file(path: str, code: str) -> None:
    assert code.strip("\n") in (ROOT / path).read_text(), f"{path} has changed; take the new lines into docs/add-a-start-rule.md"


def test_a_rule_is_known_in_two_files() -> None:
    named = {path for path, _ in PIECES}
    assert len(named) == 2
    rooms = [p for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".") and p.name not in ("tests", "build")]
    assert {str(p.relative_to(ROOT)) for room in rooms for p in room.rglob("*.py") if RULE in p.read_text()} == named


@pytest.mark.parametrize(("name", "target"), [("softmax", "avx2"), ("conv2d", "avx2"), ("cumsum", "x86-64-v4"), ("matmul", "sm_90a")])
def test_every_proposal_is_legal_and_the_best_is_chosen(name: str, target: str) -> None:
    kernel, t = named_kernels.make(name), targets.named(target)
    found = heuristics.proposals(kernel, t)
    assert found and all(p.opts and p.seconds > 0 for each in found.values() for p in each)
    assert all(each == sorted(each, key=lambda p: p.seconds) for each in found.values())
    first = heuristics.starts(kernel, t)[0]
    seconds = heuristics.estimate(apply(kernel, first, t))
    assert seconds <= 1.5 * min(p.seconds for each in found.values() for p in each)
