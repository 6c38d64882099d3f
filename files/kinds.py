"""What a file is, by its content, and so what a new file may take the place of.

A file that was made here may be made again. A JSON file may take the place of a JSON file, a page that of a page. What
cannot be told from something that a person wrote (a source, a Makefile) is replaced only where somebody says so."""

from __future__ import annotations

import json
import os
import re
import stat
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

HEAD = 1 << 16
"""Bytes from the beginning of a file that tell most kinds."""
MOST = 1 << 28
"""Bytes of a JSON file that is parsed to see whether it is one."""
APPLICATION = 0x5457_6361
"""The application id in the header of each cache file ("TWca"), by which SQLite files say whose they are."""
SQLITE = b"SQLite format 3\0"


class FileKind(NamedTuple):
    """`name`: with its article, for messages. `fits`: whether a file that is open, and begins with these bytes, is of this kind."""

    name: str
    fits: Callable[[int, bytes], bool]


def _json(fd: int, head: bytes) -> bool:
    """All of it is one JSON value."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return False
    size = os.fstat(fd).st_size
    if size > MOST:
        return False
    try:
        json.loads(head if size <= len(head) else os.pread(fd, size, 0))
    except (ValueError, RecursionError):
        return False
    return True


def _first_line(key: str, *values: object) -> Callable[[int, bytes], bool]:
    """Its first line is a JSON object with such a field (any value, where none is given)."""

    def fits(fd: int, head: bytes) -> bool:
        try:
            value = json.loads(head.partition(b"\n")[0])
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and key in value and (not values or value[key] in values)

    return fits


def _space(fd: int, head: bytes) -> bool:
    """A recorded space, packed by gzip or not."""
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD)
        except zlib.error:
            return False
    return head.startswith(b'{"about"') or b'"tilewright_space"' in head.partition(b"\n")[0]


def _begins(*starts: bytes) -> Callable[[int, bytes], bool]:
    return lambda fd, head: head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(starts)


def _matches(pattern: bytes) -> Callable[[int, bytes], bool]:
    found = re.compile(pattern)
    return lambda fd, head: found.match(head) is not None


KINDS: dict[str, FileKind] = {
    "json": FileKind("a JSON file", _json),
    "html": FileKind("an HTML page", _begins(b"<!doctype html", b"<html")),
    "svg": FileKind("an SVG picture", _matches(rb"(?s)\s*(<\?xml.{0,4000}?)?(<!--.{0,4000}?-->\s*|<!DOCTYPE svg.{0,400}?>\s*)*<svg\b")),
    "png": FileKind("a PNG picture", _begins(b"\x89png\r\n")),
    "pdf": FileKind("a PDF document", _begins(b"%pdf-")),
    "dot": FileKind("a Graphviz text", _matches(rb"\s*(strict\s+)?(di)?graph\b[^\n]*\{")),
    "bundle": FileKind("a bundle of `tune cache export`", _first_line("tilewright", "bundle")),
    "lock": FileKind("a lock of `tune run --manifest`", _matches(rb'\{"schema":\d+,"tilewright":"lock"')),
    "space": FileKind("a space of `tune bench-search --record`", _space),
    "signature": FileKind("a signature of minisign", _begins(b"untrusted comment:")),
    "worker": FileKind("a script or manifest of `tune fleet launch`", lambda fd, head: b"fleet" in head and b"worker" in head),
    "source": FileKind("a source of `tune source --write`", _matches(rb"/\* the best configuration of \w+")),
    "journal": FileKind("a journal of Optuna's", _first_line("op_code")),
    "log": FileKind("a log of TILEWRIGHT_LOG", _matches(rb"\d\d:\d\d:\d\d\.\d{3} [A-Z ]{5} ")),
}
"""Every kind of file that is written where somebody says."""


def foreign(path: str | os.PathLike[str], kind: str) -> str | None:
    """What a regular file at `path` is, in words, where it is not of this kind; None where it is, is empty, or is no
    regular file, or nothing is there. Raises OSError where it cannot be read."""
    fd = opened(path)
    if fd is None:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        head = os.pread(fd, HEAD, 0)
        wanted = KINDS[kind]
        if not head.strip() or wanted.fits(fd, head):
            return None
        return f"it is {named(fd, head)}, not {wanted.name}"
    finally:
        os.close(fd)


def opened(path: str | os.PathLike[str]) -> int | None:
    """A descriptor to read what is there, None where nothing is. A FIFO does not wait. Raises OSError."""
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None


def named(fd: int, head: bytes) -> str:
    """What an open file is, with its article."""
    if head.startswith(SQLITE):
        return "a Tilewright cache" if application(head) == APPLICATION else "an SQLite database"
    return next((k.name for k in KINDS.values() if k.fits(fd, head)), "another file" if b"\0" in head else "a text")


def application(head: bytes) -> int:
    """The application id in the first bytes of an SQLite file."""
    return int(struct.unpack(">I", head[68:72])[0]) if len(head) >= 72 else 0
