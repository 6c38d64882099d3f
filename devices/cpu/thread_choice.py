"""How many threads short calls of a replay have: as many as their executables may use, or one, whatever was quicker.

Workers cost a short call more than they give, and how much depends on the machine and on the call before. So the first runs time each
short call both ways. How many threads run a call changes no bit of its results."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

SHORT_S = 50e-6
"""A call that takes longer with all its threads is never tried with one. (Waking a worker costs 35 to 150 µs, so what
is longer has something of it.)"""
TRIALS = (True, True, False, True, False, True, False)
"""Runs that are timed, and whether calls have all their threads in them; the first one only warms up."""


class ThreadChoice:
    """The choice for calls whose sizes are of one magnitude. `words`: threads of each call that may have several."""

    def __init__(self, wide: Mapping[int, int], tried: Sequence[int]) -> None:
        """`wide`: by the number of a call, the threads that it may have; the calls `tried` among them have something to share, and the
        others one thread."""
        self._wide = wide
        self._at = {call: at for at, call in enumerate(wide)}
        self.words = (ctypes.c_uint64 * max(len(wide), 1))(*[n if call in tried else 1 for call, n in wide.items()])
        self.undecided = list(tried)
        self._least = {(i, wide): float("inf") for i in tried for wide in (True, False)}
        self._runs = 0

    def begin(self) -> None:
        """The threads of a run that is timed."""
        wide = TRIALS[self._runs]
        for i in self.undecided:
            self.words[self._at[i]] = self._wide[i] if wide else 1

    def end(self, seconds: Sequence[float]) -> None:
        """What each call took in it. After the last one all is decided."""
        wide = TRIALS[self._runs]
        self._runs += 1
        if self._runs == 1:
            return
        for i in self.undecided:
            self._least[i, wide] = min(self._least[i, wide], seconds[i])
        done = self._runs == len(TRIALS)
        for i in self.undecided:
            if done:
                self.words[self._at[i]] = self._wide[i] if self._least[i, True] < self._least[i, False] else 1
            elif self._least[i, True] > SHORT_S:
                self.words[self._at[i]] = self._wide[i]
        self.undecided = [] if done else [i for i in self.undecided if self._least[i, True] <= SHORT_S]
