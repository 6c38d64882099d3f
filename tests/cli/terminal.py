"""A pseudo-terminal to run the command in: what it draws, and keys such as Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Runs `tune ARGS` with a terminal of 120 x 40 as its standard streams. `seen` is everything it wrote, escapes too."""

    def __init__(self, *args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self.seen = ""
        self._fd, child = pty.openpty()
        full = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "PAGER": "", **(env or {})}
        full.pop("NO_COLOR", None)
        # its own session with this terminal as the controlling one, so that a typed Ctrl-C reaches it; and heeds it,
        # even where the tests run in a shell's background, which starts its jobs with interrupts ignored
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, *args], stdin=child, stdout=child, stderr=child, env=full, cwd=cwd, start_new_session=True, close_fds=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        os.close(child)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._fd)

    @property
    def text(self) -> str:
        """`seen` without colours and cursor movements."""
        return ESCAPES.sub("", self.seen).replace("\r", "")

    def type(self, keys: str) -> None:
        """Press keys; "\\x03" is Ctrl-C."""
        os.write(self._fd, keys.encode())

    def until(self, text: str, limit_s: float = 240.0) -> None:
        """Read until the plain text holds `text`; AssertionError when it ends or takes longer first."""
        end = time.monotonic() + limit_s
        while text not in self.text:
            assert time.monotonic() < end, f"no {text!r} in {limit_s} s:\n{self.text[-3000:]}"
            assert self._read(0.5), f"ended without {text!r}:\n{self.text[-3000:]}"

    def wait(self, limit_s: float = 240.0) -> int:
        """Read to the end; the exit code."""
        end = time.monotonic() + limit_s
        while self._read(0.5):
            assert time.monotonic() < end, f"still running after {limit_s} s:\n{self.text[-3000:]}"
        return self.process.wait(240)

    def _read(self, wait_s: float) -> bool:
        """Take what is there; False at the end."""
        if not select.select([self._fd], [], [], wait_s)[0]:
            return self.process.poll() is None
        data = b""
        with contextlib.suppress(OSError):  # Linux reports the closed other side as an error
            data = os.read(self._fd, 1 << 16)
        self.seen += data.decode(errors="replace")
        return bool(data)


_CHILD = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from tilewright.cli import main
sys.exit(main(sys.argv[1:]))
"""
