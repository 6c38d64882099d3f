"""Signals that end a search: they interrupt it while it searches, and wait while what it found is being saved and shown.

A search that has decided is a moment away from its answer in the cache and on the screen; an interrupt that strikes
in that moment would lose both. So from then on a signal is only noted, and whoever watches (the command, or `tune`
itself) acts on it when all is out. A second one does not wait.

Python runs a handler only between two of its own instructions. So where the main thread is in native code, or is not done with its
leave, a thread that hears of SIGTERM and SIGHUP too ends the process after `PATIENCE_S`. Its helpers end with it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

INTERRUPTED = 130
PATIENCE_S = 1.7
"""Seconds that a command has to save what it found after a signal that is no Ctrl-C: whoever sends one must be obeyed in two."""
ALL = tuple(getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n))


class SignalWatch:
    """Inside, these signals raise KeyboardInterrupt in the main thread, unless they are held; `number` is the last
    one that came, 0 for none. The outermost watch of a process is the one that counts; in other threads it does
    nothing."""

    _outermost: SignalWatch | None = None

    def __init__(self, signals: Iterable[int] = ALL) -> None:
        self.signals = tuple(signals)
        self.number = 0
        self._holding = False
        self._noted = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SignalWatch:
        if SignalWatch._outermost is None and threading.current_thread() is threading.main_thread():
            SignalWatch._outermost = self
            # one that is ignored (nohup) stays so
            self._before = {s: signal.signal(s, self._strike) for s in self.signals if signal.getsignal(s) is not signal.SIG_IGN}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if SignalWatch._outermost is self:
            for s, handler in self._before.items():
                signal.signal(s, handler)
            SignalWatch._outermost = None

    def _strike(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        again = self._noted
        self._noted = self._holding and not again
        if not self._holding or again:
            raise KeyboardInterrupt

    def code(self, code: int) -> int:
        """The exit code of a command that would end with `code`: 128 and the signal's number where one came."""
        return 128 + self.number if self.number and code in (0, INTERRUPTED) else code


def watched(command: Callable[[], int]) -> int:
    """The exit code of `command`, run under a SignalWatch: 128 and the signal's number where one ended it, within two seconds for
    all but Ctrl-C. A Ctrl-C that it does not answer itself goes on as KeyboardInterrupt."""
    with SignalWatch() as signals, _in_time(signals):
        try:
            return signals.code(command())
        except KeyboardInterrupt:
            if signals.number in (0, signal.SIGINT):
                raise
            exec("")  # one that struck inside an exec() would have Python end itself by SIGINT, whatever is returned
            print("ended by a signal", file=sys.stderr)
            return signals.code(INTERRUPTED)


@contextmanager
def _in_time(watch: SignalWatch) -> Iterator[None]:
    """Inside, a signal of the watch that is no Ctrl-C ends the process after PATIENCE_S, whatever the main thread does."""
    if SignalWatch._outermost is not watch:
        yield
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    left = threading.Event()
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    thread = threading.Thread(target=_end_in_time, args=(heard, left), name="tilewright-signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(before)
        os.close(told)  # which ends the thread
        thread.join()
        os.close(heard)


def _end_in_time(heard: int, left: threading.Event) -> None:
    while number := os.read(heard, 1):
        if number[0] in (signal.SIGTERM, signal.SIGHUP):
            if not left.wait(PATIENCE_S):
                os.write(2, b"ended by a signal, in the middle of something\n")
                os._exit(128 + number[0])
            return


def process_code(code: int) -> int:
    """The exit code with which the process will end where the command's is `code`, as far as is known now."""
    watch = SignalWatch._outermost
    return code if watch is None else watch.code(code)


def hold() -> None:
    """From here on signals are only noted."""
    if SignalWatch._outermost is not None:
        SignalWatch._outermost._holding = True


def holding() -> bool:
    """Whether they are only noted at the moment."""
    return SignalWatch._outermost is not None and SignalWatch._outermost._holding


def release() -> None:
    """They interrupt again. Raises KeyboardInterrupt where one was noted."""
    watch = SignalWatch._outermost
    if watch is not None:
        noted, watch._noted, watch._holding = watch._noted, False, False
        if noted:
            raise KeyboardInterrupt
