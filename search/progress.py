"""What a search reports while it runs, and how a notebook shows it. The calls come from the main thread, between measurements, never while
something is being timed."""

from __future__ import annotations

import sys
import time
from collections import Counter
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from ..ir.units import duration

if TYPE_CHECKING:
    from ..measure import Measurement
    from .result import Result


class Progress(Protocol):
    """Implement it to show or log a search."""

    def phase(self, name: str) -> None:
        """The search enters another phase: "preparing", "start schedules", "searching", "deciding"."""

    def candidate(self, measurement: Measurement) -> None:
        """One candidate has an outcome."""

    def best(self, best: Result) -> None:
        """There is a new best; the fields of the decision (gain, confirmed) are not settled yet."""

    def done(self, result: Result) -> None:
        """The search has ended."""


class Silent:
    """Says nothing."""

    def phase(self, name: str) -> None:
        """Nothing."""

    def candidate(self, measurement: Measurement) -> None:
        """Nothing."""

    def best(self, best: Result) -> None:
        """Nothing."""

    def done(self, result: Result) -> None:
        """Nothing."""


PAUSE_S = 0.25
"""Between two displays at least, in seconds: each is a message to the browser."""


class NotebookProgress:
    """Shows the phase, how many candidates there were by outcome, and the best so far. The last line stays."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._phase, self._best, self._handle, self._shown = "", "", None, 0.0
        self._html: Any = import_module("IPython.display")

    def phase(self, name: str) -> None:
        """The search enters another phase."""
        self._phase = name
        self._show(True)

    def candidate(self, measurement: Measurement) -> None:
        """One candidate has an outcome."""
        self._counts[measurement.outcome.value] += 1
        self._show(False)

    def best(self, best: Result) -> None:
        """There is a new best."""
        self._best = "" if best.t_min is None else f"best {duration(best.t_min)}"
        self._show(False)

    def done(self, result: Result) -> None:
        """The search has ended; its summary stays."""
        self._phase, self._best = result.summary(), ""
        self._show(True)

    def _show(self, now: bool) -> None:
        if not now and time.monotonic() - self._shown < PAUSE_S:
            return
        self._shown = time.monotonic()
        counted = ", ".join(f"{n} {outcome}" for outcome, n in self._counts.items())
        line = self._html.HTML(f"<code>{escape(' · '.join(filter(None, (self._phase, counted, self._best))))}</code>")
        if self._handle is None:
            self._handle = self._html.display(line, display_id=True)
        else:
            self._handle.update(line)


def shown(progress: Progress | None) -> Progress:
    """What was given; else what shows a search in a notebook, in a process that IPython runs for one, and nothing elsewhere."""
    if progress is not None:
        return progress
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return NotebookProgress() if shell is not None and getattr(shell, "kernel", None) is not None else Silent()
