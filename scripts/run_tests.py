"""Run the tests, and those that failed once more, alone.

    python scripts/run_tests.py JOBS [arguments of pytest]

JOBS is how many tests run at once (`auto`: as many as there are cores; 0: all in this one process, and none twice). Where at
most FEW tests failed, each of them runs once more, with no other test beside it. What then passes is printed as flaky: it depends on
what else the machine does, and should be mended. What fails twice fails the run, as does anything else that went wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

FEW = 10
TESTS_FAILED = 1
"""pytest's exit status where tests failed, and nothing else was wrong."""


def pytest(folder: Path, arguments: Sequence[str]) -> int:
    """One run; its exit status. pytest writes into `folder` which tests failed."""
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={folder}", *arguments]).returncode


def failed(folder: Path) -> list[str]:
    """The tests that failed in the runs that wrote into `folder` and have not passed since."""
    path = folder / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


def main(jobs: str, arguments: Sequence[str], run: Callable[[Path, Sequence[str]], int] = pytest) -> int:
    """The exit status: of the first run, or of the second where there is one."""
    with tempfile.TemporaryDirectory(prefix="tilewright-tests-") as name:
        folder = Path(name)
        status = run(folder, ["-n", jobs, "--dist", "worksteal", *arguments])
        first = failed(folder)
        if status != TESTS_FAILED or jobs == "0" or not 0 < len(first) <= FEW:
            return status
        print(f"\n== once more, one at a time: {len(first)} that failed", flush=True)
        status = run(folder, ["-n", "0", *arguments, "--last-failed"])
        again = failed(folder)
        if flaky := sorted({*first} - {*again}):
            print("\n== flaky: passed only when alone", *flaky, sep="\n     ", flush=True)
        if again:
            print("\n== failed twice", *again, sep="\n     ", flush=True)
        return status or int(bool(again))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
