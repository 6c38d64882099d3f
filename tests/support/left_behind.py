"""Processes that tests started and nobody ended: found by the variables that every child of a process of the test run inherits."""

from __future__ import annotations

import time
from pathlib import Path

RUN, TEST = "PYTEST_XDIST_TESTRUNUID", "PYTEST_CURRENT_TEST"
"""What pytest-xdist and pytest set: the run, and the test during which a process was started."""


def left_behind(run: str, wait_s: float) -> list[str]:
    """A line for each process of `run` that is still there after `wait_s` seconds: its number, its command and the test that
    started it. Processes of other users, and those that were given an environment of their own, are not seen."""
    until = time.monotonic() + wait_s
    while (found := _living(run)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def _living(run: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            variables = dict(v.partition("=")[::2] for v in (place / "environ").read_bytes().decode(errors="replace").split("\0"))
            command = (place / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
        except OSError:  # it has ended, or is another user's
            continue
        if variables.get(RUN) == run and command:  # one that ended and was not waited for has no command
            found.append(f"process {place.name} ({command[:120]}) was left by {variables.get(TEST, 'a fixture or an import')}")
    return found
