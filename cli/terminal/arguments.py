"""A password in a command's arguments, which everybody on the machine can read (`ps`): taken out of what the system shows."""

from __future__ import annotations

import ctypes
import os
import sys

from ...files.secrets import hidden


def hide() -> bool:
    """Overwrite, with stars, passwords of URLs in this process's arguments where the system shows them. True where nothing is
    left to see. Linux lets a process do that to itself; elsewhere nothing is changed."""
    told = [a for a in sys.orig_argv if hidden(a) != a]
    if not told:
        return True
    try:
        with open("/proc/self/stat", "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, the 48th and 49th of proc(5)
        shown = ctypes.string_at(start, end - start)
        for argument in told:
            raw = os.fsencode(argument)
            at = shown.find(raw)
            while at >= 0:
                shown = shown[:at] + _starred(argument) + shown[at + len(raw) :]
                at = shown.find(raw)
        if len(shown) != end - start:
            return False
        ctypes.memmove(start, shown, len(shown))
    except (OSError, ValueError, IndexError):
        return False
    return True


def _starred(argument: str) -> bytes:
    """As many bytes, without the passwords."""
    raw, kept = os.fsencode(argument), os.fsencode(hidden(argument))
    return kept[: len(raw)] + b"*" * (len(raw) - len(kept)) if len(kept) <= len(raw) else b"*" * len(raw)
