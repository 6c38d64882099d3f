"""`make run` on a machine whose Python cannot do it: a message that says what to install, and nothing half-made left behind.
`make test` where tests fail."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OLD = '#!/bin/sh\ncase "$1" in --version) echo "Python 3.9.2";; *) exit 1;; esac\n'
NO_VENV = f'#!/bin/sh\ncase "$2" in *ensurepip*|*virtualenv*) exit 1;; esac\nexec {sys.executable} "$@"\n'
BREAKS = f'#!/bin/sh\ncase "$1$2" in -mvenv) mkdir -p .venv/bin; touch .venv/bin/python; exit 1;; esac\nexec {sys.executable} "$@"\n'


def machine(folder: Path, python3: str) -> dict[str, str]:
    """An environment whose only Python is the script `python3`."""
    tools = folder / "bin"
    tools.mkdir()
    for tool in ("bash", "sh", "rm", "mkdir", "touch"):
        found = next(Path(p) / tool for p in os.environ["PATH"].split(":") if (Path(p) / tool).exists())
        (tools / tool).symlink_to(found)
    fake = tools / "python3"
    fake.write_text(python3)
    fake.chmod(0o755)
    return {"PATH": str(tools)}


@pytest.mark.parametrize(
    ("python3", "said"),
    [
        (OLD, ["needs Python 3.11 or newer (found: Python 3.9.2)", "make run PYTHON="]),
        (NO_VENV, ["ensurepip module is missing", "apt install python3-venv"]),
        (BREAKS, []),
    ],
    ids=["too old", "no ensurepip", "fails half-way"],
)
def test_no_usable_python(tmp_path: Path, python3: str, said: list[str]) -> None:
    done = subprocess.run(
        ["bash", ROOT / "scripts/venv.sh", ""], cwd=tmp_path, env=machine(tmp_path, python3), capture_output=True, text=True, timeout=240
    )
    assert done.returncode != 0
    for text in said:
        assert text in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_named_python_must_be_new_enough(tmp_path: Path) -> None:
    env = machine(tmp_path, OLD)
    done = subprocess.run(["bash", ROOT / "scripts/venv.sh", "python3"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1 and "PYTHON=python3 is not Python 3.11 or newer" in done.stderr


def test_make_without_a_target_says_what_there_is() -> None:
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("make")] == [
        "run",
        "test",
        "test-quick",
        "test-thorough",
        "lint",
        "bench",
        "bench-check",
        "ship",
        "man",
        "docs",
    ]


@pytest.mark.parametrize(
    ("jobs", "fails", "statuses", "left", "want", "said"),
    [
        ("2", ["a", "b"], [1, 0], [], 0, "flaky: passed only when alone\n     a\n     b"),
        ("2", ["a", "b"], [1, 1], ["b"], 1, "flaky: passed only when alone\n     a\n\n== failed twice\n     b"),
        ("2", ["a"], [1, 0], ["a"], 1, "failed twice"),
        ("2", ["a"], [1, -6], ["a"], -6, "failed twice"),
        ("2", [], [0], [], 0, ""),
        ("2", [*map(str, range(11))], [1], [], 1, ""),
        ("0", ["a"], [1], [], 1, ""),
        ("2", ["a"], [2], [], 2, ""),
        ("2", ["a"], [6], [], 6, ""),
    ],
    ids=["alone all pass", "one fails twice", "one is not run", "a crash", "none", "many", "alone at once", "stopped", "processes left"],
)
def test_few_that_fail_run_once_more(
    jobs: str, fails: list[str], statuses: list[int], left: list[str], want: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []

    def run(folder: Path, arguments: Sequence[str]) -> int:
        path = folder / "v/cache/lastfailed"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dict.fromkeys(left if runs else fails, True)))
        runs.append([*arguments])
        return statuses[len(runs) - 1]

    main = runpy.run_path(str(ROOT / "scripts/run_tests.py"))["main"]
    assert main(jobs, ["-k", "it"], run) == want
    assert runs[0] == ["-n", jobs, "--dist", "worksteal", "-k", "it"]
    assert runs[1:] == [["-n", "0", "-k", "it", "--last-failed"]] * (len(statuses) - 1)
    assert said in capsys.readouterr().out


@pytest.mark.slow
def test_what_fails_only_beside_others_is_told(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "test_it.py").write_text(
        "from pathlib import Path\nseen = Path('seen')\n"
        "def test_flaky():\n    first = not seen.exists()\n    seen.touch()\n    assert not first\n"
        "def test_bad():\n    assert 0\n"
    )
    command = [sys.executable, ROOT / "scripts/run_tests.py", "1", "-p", "no:tilewright"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.endswith(
        "flaky: passed only when alone\n     test_it.py::test_flaky\n\n== failed twice\n     test_it.py::test_bad\n"
    )
