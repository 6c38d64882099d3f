"""Options of the test run, and helpers that several folders import."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `import random_schedules`, `odd_kernels`, `hand_built`
os.environ.setdefault("TILEWRIGHT_VERIFY", "1")  # Programs are verified after every pass, in processes that tests start too


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilewright")
    group.addoption("--examples", type=int, default=0, help="random schedules for each kernel and check, drawn anew (default: a few, always the same)")
