"""How the tests are run: which are quick, and who waits for whom."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from turns import Turns

HERE = Path(__file__).parent / "support"
OTHER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from turns import Turns
turns = Turns(Path(sys.argv[2]))
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("leave"):
        turns.leave(line.strip() == "leave for alone")
    else:
        turns.enter(line.strip() == "alone")
    print("done", flush=True)
"""


def test_every_folder_has_quick_tests(request: pytest.FixtureRequest) -> None:
    whole, quick = set(), set()
    for item in request.session.items:
        whole.add(item.path.parent)
        if not item.get_closest_marker("slow"):
            quick.add(item.path.parent)
    assert whole == quick


def test_of_many_cases_the_first_is_quick(request: pytest.FixtureRequest) -> None:
    cases = [i for i in request.session.items if getattr(i, "originalname", "") == "test_many"]
    assert [bool(i.get_closest_marker("slow")) for i in cases] in ([False], [False, True, True]), "as -m chose"


@pytest.mark.many
@pytest.mark.parametrize("case", range(3))
def test_many(case: int) -> None:
    assert case < 3


class Other:
    """Another process that runs tests; it does one step after another."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", OTHER, str(HERE), str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.heard()

    def does(self, step: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{step}\n")
        self.process.stdin.flush()

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def waits(self) -> bool:
        """Whether it stands in the queue for a lock (the kernel lists who does, with an arrow)."""
        return any("->" in line and f" {self.process.pid} " in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.fixture
def other(tmp_path: Path):
    made = Other(tmp_path)
    with made.process:
        yield made
        made.process.kill()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="no /proc/locks")
def test_who_runs_alone_waits_for_the_others_and_they_for_it(other: Other, tmp_path: Path) -> None:
    here = Turns(tmp_path)
    here.enter(False)
    other.does("beside")
    assert other.heard() == "done\n", "two that share"
    other.does("leave")
    assert other.heard() == "done\n"
    other.does("alone")
    until_waiting(other)
    here.leave(False)
    assert other.heard() == "done\n", "the other has it now"
    other.does("leave for alone")
    other.does("alone")
    assert other.heard() == other.heard() == "done\n", "and keeps it for its next test"
    other.does("leave")
    assert other.heard() == "done\n"
    here.enter(True)
    other.does("beside")
    until_waiting(other)
    here.leave(True)
    here.enter(True)
    assert other.waits()
    here.leave(False)
    assert other.heard() == "done\n"


def until_waiting(other: Other) -> None:
    while not other.waits():
        assert other.process.poll() is None
