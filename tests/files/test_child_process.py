"""A module in a process of its own: what it answers, how it ends, and that nothing of it is left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tilewright.files.child_process import ChildAnswer, ChildProcess


@pytest.fixture
def child(tmp_path: Path) -> Callable[..., ChildProcess]:
    """Starts a process that runs some lines."""

    def start(text: str, *arguments: str, question: bytes | None = None) -> ChildProcess:
        (tmp_path / "asked_module.py").write_text(text)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        return ChildProcess("asked_module", *arguments, env=env, question=question)

    return start


def test_an_answer_is_the_last_line(child: Callable[..., ChildProcess]) -> None:
    answer = child("import sys; print('noise'); print(sys.argv[1], input()); print('words', file=sys.stderr)", "a", question=b"b\n").answer(
        60
    )
    assert (answer.status, answer.last_line, answer.complaint, answer.late) == (0, "a b", "words", False)


@pytest.mark.parametrize(
    ("text", "ending", "why"),
    [
        ("import sys; sys.exit(3)", "exit code 3", "exit code 3"),
        ("import os, sys; print('it broke', file=sys.stderr, flush=True); os.abort()", "SIGABRT", "SIGABRT: it broke"),
    ],
)
def test_how_it_ended(child: Callable[..., ChildProcess], text: str, ending: str, why: str) -> None:
    answer = child(text).answer(60)
    assert (answer.ending, answer.why, answer.last_line, answer.late) == (ending, why, "", False)
    assert ChildAnswer(b"", b"", -99, False).ending == "signal 99"


def test_a_deadline_ends_it_with_what_it_started(child: Callable[..., ChildProcess], tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    forked = "import os, time\npid = os.fork()\nif pid: open(%r, 'w').write(str(pid)); print('begun', flush=True)\ntime.sleep(60)"
    answer = child(forked % str(mark)).answer(3)
    assert answer.late and answer.last_line == "begun" and answer.ending == "SIGKILL"
    until = time.monotonic() + 240
    while Path(f"/proc/{mark.read_text()}").exists() and "Z" not in Path(f"/proc/{mark.read_text()}/stat").read_text().split():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_whole_answer_is_enough(child: Callable[..., ChildProcess]) -> None:
    began = time.monotonic()
    answer = child("import time; print('all', flush=True); time.sleep(290)").answer(280, lambda out: out.endswith(b"\n"))
    assert answer.out == b"all\n" and not answer.late and time.monotonic() - began < 240
