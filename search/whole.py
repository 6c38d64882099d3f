"""Whether winners help the program that they were found for: the whole program is timed in pairs, with and without each.

A kernel that wins alone may lose in its program: it may need the caches that others use, or leave its results where the next kernel does
not want them. The statistics are those of the finals (`measure.Duel`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..measure import Duel
from ..measure.timing import plain, quartile

FEWEST, MOST = 5, 30
"""Rounds of a comparison."""
ROUND_S = 0.03
"""Seconds of a burst of calls; there are three calls at least, or one of a program that takes a second."""
LONG_S = 1.0
FIRST_CALLS, FIRST_S = 8, 0.5
"""Calls of a variant before it is timed for the first time: replays try numbers of threads in them."""


class Whole(Protocol):
    """A program that runs, some of whose kernels have a new schedule."""

    def use(self, winners: frozenset[int]) -> bool:
        """Run the new schedules of these winners, and the old ones of all others, from the next call on. Whether this variant is new, so that
        its first calls are not like later ones."""

    def call(self) -> float:
        """Seconds of a call."""


@dataclass(frozen=True, slots=True)
class Winner:
    """The new schedule of a kernel. `calls`: how often a call of the program runs it; `before_s`, `after_s`: seconds of one run alone, with the
    schedule from before and with the new one."""

    name: str
    calls: int
    before_s: float
    after_s: float

    @property
    def saves_s(self) -> float:
        """Seconds that a call of the program should take less."""
        return self.calls * (self.before_s - self.after_s)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a winner. `duel`: the program with it against the program without it, None where there was no time and it promised nothing;
    `together`: so many winners were compared at once, because each alone was within the noise or there was no time."""

    winner: Winner
    kept: bool
    duel: Duel | None
    together: int = 1

    @property
    def gain(self) -> float:
        """How many times as fast the program was with it."""
        return 1.0 if self.duel is None else 1 / self.duel.ratio

    @property
    def facts(self) -> dict[str, Any]:
        """As plain data: gains are factors (1.2: 1.2 times as fast), `noise` is half of a 95 % interval as a share (None:
        not compared), times are seconds."""
        w = self.winner
        return {
            "name": w.name, "calls": w.calls, "before_s": w.before_s, "after_s": w.after_s, "alone": w.before_s / w.after_s,
            "whole": self.gain, "noise": None if self.duel is None else self.duel.noise, "kept": self.kept, "together": self.together,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Acceptance:
    """`judged`: in the order of the winners. `total`: the program with all that are kept against the program from before; None where none is
    kept. `before_s`, `after_s`: seconds of a call then."""

    judged: tuple[Judged, ...]
    total: Duel | None
    before_s: float
    after_s: float

    @property
    def kept(self) -> frozenset[int]:
        """Numbers of the winners that the program runs."""
        return frozenset(i for i, j in enumerate(self.judged) if j.kept)

    @property
    def gain(self) -> float:
        """How many times as fast the program is as before, side by side."""
        return 1.0 if self.total is None else 1 / self.total.ratio

    @property
    def predicted_s(self) -> float:
        """Seconds of a call by what kernels take alone."""
        return self.before_s - sum(j.winner.saves_s for j in self.judged if j.kept)


class _ProgramDuels:
    """Comparisons of one program, within `seconds` together."""

    def __init__(self, whole: Whole, seconds: float, clock: Callable[[], float]) -> None:
        self._whole, self._clock = whole, clock
        self._end = clock() + seconds
        self.call_s = 0.0

    @property
    def left(self) -> float:
        """Seconds."""
        return self._end - self._clock()

    def least_s(self) -> float:
        """Seconds of the shortest comparison, with the first calls of a new variant."""
        return 2 * FEWEST * self._burst_s() + FIRST_CALLS * self.call_s

    def _burst_s(self) -> float:
        return (self._calls() + 1) * self.call_s

    def _calls(self) -> int:
        """Timed calls of a burst."""
        return 1 if self.call_s > LONG_S else max(3, int(ROUND_S / max(self.call_s, 1e-9)))

    def begin(self, winners: frozenset[int]) -> None:
        """Run a variant until it runs as it will."""
        if self._whole.use(winners):
            end = self._clock() + FIRST_S
            for i in range(FIRST_CALLS):
                self.call_s = self._whole.call() if not self.call_s else min(self.call_s, self._whole.call())
                if self._clock() > end and i:
                    break

    def duel(self, a: frozenset[int], b: frozenset[int], seconds: float) -> Duel:
        """Variant a against variant b: bursts in turns, whose order changes, in about so many seconds."""
        self.begin(a)
        self.begin(b)
        end = self._clock() + seconds
        pairs: list[tuple[float, float]] = []
        while len(pairs) < MOST:
            if len(pairs) >= FEWEST and (self._clock() > end or plain(pairs)):
                break
            got = {}
            for which in ((a, b), (b, a))[len(pairs) % 2]:
                self._whole.use(which)
                self._whole.call()
                got[which] = quartile([self._whole.call() for _ in range(self._calls())])
            pairs.append((got[a], got[b]))
        return Duel.of(pairs, 0, False)


def expected(saves_s: float, duel: Duel | None) -> bool:
    """Whether a change that should save so many seconds is expected to help, where a comparison does not tell: the mean of what it should save,
    taken to be as uncertain as it is large, and of what the comparison says, each weighed by the square of its certainty."""
    if duel is None or saves_s <= 0:
        return saves_s > 0
    return (duel.noise / 1.96) ** 2 > saves_s / duel.t_b * math.log(duel.ratio)


def accept(winners: Sequence[Winner], whole: Whole, seconds: float, clock: Callable[[], float] = time.monotonic) -> Acceptance:
    """Which winners the program runs from now on; it runs them when this returns. Each is compared alone, the one that should save most first,
    with those before it that were kept. It is kept where the whole is faster by more than the noise, and not where it is slower. Those that
    cannot be told, and those that there is no time for, are compared together, as far as they are expected to save anything (`expected`). In the
    end the whole is compared with the program from before;
    where it is slower, nothing is kept. `seconds`: about how long all this takes; the fewest rounds are made in any case."""
    time_of = _ProgramDuels(whole, seconds, clock)
    none: frozenset[int] = frozenset()
    time_of.begin(none)
    kept, judged = none, dict[int, Judged]()
    order = sorted(range(len(winners)), key=lambda i: -winners[i].saves_s)
    undecided: list[int] = []
    for n, i in enumerate(order):
        if len(winners) > 1 and n and time_of.left < 3 * time_of.least_s():
            undecided += order[n:]
            break
        duel = time_of.duel(kept | {i}, kept, time_of.left / (len(order) - n + 2))
        judged[i] = Judged(winners[i], duel.significant and duel.ratio < 1, duel)
        if judged[i].kept:
            kept |= {i}
        elif not duel.significant:
            undecided.append(i)
    judged |= {i: Judged(winners[i], False, None) for i in undecided if i not in judged}
    undecided = [i for i in undecided if expected(winners[i].saves_s, judged[i].duel)]
    if undecided:
        duel = time_of.duel(kept.union(undecided), kept, time_of.left / 2)
        better = expected(sum(winners[i].saves_s for i in undecided), duel)
        for i in undecided:
            # the comparison of its own says more of one that is not kept
            if better or judged[i].duel is None:
                judged[i] = Judged(winners[i], better, duel, len(undecided))
        kept = kept.union(undecided) if better else kept
    total = time_of.duel(kept, none, time_of.left) if kept else None
    if total is not None and total.significant and total.ratio > 1:
        judged = {i: replace(j, kept=False) for i, j in judged.items()}
        total, kept = None, none
    whole.use(kept)
    before = total.t_b if total is not None else time_of.call_s
    return Acceptance(tuple(judged[i] for i in range(len(winners))), total, before, total.t_a if total is not None else before)
