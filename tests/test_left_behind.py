"""A test run that leaves a process fails (conftest.py)."""

from __future__ import annotations

import os
import subprocess

from left_behind import RUN, TEST, left_behind


def test_a_process_that_stays_is_named_with_its_test() -> None:
    with subprocess.Popen(["sleep", "60"], env={**os.environ, RUN: "a run", TEST: "test_x.py::test_it (call)"}) as left:
        try:
            assert left_behind("a run", 0) == [f"process {left.pid} (sleep 60) was left by test_x.py::test_it (call)"]
            assert left_behind("another run", 0) == []
        finally:
            left.kill()
        assert left_behind("a run", 5) == []
