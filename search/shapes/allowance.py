"""The seconds of one call that tunes for several sizes: what is left, and what must be left for the second checks at its end.

No answer is given unchecked, so where even the reserve is spent the checks are made all the same; how long they took past the budget
is said."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_S = 2.0
"""Seconds that a search is worth starting for."""
START_S = 0.6
"""What measuring at one size takes before the first was measured: processes, inputs, reference, builds."""
CHECK_S = 0.4
"""What a second check takes beside its inputs and references: many runs of the winner."""
FEW = 3
"""Schedules that are compared in the shortest of searches."""
EACH_S = 0.06
"""About how long a schedule takes to be built, verified and timed."""
CALLS = 10
"""Calls of a schedule that is timed where they take long."""
SHARE = 0.3
"""Of what is spare, for one more size."""
SAID_S = 0.5
"""Seconds over the budget that need no words."""


class Allowance:
    """A budget being spent on several sizes."""

    def __init__(self, seconds: float, started: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`started`: the moment on `clock` from which the budget counts."""
        self.seconds, self.started, self._clock = seconds, started, clock
        self._took: dict[object, float] = {}
        self.held = 0.0
        """Seconds of what is left that the checks at the end are expected to take."""

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self._clock() - self.started

    @property
    def left(self) -> float:
        """Seconds until the budget's end; negative when over."""
        return self.seconds - self.spent

    @property
    def spare(self) -> float:
        """The same without what is held for the checks."""
        return self.left - self.held

    def took(self, size: object, seconds: float, schedules: int = 2) -> None:
        """Comparing so many schedules at a size took so long: the least of what is told counts, for inputs and references are the same each
        time. A check is of two; what is the schedules' of the seconds is not known, and half is taken to be."""
        part = max(0.5, min(1.0, 2 / max(1, schedules)))
        alone = min(seconds, START_S + part * max(0.0, seconds - START_S))
        self._took[size] = min(alone, self._took.get(size, alone))

    def check(self, size: object) -> float:
        """Seconds that a second check at a size is expected to take."""
        return CHECK_S + self._took.get(size, START_S)

    def slice(self, share: float, before: float, pieces: int) -> float | None:
        """Seconds for the next of `pieces` searches that have `share` of the budget together, and must end when `before` of it is spent;
        None where that is too little to begin one."""
        rest = min(share * self.seconds / max(1, pieces), (before * self.seconds - self.spent))
        return rest if rest >= LEAST_S else None

    def compared(self, sizes: int, share: float, most: int) -> int:
        """How many schedules to compare at so many sizes in a share of the budget."""
        room = min(share * self.seconds, self.left) - sizes * START_S
        return max(FEW, min(most, int(room / (EACH_S * sizes))))

    def timed(self, schedules: int, call_s: float) -> int:
        """How many schedules to time at one more size, where a call takes about so long: no more than take a share of what is spare."""
        return max(FEW, min(schedules, int(SHARE * self.spare / (EACH_S + CALLS * call_s))))

    def said(self) -> str:
        """What is to be said of the time that was taken beyond the budget, or ''."""
        over = -self.left
        return f"the checks at the end took {over:.1f} s more than the budget" if over > SAID_S else ""
