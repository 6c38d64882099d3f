"""A source's budget is kept: what hangs is the reference, a configuration, or its compiler."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tilewright import tune_source
from tilewright.ir.errors import OutOfTimeError, UsageError

ENDS_S = 60.0
"""A run that took longer waited for what does not end (the planted ones would take for ever)."""
BUSY = "source was being read|reference was being computed"
"""What is told where, on a busy machine, that takes all of the time."""
pytestmark = pytest.mark.slow


def tuned(saxpy: Path, budget: float, **more: Any) -> Any:
    settings: dict[str, Any] = {"args": saxpy / "spec.toml", "cache": saxpy / "c.db", "params": {"TILE": [8, 16, 32], "MODE": [0]}, **more}
    began = time.monotonic()
    try:
        return tune_source(saxpy / "saxpy.c", "saxpy", budget=budget, **settings)
    finally:
        assert time.monotonic() - began < ENDS_S


def in_time(saxpy: Path, **more: Any) -> Any:
    """A search of 5 s, or of 20 where a busy machine takes them all for the reference."""
    try:
        return tuned(saxpy, 5.0, **more)
    except (UsageError, OutOfTimeError) as e:
        assert re.search(f"the reference .* did not end within|{BUSY}", str(e))
    return tuned(saxpy, 20.0, **more)


def test_a_reference_that_never_returns(saxpy: Path) -> None:
    with (saxpy / "ref.py").open("a") as f:
        f.write("\ndef endless(x, y):\n    while True:\n        pass\n")
    said = r"the reference .* did not end within [012](\.\d+)? s: give smaller sizes, another reference, or more"
    with pytest.raises((UsageError, OutOfTimeError), match=f"{said}|{BUSY}"):
        tuned(saxpy, 2.0, check=f"{saxpy / 'ref.py'}:endless")


def test_the_untuned_configuration_never_returns(saxpy: Path) -> None:
    (saxpy / "saxpy.c").write_text(
        (saxpy / "saxpy.c").read_text().replace("#if MODE == 1", 'for (;;) __asm__ volatile("");\n#if MODE == 1')
    )
    with pytest.raises((UsageError, OutOfTimeError), match=f"the untuned configuration, which is the reference, did not end within|{BUSY}"):
        tuned(saxpy, 2.0)


def test_configurations_that_never_return(saxpy: Path) -> None:
    r = in_time(saxpy, params={"TILE": [8, 16, 32, 64], "MODE": [0, 4]}, check=f"{saxpy / 'ref.py'}:saxpy")
    assert r.exit_code in (0, 6) and set(r.counts) <= {"ok", "slow", "timeout"}
    assert r.found or "the time budget is spent" in r.message  # (on a busy machine nothing may have been measured)


def test_a_compiler_that_never_returns(saxpy: Path) -> None:
    """It reads a pipe that nobody writes."""
    os.mkfifo(saxpy / "pipe.h")
    (saxpy / "saxpy.c").write_text(f'#if MODE == 7\n#include "{saxpy / "pipe.h"}"\n#endif\n{(saxpy / "saxpy.c").read_text()}')
    r = in_time(saxpy, params={"TILE": [8, 16, 32, 64], "MODE": [0, 7]}, check=f"{saxpy / 'ref.py'}:saxpy")
    assert r.exit_code in (0, 6) and (r.found or "the time budget is spent" in r.message)
