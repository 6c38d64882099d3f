"""SIGTERM and SIGHUP end a search as Ctrl-C does: with its best saved and shown."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)
INTERRUPTED = 130


class AsInterrupts:
    """Inside, these signals raise KeyboardInterrupt in the main thread; `number` is the last one that came, 0 for none."""

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> AsInterrupts:
        if threading.current_thread() is threading.main_thread():
            # one that is ignored (nohup) stays so
            self._before = {s: signal.signal(s, self._strike) for s in ENDING if signal.getsignal(s) is not signal.SIG_IGN}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for s, handler in self._before.items():
            signal.signal(s, handler)

    def _strike(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        raise KeyboardInterrupt

    def code(self, code: int) -> int:
        """The exit code of a command that would end with `code`: 128 and the signal's number where one interrupted it."""
        return 128 + self.number if self.number and code == INTERRUPTED else code
