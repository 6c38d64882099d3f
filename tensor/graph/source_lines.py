"""The user's line: where in a program an operation was written, for errors, reports and memory lists."""

from __future__ import annotations

import contextlib
import os
import sys
from types import FrameType
from typing import TypeVar

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_OURS = (*tuple(_HERE + d + os.sep for d in ("tensor", "xp", "plan", "cli", "ir")), contextlib.__file__)

E = TypeVar("E", bound=Exception)

Line = tuple[str, int]
"""File and line number; ("", 0) where nobody outside of Tilewright is on the stack."""


_ours: dict[str, bool] = {}
"""By a file's name, whether it is of this package."""


def user_line() -> Line:
    """The innermost frame that is not of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not ours(frame):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def ours(frame: FrameType) -> bool:
    """Whether a frame is of this package."""
    name = frame.f_code.co_filename
    found = _ours.get(name)
    if found is None:
        found = _ours[name] = name.startswith(_OURS)
    return found


def show(line: Line) -> str:
    """`file.py:12`, or an empty text."""
    return f"{os.path.basename(line[0])}:{line[1]}" if line[0] else ""


def at(line: Line) -> str:
    """` (at /path/file.py:12)` for the end of a message, or an empty text."""
    return f" (at {line[0]}:{line[1]})" if line[0] else ""


def with_line(e: E) -> E:
    """The error, its text with the user's line if it has none."""
    text = str(e)
    where = at(user_line())
    if where and " (at " not in text:
        e.args = (text + where, *e.args[1:])
    return e
