"""Who wins: the finalists are timed in pairs, and the winner must beat the best seed by more than the noise.

Times of different moments are not comparable to a few percent on a machine that does other things, so the ranking of the search only says who may
enter. Ratios of paired runs decide; an answer that is not significantly faster than the seed is the seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.errors import MeasureError

if TYPE_CHECKING:
    from ..measure import Duel, Measurement
    from .pipeline import MeasurerLike

CLEAR = 3.0
"""A finalist this many times faster than the seed needs no duel to prove it (and a duel would spend the time on the slow one)."""
GRACE_S = 1.0
"""Seconds past the budget in which the second check may still begin."""
MARGIN = 1.05
"""How many times faster a finalist's single measurement must be where there is no time for a duel."""


@dataclass(frozen=True, slots=True)
class Finalist:
    """A built schedule and what the search measured of it."""

    built: Any
    measurement: Measurement

    @property
    def t(self) -> float:
        """Best time seen, in seconds."""
        assert self.measurement.t_min is not None
        return self.measurement.t_min

    @property
    def typical(self) -> float:
        """Median time, in seconds."""
        return self.measurement.t_med or self.t


@dataclass(frozen=True, slots=True)
class Decision:
    """`winner` None: nothing survived. `ratio`: winner's time over the seed's, from a duel where `paired`. `failed`: finalists that did not survive the
    second check, with its result."""

    winner: Finalist | None
    significant: bool = False
    ratio: float | None = None
    paired: bool = False
    confirmed: bool = False
    message: str = ""
    failed: tuple[Measurement, ...] = ()


def decide(
    measurer: MeasurerLike, finalists: Sequence[Finalist], seed: Finalist | None, left: Callable[[], float], check_s: float = 0.0, grace_s: float = GRACE_S
) -> Decision:
    """Choose between `finalists` (fastest first, the seed not among them) and `seed`. `left()`: how many seconds remain; `check_s`: how many the second
    check takes, which is made even when that is `grace_s` too long."""

    def spare() -> float:
        return left() - check_s

    def second(f: Finalist) -> Measurement | None:
        return measurer.confirm(f.built) if left() > -grace_s else None

    failed: list[Measurement] = []
    standing = list(finalists)
    while standing:
        champion = _champion(measurer, standing, spare, keep=2.0)
        try:
            significant, ratio, paired, message = _against_seed(measurer, champion, seed, spare)
        except MeasureError as e:
            # one of the two was not right when it was run for the duel: the second check says whether it was the champion
            significant, ratio, paired, message = False, None, False, str(e)
            checked = second(champion)
            if checked is not None and checked.outcome != "ok":
                failed.append(checked)
                standing = [f for f in standing if f is not champion]
                continue
        if not significant:
            break
        checked = second(champion)
        if checked is None or checked.outcome == "ok":
            return Decision(champion, True, ratio, paired, checked is not None, message, tuple(failed))
        failed.append(checked)
        standing = [f for f in standing if f is not champion]
    else:
        message = "no candidate of the search survived" if failed else ""
    if seed is None:
        return Decision(None, message="nothing valid was found" if not failed else "every finalist failed the second check", failed=tuple(failed))
    checked = second(seed)
    if checked is not None and checked.outcome != "ok" and standing:
        without = decide(measurer, standing, None, left, check_s, grace_s)
        return dataclasses.replace(without, failed=(*failed, checked, *without.failed))
    if checked is not None and checked.outcome != "ok":
        return Decision(None, message=f"the seed failed the second check ({checked.outcome})", failed=(*failed, checked))
    note = "no significant win: the answer is the seed schedule" if finalists else "the answer is the seed schedule"
    return Decision(seed, False, 1.0, False, checked is not None, f"{note} ({message})" if message else note, tuple(failed))


def cost(a: Finalist, b: Finalist) -> float:
    """About how many seconds a round of a duel takes: a burst of each (at least twenty calls, fewer of slow kernels), each after a rest."""
    return sum(f.typical * (23 if f.t < 0.02 else 7 if f.t < 0.2 else 3) for f in (a, b)) + 0.12


def rounds(a: Finalist, b: Finalist, budget_s: float) -> int:
    """Rounds of a duel that fit in `budget_s`, 0 when a meaningful number does not."""
    fit = int(budget_s / cost(a, b))
    return min(fit, 9) if fit >= 3 else 0


def _champion(measurer: MeasurerLike, finalists: Sequence[Finalist], left: Callable[[], float], keep: float) -> Finalist:
    """The best of three by duels; the fastest stays unless another beats it significantly. Leaves time for the duel with the seed."""
    champion = finalists[0]
    rivals = [f for f in finalists[1:3] if f.t < 1.05 * champion.t]
    for i, rival in enumerate(rivals):
        share = left() / (len(rivals) - i + keep)
        n = rounds(champion, rival, share)
        if n:
            try:
                duel = _fight(measurer, rival, champion, n)
            except MeasureError:
                continue  # one of the two is not right; the champion is checked again before it wins
            if duel.significant and duel.ratio < 1:
                champion = rival
    return champion


def _against_seed(measurer: MeasurerLike, champion: Finalist, seed: Finalist | None, left: Callable[[], float]) -> tuple[bool, float | None, bool, str]:
    """(significant, ratio, paired, message) of the champion against the seed."""
    if seed is None:
        return True, None, False, "no start schedule could be measured"
    if champion.t * CLEAR < seed.t:
        return True, champion.t / seed.t, False, ""
    n = rounds(champion, seed, left() + GRACE_S / 2)
    if not n:
        ratio = champion.t / seed.t
        return ratio * MARGIN < 1, ratio, False, "decided by single measurements, for want of time"
    duel = _fight(measurer, champion, seed, n)
    win = duel.significant and duel.ratio < 1
    return win, duel.ratio, True, "" if win else f"best candidate / seed = {duel.ratio:.3f} in {n} paired rounds"


def _fight(measurer: MeasurerLike, a: Finalist, b: Finalist, n: int) -> Duel:
    return measurer.duel(a.built, b.built, rounds=n)
