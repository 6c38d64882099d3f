"""What ends when nobody asked for it for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable


class IdleTimer:
    """Calls `end` once its owner rested for as long as it said. `guard`: held by whoever uses the owner, and by the end."""

    def __init__(self, end: Callable[[], None], guard: threading.Lock) -> None:
        self._end, self._guard = end, guard
        self._busy = True
        self._timer: threading.Timer | None = None

    def rest(self, seconds: float) -> None:
        """A job is done: end after so many seconds, unless another begins."""
        self._busy = False
        self._timer = threading.Timer(seconds, self._over)
        self._timer.daemon = True
        self._timer.start()

    def wake(self) -> None:
        """A job begins, or the owner ends by itself."""
        self._busy = True
        if self._timer is not None:
            self._timer.cancel()

    def _over(self) -> None:
        with self._guard:
            if not self._busy:
                self._end()
