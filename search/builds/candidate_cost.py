"""What a candidate costs a search, in seconds, learned from the batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...measure import Measurement


class CandidateCost:
    """`each_s`: seconds that measuring a candidate takes, of late."""

    def __init__(self) -> None:
        self.each_s = 0.15
        self._first: tuple[float, int] | None = None

    def learn(self, seconds: float, measured: Sequence[Measurement]) -> None:
        """A batch took `seconds`. The first also waited for inputs and reference."""
        if self._first is None:
            running = sum((m.n + 2) * m.t_med for m in measured if m.t_med)  # run once to verify, once to warm up
            self._first = (seconds - running, len(measured))
        else:
            self.each_s = 0.7 * self.each_s + 0.3 * max(1e-3, seconds / len(measured))

    @property
    def waited_s(self) -> float:
        """Seconds that the first batch waited for inputs and reference, about."""
        return 0.0 if self._first is None else self._first[0] - self._first[1] * self.each_s
