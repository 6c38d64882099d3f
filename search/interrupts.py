"""What ends a search from outside: signals, and a deadline that holds whatever hangs.

A search that has decided is a moment away from its answer in the cache and on the screen; an interrupt in that moment would lose both. So
from then on a signal is only noted, and whoever watches (the command, or `tune` itself) acts on it when all is out. A second one does not
wait. Python runs a handler only between two of its own instructions. So where the main thread is in native code, or does not return, a
thread that also receives SIGTERM and SIGHUP ends the process after `PATIENCE_S`. Its helpers end with it.

Each phase of a search has limits of its own. The `Deadline` is the one behind them: a timer of the system, whose signal raises `OutOfTime`
in the main thread. References, builds, candidates and second checks are other processes that the main thread waits for, so it reaches them
all; they are killed with the search. Other threads get no signals: there the phases' own limits are all there is."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType
from typing import Any, ClassVar

from ..ir.errors import OutOfTimeError

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
    """Only note signals from now on."""
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


STRIKE_AGAIN_S = 4.0
"""Seconds after which what goes on all the same is interrupted once more."""
SAVING_S = 0.4
"""The same where the answer is being saved at that moment."""
LEAST_S, MOST_S = 1e-3, 1e8
"""What a timer of the system takes. (One that strikes early is set again.)"""
ENDING_S = 0.7
"""Seconds that saving what there is and ending all processes take."""


def margin_s(seconds: float) -> float:
    """How much longer than a budget of so many seconds a search may take, everything included."""
    return max(2.0, 0.1 * seconds)


def late_s(seconds: float | None) -> float:
    """The part of that which may pass before a search is ended."""
    return float("inf") if seconds is None else margin_s(seconds) - ENDING_S


class OutOfTime(KeyboardInterrupt):
    """The time of `deadline` is over. As Ctrl-C does, it passes by what handles errors."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(deadline.said())
        self.deadline = deadline


IMPORT_S, LATER_S = 10.0, 0.02
"""So long an import may go on when a deadline is over, and so often it is looked at again."""


def _imports(frame: FrameType | None) -> int:
    """How many imports are under way."""
    found = 0
    while frame is not None:
        found += frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        frame = frame.f_back
    return found


def _within(frame: FrameType | None, *codes: CodeType) -> bool:
    """Whether one of these functions is being run."""
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame is not None


class Deadline:
    """Inside, `OutOfTime` is raised in the main thread when the budget and its margin are over; where several are open, the first that is
    over, and again if that did not end it. `seconds` None: never. A context manager."""

    doing: ClassVar[str] = ""
    """What is under way, in words that follow 'while': whoever begins something long says so."""
    _open: ClassVar[list[Deadline]] = []
    _before: ClassVar[tuple[Any, float, float]] = (None, 0.0, 0.0)
    """The handler and the timer that there were, and when."""

    def __init__(self, seconds: float | None, started: float, doing: str = "") -> None:
        """`started`: the moment on `time.monotonic` from which it counts. `doing`: what is under way first."""
        self.seconds = seconds
        self.at = float("inf") if seconds is None else started + seconds + late_s(seconds)
        Deadline.doing = doing or Deadline.doing
        self._noted, self._imports = False, 0

    def said(self) -> str:
        """What is to be told of it."""
        return f"the time budget is spent{f', while {Deadline.doing}' if Deadline.doing else ''}"

    def __enter__(self) -> Deadline:
        self._imports = _imports(sys._getframe())
        if self.seconds is not None and threading.current_thread() is threading.main_thread():
            if not Deadline._open:
                handler = signal.signal(signal.SIGALRM, Deadline._strike)
                Deadline._before = handler, signal.getitimer(signal.ITIMER_REAL)[0], time.monotonic()
            Deadline._open.append(self)
            Deadline._set()
        return self

    def end(self) -> None:
        """It interrupts nothing from now on."""
        if self not in Deadline._open:
            return
        Deadline._open.remove(self)
        if Deadline._open:
            Deadline._set()
            return
        handler, left, since = Deadline._before
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
        if left:  # somebody else's timer
            signal.setitimer(signal.ITIMER_REAL, max(LEAST_S, left - (time.monotonic() - since)))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        if isinstance(error, OutOfTime) and error.deadline is self:
            raise OutOfTimeError(f"{error}; give it more, or a smaller shape") from None

    @staticmethod
    def _set() -> None:
        first = min(d.at for d in Deadline._open)
        signal.setitimer(signal.ITIMER_REAL, min(MOST_S, max(LEAST_S, first - time.monotonic())))

    @staticmethod
    def _strike(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        due = next((d for d in Deadline._open if d.at <= now + LEAST_S), None)
        if due is None:
            if Deadline._open:
                Deadline._set()
            return
        if (
            _imports(frame) > due._imports and now < due.at + IMPORT_S
        ):  # a module that is cut off stays half made for the rest of the process
            signal.setitimer(signal.ITIMER_REAL, LATER_S)
            return
        if _within(frame, Deadline.__enter__.__code__, Deadline.__exit__.__code__, Deadline.end.__code__):
            signal.setitimer(signal.ITIMER_REAL, LATER_S)  # one that is half open or half closed would stay so
            return
        saving = holding() and not due._noted  # what was found is being saved, which mostly takes no time
        due._noted = due._noted or saving
        due.at = now + (SAVING_S if saving else STRIKE_AGAIN_S)
        Deadline._set()
        if not saving:
            raise OutOfTime(due)
