"""The commands and the Python of docs/debugging.md run as they stand, and what it quotes is what is said."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright import log
from tilewright.cli import main
from tilewright.log import setup

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/debugging.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def quick(words: list[str]) -> list[str]:
    """The same with a handful of measurements instead of a time budget, and without measuring the machine, on
    small operands; one schedule is checked, not every start schedule (under Oclgrind each takes a second)."""
    words = [w for w in words if w != "--probe"]
    if "run" in words and "--budget" in words:
        at = words.index("--budget")
        words[at : at + 2] = ["--trials", "2"]
    if "check" in words:
        words += ["--shape", "m=3,n=40", "--opts", "start"]
    words = ["softmax" if w == "attention" else w for w in words]  # (under the profiler)
    return ["1s" if w == "5s" else w.replace("m=512,n=512", "m=64,n=96") for w in words]


def outside(words: list[str], env: dict[str, str], folder: Path) -> tuple[int, str]:
    """(exit code, standard error) of a command in a process of its own."""
    start = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "tilewright.cli"]
    done = subprocess.run([*start, *words[1:]], capture_output=True, text=True, env=os.environ | env, cwd=folder, timeout=200)
    return done.returncode, done.stderr


def inside(words: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The same in this process, which is quicker."""
    with monkeypatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        code = main(words[1:])
    setup.apply(None)
    return code, capsys.readouterr().err


@pytest.mark.slow
def test_every_command_and_all_python_runs(
    tmp_path: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other: later ones look at what earlier ones tuned."""
    before = setup.current()
    for name, value in (
        ("TILEWRIGHT_CACHE", tmp_path / "cache.db"),
        ("XDG_STATE_HOME", known_limits),
        ("COLUMNS", 120),
    ):
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    ran = 0
    for line in (line for block in blocks("sh") for line in block.splitlines()):
        words = shlex.split(line)
        own = dict(w.split("=", 1) for w in words if re.match("TILEWRIGHT_[A-Z]+=", w))
        words = quick([w for w in words if not w.startswith("TILEWRIGHT_")])
        assert words[0] in ("tune", "python"), line
        alone = words[0] == "python" or "TILEWRIGHT_TARGET" in own
        code, said = outside(words, own, tmp_path) if alone else inside(words, own, monkeypatch, capsys)
        assert code == 0, (line, said)
        if log.ENV in own:
            said = Path("tune.log").read_text() if "file=" in own[log.ENV] else said
            assert re.search(r" (DEBUG|INFO ) tilewright\.\w+\[\d+\] ", said), line
        ran += 1
    setup.apply(before)
    assert ran > 15
    for block in blocks("python"):
        code, said = outside(["python", "-c", block], {}, tmp_path)
        assert code == 0, said


def test_the_page_knows_every_stage_and_room() -> None:
    from tilewright.cli.grammar.schedule_arguments import STAGES

    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == [*STAGES, *log.ROOMS]


@pytest.mark.parametrize(
    "quoted",
    [
        "breaks it",
        "the emitted Program is wrong already",
        "emission is wrong without any option",
        "nothing is wrong at this shape",
    ],
)
def test_what_bisecting_says_is_quoted(quoted: str) -> None:
    assert quoted in (ROOT / "cli/schedules/bisect.py").read_text() and quoted in PAGE
