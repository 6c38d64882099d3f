"""The file that `--json` names: whether it can be written, asked before the work, and the writing of it."""

from __future__ import annotations

import sys

from ...files.output import replace, why_not
from ...ir.errors import UsageError


def writable(path: str | None) -> None:
    """Say that --json cannot be written before the search, not after it."""
    why = why_not(path) if path is not None and path != "-" else None
    if path == "":
        why = "it has no name"
    if why is not None:
        raise UsageError(f"cannot write --json {path}: {why}; name a file in a folder that exists and is writable")


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
