"""Texts that a person wrote: UTF-8, with or without the mark that some editors put at the beginning."""

from __future__ import annotations

import os
import stat

_MARK = b"\xef\xbb\xbf"


def content(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file, at most `most`. Raises OSError, also for another kind of file and for one that is larger."""
    nonblocking = getattr(os, "O_NONBLOCK", 0)  # a FIFO would wait for ever
    with open(path, "rb", opener=lambda p, flags: os.open(p, flags | nonblocking)) as f:
        if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
            raise OSError(0, "it is no regular file")
        raw = f.read(most + 1)
    if len(raw) > most:
        raise OSError(0, f"it is larger than {most} bytes")
    return raw


def read(path: str | os.PathLike[str]) -> str:
    """A file's text. Raises OSError, UnicodeDecodeError."""
    with open(path, "rb") as f:
        return decoded(f.read())


def decoded(raw: bytes, errors: str = "strict") -> str:
    """The text of a file's bytes, its lines ended as everywhere. Raises UnicodeDecodeError."""
    return raw.removeprefix(_MARK).decode(errors=errors).replace("\r\n", "\n").replace("\r", "\n")
