"""The file that `--json` names, written; `paths` has looked at it before the work."""

from __future__ import annotations

import sys
from typing import Any

from ...files.output import replace
from ...ir.errors import UsageError


def with_code(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts whose `exit_code` is that of the process: 143, say, where a signal is about to end it."""
    from ...search.interrupts import process_code

    return {**facts, "exit_code": process_code(facts["exit_code"])}


def write(path: str, text: str) -> None:
    """The result where --json says. Raises UsageError where that cannot be written after all."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        replace(path, text)
    except BrokenPipeError:
        raise  # the reader has gone, which is no error
    except OSError as e:
        again = "the result is in the cache, so the same command with another file gives it again"
        raise UsageError(f"cannot write --json {path}: {e.strerror}; {again}") from None
