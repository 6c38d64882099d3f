"""Who knows of what: vector clocks of the threads of a cluster and of what runs beside them.

An *actor* is a thread, a barrier by which TMA's bytes arrive, or the tensor cores of a warpgroup. Each actor counts its own time; row t
of `seen` says how far actor t knows the others' times. What an actor did at a time is known to all that have seen that time. (As in
race detectors: L. Lamport, CACM 1978; C. Flanagan and S. N. Freund, FastTrack, PLDI 2009.)"""

from __future__ import annotations

import numpy as np

from .ops import Array


class VectorClocks:
    """The times of `count` actors."""

    def __init__(self, count: int) -> None:
        self.seen = np.zeros((count, count), np.int32)
        self.seen[np.arange(count), np.arange(count)] = 1

    def now(self, who: Array) -> Array:
        """The own time of each."""
        found: Array = self.seen[who, who]
        return found

    def tick(self, who: Array) -> None:
        """What these do from now on happens later than what they have told."""
        self.seen[who, who] += 1

    def join(self, who: Array) -> None:
        """These meet: each knows what any of them knew."""
        self.seen[who] = self.seen[who].max(0)
        self.tick(who)

    def told(self, who: Array) -> Array:
        """What these know together, told to somebody; they go on at a later time."""
        found: Array = self.seen[who].max(0)
        self.tick(who)
        return found

    def learn(self, who: Array, what: Array) -> None:
        """These learn what was told."""
        self.seen[who] = np.maximum(self.seen[who], what)
