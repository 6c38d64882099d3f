"""What reaches a terminal: names of kernels, files, devices and rows come from anywhere, and none may do anything to it.

`outside` stands in for standard output and error while a command runs, and cleans what is written. `style.console` cleans texts before
rich adds its colours, and writes to the stream behind. `wrapped` breaks sentences between words. `hide` removes passwords from the
arguments of this process, which everybody on the machine can read (`ps`)."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tabs and ends of lines, what changes the direction of writing, and halves of characters
(bytes that are not UTF-8)."""
_URL = re.compile(r"://\S*[@=]")
"""A URL that may hold a password."""
_ENDLESS = re.compile(r"\S{1000,}")


def clean(text: str) -> str:
    """The text, with what must not reach a terminal as Python writes it: `\\x1b`; and without the passwords of URLs."""
    if _URL.search(text):
        from ...files.write_file import hidden

        text = hidden(text)
    return _UNSEEN.sub(lambda m: ascii(m[0])[1:-1], text) if not text.isascii() or not text.isprintable() else text


def brief(text: str) -> str:
    """The text with words of thousands of characters, which errors quote from arguments, cut short."""
    return _ENDLESS.sub(lambda m: f"{m[0][:60]}...({len(m[0])} characters)", text)


class Shown(io.TextIOBase):
    """A text stream that cleans what is written to `behind`."""

    def __init__(self, behind: TextIO) -> None:
        self.behind = behind
        self.failed: OSError | None = None  # argparse keeps to itself that its help could not be written

    def write(self, text: str) -> int:
        try:
            self.behind.write(clean(text))
        except OSError as e:
            self.failed = e
            raise
        return len(text)

    def flush(self) -> None:
        self.behind.flush()

    def isatty(self) -> bool:
        return self.behind.isatty()

    def fileno(self) -> int:
        return self.behind.fileno()

    def writable(self) -> bool:
        return True

    def __getattribute__(self, name: str) -> Any:
        # of the class io.TextIOBase these are None
        if name in ("encoding", "errors", "newlines", "buffer", "mode", "name"):
            return getattr(self.behind, name)
        return super().__getattribute__(name)


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that was closed before the command began: what is written to it is an error, not lost."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def isatty(self) -> bool:
        return False


def behind(stream: TextIO) -> TextIO:
    """The stream that rich writes to: it cleans texts itself, and its own sequences must pass."""
    return stream.behind if isinstance(stream, Shown) else stream


@contextmanager
def outside() -> Iterator[None]:
    """Standard output and error of a command: clean, and open."""
    before = sys.stdout, sys.stderr
    _plug()
    with open(os.devnull, "w") as nowhere:
        out, error = before[0] or cast("TextIO", ClosedOutput()), before[1] or nowhere
        for stream in (out, error):
            if isinstance(stream, io.TextIOWrapper):  # what the terminal's encoding lacks is written as \u2192
                stream.reconfigure(errors="backslashreplace")
        sys.stdout, sys.stderr = cast("TextIO", Shown(out)), cast("TextIO", Shown(error))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def _plug() -> None:
    """Descriptors 0 to 2 that were closed become /dev/null: else the next file that is opened is standard output to whoever we start."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


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


def hide() -> bool:
    """Overwrite, with stars, passwords of URLs in this process's arguments where the system shows them. True where nothing is
    left to see. Linux lets a process do that to itself; elsewhere nothing is changed."""
    import ctypes

    from ...files.write_file import hidden

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
                shown = shown[:at] + _starred(raw, os.fsencode(hidden(argument))) + shown[at + len(raw) :]
                at = shown.find(raw)
        if len(shown) != end - start:
            return False
        ctypes.memmove(start, shown, len(shown))
    except (OSError, ValueError, IndexError):
        return False
    return True


def _starred(raw: bytes, kept: bytes) -> bytes:
    """`kept`, an argument without its passwords, in as many bytes as `raw`."""
    return kept[: len(raw)] + b"*" * (len(raw) - len(kept)) if len(kept) <= len(raw) else b"*" * len(raw)
