"""docs/ladder.md and the steps it is made from: every step is legal, and the page tells the steps that the code has."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply
from tilewright.opts.opt import parse, short
from tilewright.renderers import render

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import ladder
from parts import ladder_steps

ROOT = Path(__file__).resolve().parents[1]

FIXED = [(story, step) for story in ladder_steps.STORIES for step in story.steps if step.title not in ladder_steps.COMPUTED]


@pytest.mark.many
@pytest.mark.parametrize(("story", "step"), FIXED, ids=[f"{a.kernel}-{b.title}" for a, b in FIXED])
def test_every_step_is_legal_and_renders_for_avx512(story: Any, step: Any) -> None:
    kernel = normalise(named_kernels.make(story.kernel, story.shape, "float32"))
    target = targets.named("cascadelake")
    assert "define void" in render(lower(apply(kernel, step.opts, target)), target).text


@pytest.mark.parametrize("story", ladder_steps.STORIES, ids=lambda s: s.kernel)
def test_steps_are_different_schedules_and_each_adds_to_the_one_before(story: Any) -> None:
    kernel = normalise(named_kernels.make(story.kernel, story.shape, "float32"))
    lists = [s.opts for s in story.steps if s.title not in ladder_steps.COMPUTED]
    assert len({apply(kernel, o, targets.named("cascadelake")).hash for o in lists}) == len(lists)
    assert [s.title for s in story.steps[-2:]] == list(ladder_steps.COMPUTED)


@pytest.mark.parametrize("story", ladder_steps.STORIES, ids=lambda s: s.kernel)
def test_the_page_has_the_steps_of_the_code(story: Any) -> None:
    text = (ROOT / "docs" / "ladder.md").read_text()
    part = text.split(f"<!-- ladder {story.kernel} -->")[1].split(f"<!-- end {story.kernel} -->")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [r[1].strip() for r in rows] == [s.title for s in story.steps], "run: python benchmarks/ladder.py --write"
    commands = [line for line in part.splitlines() if line.startswith("tune show")]
    assert len(commands) == len(rows)
    for n, (s, row, command) in enumerate(zip(story.steps, rows, commands, strict=True), 1):
        assert f"{n}. **{s.title}.** {s.why}" in part
        opts = parse(command.split("--opts ")[1].strip("'"))
        assert row[2].strip().strip("`") == (short(opts) or "(none)")
        if s.title not in ladder_steps.COMPUTED:
            assert opts == s.opts and f"'{short(opts)}'" in command


def test_writing_the_page_again_changes_only_its_tables() -> None:
    text = (ROOT / "docs" / "ladder.md").read_text()
    rows = json.loads((ROOT / "results" / "ladder.json").read_text())["rows"]
    assert ladder.page(text, rows) == text
    changed = [{**r, "ms": 123456} if r["kernel"] == "matmul" else r for r in rows]
    again = ladder.page(text, changed)
    assert again != text and "123456" in again and ladder.page(again, rows) == text
    only = [r for r in changed if r["kernel"] == "matmul"]
    assert ladder.page(text, only).split("## Attention")[1] == text.split("## Attention")[1]
