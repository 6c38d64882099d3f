"""Sentences for standard error: wrapped between words on a terminal, whole elsewhere."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO


def wrapped(text: str, stream: TextIO | None = None) -> str:
    """`text` as it is printed on `stream` (default: standard error). A word that is longer than the terminal stays whole: the terminal
    breaks it, and copying it does not."""
    to = sys.stderr if stream is None else stream
    if not to.isatty():
        return text
    try:
        columns = int(os.environ.get("COLUMNS", "")) or os.get_terminal_size(to.fileno()).columns
    except (OSError, ValueError):
        return text
    filled = (textwrap.fill(line, columns, break_long_words=False, break_on_hyphens=False) for line in text.splitlines())
    return "\n".join(filled) if columns >= 20 else text
