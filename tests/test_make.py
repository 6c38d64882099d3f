"""`make run` on a machine whose Python cannot do it: a message that says what to install, and nothing half-made left behind."""

from __future__ import annotations

import os
import subprocess
import sys
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
        ["bash", ROOT / "scripts/venv.sh", ""], cwd=tmp_path, env=machine(tmp_path, python3), capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    for text in said:
        assert text in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_named_python_must_be_new_enough(tmp_path: Path) -> None:
    env = machine(tmp_path, OLD)
    done = subprocess.run(["bash", ROOT / "scripts/venv.sh", "python3"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "PYTHON=python3 is not Python 3.11 or newer" in done.stderr


def test_make_without_a_target_says_what_there_is() -> None:
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("make")] == [
        "run",
        "test",
        "test-quick",
        "test-thorough",
        "lint",
        "bench",
        "bench-check",
        "man",
        "docs",
    ]
