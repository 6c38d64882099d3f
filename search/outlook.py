"""What more search is worth: by how much the best time is expected to fall with some more candidates.

The best of many candidates falls with the logarithm of their number, so that each doubling is worth about the same (as for records in a row of
random numbers: K. N. Chandler, 1952), and less as a search nears the end of what there is. The worth of the next doubling is foretold from two
things: what the last one gained, and how far apart the best candidates are, which says how much room is left beside the best (as gaps of
order statistics do: S. S. Wilks, 1941). The display, a search that ends on a plateau and a manifest that spends its budget ask the
same `Outlook`; `benchmarks/search_outlook.py` records how its word was kept."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

GAINED, APART, ANY = 0.12, 0.05, 0.02
"""What the next doubling is worth: shares of what the last one gained and of the spread of the best, and what it is worth in any case
(fitted by `benchmarks/search_outlook.py`, all logarithms)."""
FEWEST = 8
"""Candidates that were right, before which nothing is foretold."""
_BEST = 6
"""Candidates whose spread counts."""
PLATEAU = 0.01
"""A search is on a plateau where another minute is worth less than this share."""


class Outlook:
    """One search's. `told`: candidates so far, failures too; `right`: of these, those that have a time; `recalled`: those
    of earlier searches."""

    def __init__(self) -> None:
        self.told = self.right = self.recalled = 0
        self._best: list[float] = []
        """The logarithm of the best time after each candidate."""
        self._top: list[float] = []

    def recall(self, seconds: float) -> None:
        """A candidate of an earlier search."""
        self.tell(seconds)
        self.recalled += 1

    def tell(self, seconds: float) -> None:
        """One more candidate, and its time (or score); infinite where it has none."""
        self.told += 1
        log = math.log(seconds) if 0 < seconds < math.inf else math.inf
        if log < math.inf:
            self.right += 1
            bisect.insort(self._top, log)
            del self._top[_BEST:]
        self._best.append(min(log, self._best[-1] if self._best else math.inf))

    def gain(self, more: float) -> float | None:
        """The share by which `more` candidates are expected to shorten the best time; None while too little is known."""
        if self.right < FEWEST:
            return None
        gained, apart = self.signs
        doubling = GAINED * gained + APART * apart + ANY
        return -math.expm1(-doubling * math.log2(1 + more / self.told))

    @property
    def signs(self) -> tuple[float, float]:
        """What the last doubling gained, and how far apart the best are, as logarithms up to 1."""
        gained = self._best[max(0, self.told // 2 - 1)] - self._best[-1]
        apart = sum(self._top[1:]) / max(1, len(self._top) - 1) - self._top[0]
        return min(gained, 1.0), min(apart, 1.0)

    def gain_in(self, seconds: float, elapsed: float) -> float | None:
        """The expected gain of so many seconds more, at the pace of the `elapsed` ones."""
        return self.gain(seconds * (self.told - self.recalled) / elapsed) if elapsed > 0 else None


FIRST = 0.6
"""Of a budget that many searches share: what is dealt out by weight. The rest goes where it is expected to gain most."""
SLICE_S = 15.0
"""Seconds of one more turn: preparing it takes some of them."""


class Spending:
    """A budget that many searches share: an iterator of (number, seconds, whether it was searched before). Each search has its turn, with seconds by
    its weight of what is left, or what is known to be needed; then those for which weight times expected gain is largest have more, until all are on a plateau. `minute[n]`:
    what another minute is expected to gain search n, which whoever searches says; None where it needs no more."""

    def __init__(
        self, weights: Sequence[float], left: Callable[[], float | None], earlier: Mapping[int, float | None] | None = None
    ) -> None:
        """`weights`: how much each counts, say its share of a program's time. `left()`: seconds of the budget that are left, None without one.
        `earlier`: what another minute is expected to gain those that were searched before: their first turn was then."""
        self.weights, self.left, self.earlier = list(weights), left, earlier or {}
        self.minute: list[float | None] = [self.earlier.get(n) for n in range(len(self.weights))]
        self._least = 0.0

    def failed(self, number: int, seconds: float) -> None:
        """A turn of so many seconds ended before anything was measured, on a slow or busy machine: the next ones have twice as many, and
        the last ones none, rather than all of them too few."""
        self.minute[number], self._least = None, max(self._least, 2 * seconds)

    def __iter__(self) -> Iterator[tuple[int, float | None, bool]]:
        total, first = self.left(), [n for n in range(len(self.weights)) if n not in self.earlier]
        if total is None:
            yield from ((n, None, False) for n in first)
            return
        kept = (1 - FIRST) * total if FIRST * total >= SLICE_S * len(first) else 0.0
        others = sum(self.weights[n] for n in self.worth(total))
        for i, n in enumerate(first):
            rest = sum(self.weights[m] for m in first[i:]) + others
            share = self.weights[n] / rest if rest else 1 / (len(first) - i)
            left = max(0.0, (self.left() or 0.0) - kept)
            yield n, min(left, max(left * share, self._least)), False
        while (left := self.left() or 0.0) >= SLICE_S and (worth := self.worth(left)):
            yield max(worth, key=worth.__getitem__), min(left, max(SLICE_S, left / 4)), True

    def worth(self, left: float) -> dict[int, float]:
        """Weight times expected gain of those that are on no plateau: in `left` seconds, a minute at least, they are expected to gain its share."""
        minutes = max(1.0, left / 60)
        return {n: self.weights[n] * m for n, m in enumerate(self.minute) if m and m * minutes >= PLATEAU}
