"""Log messages while a live display is on: they wait in a file, where helper processes put theirs too, and are
printed above the display when it is drawn.

Neither this process nor a helper writes to a terminal whose lines the display owns, and nothing is drawn beside a
measurement for the sake of a message."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable


class LogAbove:
    """`begin`, `show` as often as the display is drawn, `end`. Does nothing where TILEWRIGHT_LOG is not set or names
    a file."""

    def __init__(self, show: Callable[[str], None]) -> None:
        """`show(text)` prints lines (ending with a newline) above the display."""
        self._print = show
        self._file: str | None = None
        self._at = 0
        self._one = threading.Lock()  # a display may be drawn by a thread of its own

    def begin(self) -> None:
        """Messages go to the file from now on, those of helpers that are started later too."""
        if not os.environ.get("TILEWRIGHT_LOG"):
            return
        from ...log import setup

        setting = setup.current()
        if setting is None or setting.file is not None:
            return
        fd, path = tempfile.mkstemp(prefix="tilewright-log-")
        os.close(fd)
        self._file = path
        try:
            setup.divert(path)
        except setup.BadSetting:
            self._remove()

    def show(self) -> None:
        """Print the whole lines that came since the last time."""
        with self._one:
            if self._file is None:
                return
            try:
                with open(self._file, "rb") as f:
                    f.seek(self._at)
                    text = f.read()
            except OSError:
                return
            whole = text[: text.rfind(b"\n") + 1]
            if whole:
                self._at += len(whole)
                self._print(whole.decode(errors="replace"))

    def end(self) -> None:
        """Print the rest; messages go where they went before."""
        if self._file is None:
            return
        from ...log import setup

        setup.divert(None)
        self.show()
        self._remove()

    def _remove(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._file)
        self._file = None
