"""A budget is kept whatever hangs: what is under way when it has passed is interrupted, wherever it waits.

Each phase of a search has limits of its own. This is the one behind them: a timer of the system, whose signal raises `OutOfTime` in the
main thread. References, builds, candidates and second checks are other processes that the main thread waits for, so it
reaches them all; they are killed with the search. In other threads there are no signals, and the phases' own limits are all there is."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, ClassVar

from ..ir.errors import OutOfTimeError
from .interrupts import holding

AGAIN_S = 4.0
"""Seconds after which what goes on all the same is interrupted once more."""
SAVING_S = 0.4
"""The same where the answer is being saved at that moment."""
LEAST_S, MOST_S = 1e-3, 1e8
"""What a timer of the system takes. (One that strikes early is set again.)"""
ENDING_S = 0.7
"""Seconds that saving what there is and ending all processes take."""


def margin_s(seconds: float) -> float:
    """By how much a budget of so many seconds may be exceeded, everything included."""
    return max(2.0, 0.1 * seconds)


def late_s(seconds: float | None) -> float:
    """Of that, what may pass before a search is ended."""
    return float("inf") if seconds is None else margin_s(seconds) - ENDING_S


class OutOfTime(KeyboardInterrupt):
    """The time of `deadline` is over. As Ctrl-C does, it passes by what handles errors."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(deadline.said())
        self.deadline = deadline


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
        self._noted = False

    def said(self) -> str:
        """What is to be told of it."""
        return f"the time budget is spent{f', while {Deadline.doing}' if Deadline.doing else ''}"

    def __enter__(self) -> Deadline:
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
        saving = holding() and not due._noted  # what was found is being saved, which mostly takes no time
        due._noted = due._noted or saving
        due.at = now + (SAVING_S if saving else AGAIN_S)
        Deadline._set()
        if not saving:
            raise OutOfTime(due)
