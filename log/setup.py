"""TILEWRIGHT_LOG: which rooms say what, and where it goes.

    TILEWRIGHT_LOG=debug                                    every room
    TILEWRIGHT_LOG=search:debug,measure:info                these rooms
    TILEWRIGHT_LOG=torch                                    this room, at debug
    TILEWRIGHT_LOG=info,lower:debug,file=/tmp/tilewright    one in more detail; to a file, whose name comes last

Helper processes inherit the variable and append to the same file, or write to the same standard error, a whole line
at a time."""

from __future__ import annotations

import errno
import logging
import os
import sys
from dataclasses import dataclass, replace
from typing import TextIO

from ..files.kinds import foreign
from . import ENV, ROOMS

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 10,
}
FORM = f"write {ENV}=debug, or rooms with their levels, such as search:debug,measure:info, and at the end file=PATH"
_LINE = "%(asctime)s.%(msecs)03d %(levelname)-5s %(name)s[%(process)d] %(message)s"


class BadSetting(ValueError):
    """TILEWRIGHT_LOG cannot be understood, or its file cannot be written; the message names the right form."""


@dataclass(frozen=True, slots=True)
class Setting:
    """`levels`: a room's level as `logging` numbers it; rooms that are left out say nothing. `file`: where messages
    go, None for standard error."""

    levels: dict[str, int]
    file: str | None = None

    @property
    def text(self) -> str:
        """As the variable has it."""
        names = {number: name for name, number in LEVELS.items()}
        words = [f"{room}:{names[level]}" for room, level in self.levels.items()]
        return ",".join(words + ([f"file={self.file}"] if self.file is not None else []))


def parse(text: str) -> Setting:
    """The value of TILEWRIGHT_LOG. Raises BadSetting."""
    text, comma, file = text.partition("file=")
    if comma and text.rstrip()[-1:] not in ("", ","):
        raise BadSetting(f"{ENV}: put a comma before file={file}; {FORM}")
    if comma and not file:
        raise BadSetting(f"{ENV}: file= names no file; {FORM}")
    every: int | None = None
    levels: dict[str, int] = {}
    for word in filter(None, (w.strip() for w in text.split(","))):
        room, colon, level = (f"{word}:debug" if word in ROOMS else word).rpartition(":")
        if colon and room not in ROOMS:
            raise BadSetting(f"{ENV}: there is no room {room!r}; rooms are {', '.join(ROOMS)}")
        if level.lower() not in LEVELS:
            raise BadSetting(f"{ENV}: {level!r} is no level; levels are {', '.join(LEVELS)}; {FORM}")
        if colon:
            levels[room] = LEVELS[level.lower()]
        else:
            every = LEVELS[level.lower()]
    if every is None and not levels:
        if comma:
            every = logging.DEBUG
        else:
            raise BadSetting(f"{ENV} is empty; {FORM}")
    if every is not None:
        levels = dict.fromkeys(ROOMS, every) | levels
    return Setting(levels, os.path.abspath(file) if comma else None)


class _Line(logging.Formatter):
    """One line a message, and nothing in it that moves a terminal's cursor: names of kernels and files come from
    anywhere."""

    def __init__(self) -> None:
        super().__init__(_LINE, "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class _Stderr(logging.StreamHandler[TextIO]):
    """Standard error as it is when a message comes: it may be replaced meanwhile (a live display does)."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            super().emit(record)


class _File(logging.Handler):
    """Appends a line with one write, so that lines of several processes do not mix."""

    def __init__(self, path: str) -> None:
        super().__init__()
        if (why := foreign(path, "log")) is not None:
            raise OSError(errno.EEXIST, f"{why}; it was left as it is")
        # a pipe that nobody reads is an error, and no reason to wait
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0), 0o666)
        os.set_blocking(self.fd, True)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            os.write(self.fd, (self.format(record) + "\n").encode(errors="backslashreplace"))
        except OSError:  # a full disk is no reason to end a search
            self.handleError(record)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        super().close()


_now: tuple[Setting, logging.Handler] | None = None


def current() -> Setting | None:
    """What this process was set up with; None where TILEWRIGHT_LOG was not given."""
    return _now[0] if _now is not None else None


def apply(setting: Setting | None) -> None:
    """Set up the loggers, in place of what was set up before; None takes that down. Raises BadSetting where the file
    cannot be written."""
    global _now
    handler: logging.Handler | None = None
    if setting is not None:
        try:
            handler = _File(setting.file) if setting.file is not None else _Stderr()
        except OSError as e:
            cure = "name a file in a folder that exists and is writable"
            raise BadSetting(f"{ENV}: cannot write {setting.file}: {e.strerror}; {cure}") from None
        handler.setFormatter(_Line())
    root = logging.getLogger("tilewright")
    if _now is not None:
        root.removeHandler(_now[1])
        _now[1].close()
    _now = (setting, handler) if setting is not None and handler is not None else None
    if handler is not None:
        root.addHandler(handler)
    root.propagate = handler is None
    for room in ROOMS:
        level = logging.NOTSET if setting is None else setting.levels.get(room, LEVELS["off"])
        logging.getLogger(f"tilewright.{room}").setLevel(level)


def from_environment() -> None:
    """Do as TILEWRIGHT_LOG says; a process that did so already does nothing. Raises BadSetting."""
    text = os.environ.get(ENV, "")
    if text.strip():
        setting = parse(text)
        if setting != current():
            apply(setting)


def divert(file: str | None) -> None:
    """Send messages of this process, and of helpers started from now on, to another file (None: back to standard
    error). Nothing happens where nothing was set up."""
    if _now is not None:
        setting = replace(_now[0], file=file)
        apply(setting)
        os.environ[ENV] = setting.text
