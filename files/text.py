"""Texts that a person wrote: UTF-8, with or without the mark that some editors put at the beginning."""

from __future__ import annotations

import os

_MARK = b"\xef\xbb\xbf"


def read(path: str | os.PathLike[str]) -> str:
    """A file's text. Raises OSError, UnicodeDecodeError."""
    with open(path, "rb") as f:
        return decoded(f.read())


def decoded(raw: bytes, errors: str = "strict") -> str:
    """The text of a file's bytes, its lines ended as everywhere. Raises UnicodeDecodeError."""
    return raw.removeprefix(_MARK).decode(errors=errors).replace("\r\n", "\n").replace("\r", "\n")
