"""Numbered random programs: by the reference, which compiles nothing; natively at every level of this processor; by qemu at
another's. `python -m tests.programs` runs more, and shrinks what it finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from thorough import amount
from tilewright import targets
from tilewright.ir.errors import DeviceError

from . import run as programs

ROOT = Path(__file__).resolve().parents[2]
CHUNKS = 8
NATIVE = 3
"""Chunks of what is compiled, one a level: in processes of their own, whose start costs as much as six programs."""
LEVELS = ("v2", "v3", "v4")


def run(request: pytest.FixtureRequest, where: Path, *options: str) -> None:
    """The command on programs of seed 0; it writes what it finds to files."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs", "--out", str(where), *options],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-2000:]}"


@pytest.mark.many
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_by_the_reference(request: pytest.FixtureRequest, tmp_path: Path, chunk: int) -> None:
    count = amount(request, 800, 20000) // CHUNKS
    tally, wrong = programs.Tally(), []
    for number in range(chunk * count, (chunk + 1) * count):
        program = programs.numbered(0, number)
        if found := programs.one(program, "evaluate", tally):
            wrong.append(f"0/{number} {program.options['way']}: {found} {programs.kept(program, found, 'evaluate', tmp_path, 0, number)}")
    programs.forget()
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("chunk", range(NATIVE))
@pytest.mark.covering
def test_natively(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chunk: int, level: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_TARGET", level)
    try:
        targets.host()
    except DeviceError as e:
        pytest.skip(str(e))
    count = amount(request, 48, 20000) // NATIVE
    run(request, tmp_path, "--count", str(count), "--start", str(chunk * count), "--engine", "native", "--level", level)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.covering(each=8)
def test_as_another_processor_does(request: pytest.FixtureRequest, tmp_path: Path, chunk: int) -> None:
    import aarch64

    if aarch64.missing():
        pytest.skip(aarch64.missing())
    count = amount(request, 32, 500) // CHUNKS
    run(request, tmp_path, "--count", str(count), "--start", str(chunk * count), "--engine", "neon")
