"""Who wins: the finalists are timed in pairs, and the winner must beat the best start schedule by more than the noise.

Times of different moments are not comparable to a few percent on a machine that does other things, so the ranking of the search only says
who may enter. The best are timed once more side by side, and ratios of paired runs decide. An answer that is not significantly faster than
the start schedule is the start schedule. Of several start schedules it is the one that is used without tuning, unless the fastest of them beats it in a duel. Candidates that
duels cannot tell apart are a tie, which a rule decides that is the same on every machine: the fewest instructions, then the text. Of two
objectives a front is drawn. The winner is checked a second time, on other inputs."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.errors import MeasureError
from ..measure.outcome import Outcome
from ..opts.opt import short

if TYPE_CHECKING:
    from ..measure import Duel, Measurement, Race
    from .candidate_measurer import CandidateMeasurer


class SecondChecks:
    """Those of one search, by source. `last_s`: seconds that the last one took."""

    def __init__(self, confirm: Callable[[Any], Measurement], clock: Callable[[], float] = time.monotonic) -> None:
        """`confirm` makes one (`measure.Measurer.confirm`)."""
        self._confirm, self._clock = confirm, clock
        self._made: dict[str, Measurement] = {}
        self.last_s = 0.0
        self.duels: dict[tuple[str | None, str | None], Duel] = {}
        """The last comparison in pairs of two sources: it still holds where there is no time for another."""

    def __bool__(self) -> bool:
        """Whether any was made."""
        return bool(self._made)

    def knows(self, sha: str | None) -> bool:
        """Whether the one of this source was made."""
        return sha in self._made

    def of(self, built: Any, in_time: bool = True) -> Measurement | None:
        """What came of it, before or now; None where it was not made and there is no time."""
        found = self._made.get(built.sha)
        if found is None and in_time:
            began = self._clock()
            found = self._made[built.sha] = self._confirm(built)
            self.last_s = self._clock() - began
        return found


CLEAR = 3.0
"""A finalist that measures so many times faster than the start schedule needs the fewest rounds of a duel to prove it."""
APART = 5.0
"""Where there is no time for a duel, a finalist must measure so many times faster than the start schedule. Calls that were disturbed look three
times as slow as they are, on a machine with other work on all cores."""
FEWEST = 3
"""The fewest rounds that say anything."""
GRACE_S = 1.0
"""Seconds past the budget in which the second check may still begin."""
ROUND_S = 0.03
"""Seconds that a round of a duel takes beside its calls: two rests, and what is checked after a burst."""
ROUNDS, AGAIN = 9, 27
"""The most rounds of a duel, and of a second one with the start schedule where the first leaves doubt and there is time."""
TIE = 1.02
"""A finalist that was not told from the fastest, and looks slower than it by less than this, may take its place where it is simpler."""
ALIKE = 1.01
"""A finalist is told from the fastest where it is surely slower by more than this: addresses of code and operands, which the next process has
elsewhere, make as much."""
RACE_S, RACERS, NEAR, LEAST_ROUNDS = 3.0, 14, 2.0, 5
"""Seconds that a race may take, who enters it at most, how far behind the fastest by the measurement before, and rounds that there must be time for."""
RACING = 0.6
"""Share of the seconds that are left for a race: duels and the second check come after it."""
WIDE = 0.03
"""Who may be level with the fastest of a race, give or take more than this share, meets it once more. What is then not known that well is no tie."""
MARGIN = 1.05
"""How many times better a finalist must look in a duel that was not significant for a longer one, and by energy where there is no time for any."""


@dataclass(frozen=True, slots=True)
class Finalist:
    """A built schedule and what the search measured of it."""

    built: Any
    measurement: Measurement
    instead: float | None = None
    """What is compared in the place of the time (`objective.SearchObjective.decides`)."""

    @property
    def t(self) -> float:
        """Best time seen, in seconds, or what stands for it."""
        assert self.measurement.t_min is not None
        return self.measurement.t_min if self.instead is None else self.instead

    @property
    def typical(self) -> float:
        """Median time, in seconds."""
        return self.measurement.t_med or self.measurement.t_min or self.t

    @property
    def window_s(self) -> float:
        """Seconds that its energy is measured for at a time; 0 where that is not what is compared."""
        used = self.measurement.energy
        return 0.0 if self.instead is None or used is None else used.calls / used.windows * self.typical


@dataclass(frozen=True, slots=True)
class FrontMember:
    """A schedule of the front of two objectives: its measurement, whether it passed the second check, and all that it passed."""

    measurement: Measurement
    confirmed: bool
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NearTie:
    """A schedule that was not told from the winner: its time over the winner's, and the ends of the 95 % confidence interval."""

    opts: Any
    ratio: float
    low: float
    high: float

    @property
    def json(self) -> dict[str, Any]:
        """The tie as plain data."""
        return {"opts": [o.json for o in self.opts], "ratio": round(self.ratio, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


@dataclass(frozen=True, slots=True)
class Decision:
    """`winner` None: nothing survived. `ratio`: winner's time over the start schedule's, from a duel where `paired`.
    `confirmed`: the winner passed the second check; `checks`: all that it passed, as in Measurement. `start`: what had
    to be beaten, where it stands. `failed`: finalists that did not survive a duel or the second check, with its
    result. `front`: of two objectives the front's members, the winner first. `ties`: what was not told
    from the winner. `places`: the winner's time over the start schedule's, with operands from memory and in the caches, where both were timed."""

    winner: Finalist | None
    significant: bool = False
    ratio: float | None = None
    paired: bool = False
    confirmed: bool = False
    message: str = ""
    failed: tuple[Measurement, ...] = ()
    checks: tuple[str, ...] = ()
    start: Finalist | None = None
    front: tuple[FrontMember, ...] = ()
    ties: tuple[NearTie, ...] = ()
    places: tuple[float, float] | None = None


def decide(
    measurer: CandidateMeasurer,
    finalists: Sequence[Finalist],
    start: Finalist | None,
    left: Callable[[], float],
    check_s: float = 0.0,
    grace_s: float = GRACE_S,
    untuned: Finalist | None = None,
    checks: SecondChecks | None = None,
    quick: Finalist | None = None,
    length: Callable[[Any], float] = lambda opts: 0.0,
) -> Decision:
    """Choose between `finalists` (fastest first, the start schedule not among them) and `start`, the fastest one. `left()`: how
    many seconds remain; `check_s`: how many the second check takes, which is made even when that is `grace_s` too
    long. `untuned`: the start schedule that is used without tuning, which `start` must beat to count. `checks`: what makes
    second checks, and knows which were made. `quick`: the start schedule that captured functions use without tuning, which nothing
    that is slower takes the place of. `length`: about how many instructions a schedule has, by which ties are decided."""
    checks = SecondChecks(measurer.confirm) if checks is None else checks
    final = _Final(measurer, finalists, start, left, check_s, grace_s, checks)
    final.quick, final.length = quick, length
    final.race(untuned)
    if untuned is not None and start is not None and untuned is not start:
        final.choose_start(untuned)
    found = final.decide()
    return dataclasses.replace(found, start=final.start, ties=final.ties_of(found.winner), places=final.places_of(found.winner))


class _Final:
    """One decision under way: who still stands, and who has failed."""

    def __init__(
        self,
        measurer: CandidateMeasurer,
        finalists: Sequence[Finalist],
        start: Finalist | None,
        left: Callable[[], float],
        check_s: float,
        grace_s: float,
        checks: SecondChecks,
    ) -> None:
        self.measurer, self.left, self.check_s, self.grace_s, self.checks = measurer, left, check_s, grace_s, checks
        self.standing, self.start = list(finalists), start
        self.challenged = bool(finalists)
        self.quick: Finalist | None = None
        self.length: Callable[[Any], float] = lambda opts: 0.0
        self.failed: list[Measurement] = []
        self.races: list[tuple[list[Finalist], Race]] = []
        """Who took part, and the times: of all that may win, and of those that were still in doubt."""
        self.order: dict[int, float] = {}
        """By `id`, the time over that of one of the race."""
        self.torn: list[Finalist] = []
        """Those that were ahead of the start schedule in one place only: they stand again where the start schedule falls."""
        self.level: dict[int, tuple[Finalist, float, float]] = {}
        """By `id`, who was not told from the fastest: with the logarithms of its time over the fastest's, and of half the interval."""

    def race(self, untuned: Finalist | None) -> None:
        """Time all that may win in common rounds, where there is time for three and more, and once more those of which that says too little: the
        fastest by those rounds stand first."""
        racers = entrants([f for f in (self.start, untuned, self.quick) if f is not None], self.standing)
        budget_s = min(RACE_S, self._spare() * RACING)
        while len(racers) > 2 and race_s(racers) > budget_s:
            racers.pop()
        if len(racers) < 3 or any(f.instead is not None for f in racers):
            return
        wrong = self._timed(racers, budget_s)
        if wrong is not None:
            self.race(None if untuned is wrong else untuned)
        elif self.races:
            fastest_one = min(racers, key=lambda f: self.order[id(f)])
            against = ((f, self._in_race(f, fastest_one)) for f in racers if f is not fastest_one)
            doubtful = [f for f, duel in against if duel is not None and _alike(duel) and duel.noise > WIDE]
            if doubtful:
                self._timed([fastest_one, *doubtful], min(RACE_S / 2, self._spare() * RACING))
            self._rank(self.standing)

    def _timed(self, racers: Sequence[Finalist], budget_s: float) -> Finalist | None:
        """Common rounds of some; who of them was found wrong, and is out."""
        try:
            found = self.measurer.race([f.built for f in racers], AGAIN, budget_s)
        except MeasureError as e:
            culprit = getattr(e, "culprit", None)
            if culprit is None:
                return None
            wrong: Finalist = racers[culprit]
            self._drop(wrong, _wrong(wrong, str(e)))
            return wrong
        if found is not None:
            self.races.append((list(racers), found))
            there = next(i for i, t in enumerate(found.rows[-1]) if not math.isnan(t))
            before = self.order.get(id(racers[there]), 1.0)
            self.order |= {id(f): before * found.duel(i, there).ratio for i, f in enumerate(racers)}
        return None

    def _rank(self, standing: Sequence[Finalist]) -> None:
        """Who stands, the fastest of the race first, then the others as they were."""
        self.standing = sorted(standing, key=lambda f: self.order.get(id(f), math.inf))

    def _in_race(self, a: Finalist, b: Finalist) -> Duel | None:
        """What the last race of two says of them; None where there was none."""
        for racers, race in reversed(self.races):
            places = {id(f): i for i, f in enumerate(racers)}
            if id(a) in places and id(b) in places:
                duel = self.checks.duels[a.built.sha, b.built.sha] = race.duel(places[id(a)], places[id(b)])
                return duel
        return None

    def choose_start(self, untuned: Finalist) -> None:
        """The start schedule to beat is `untuned`, unless the fastest start schedule beats that by more than the noise; the other one may
        still win as a finalist."""
        fastest, self.start = self.start, untuned
        assert fastest is not None
        self.standing = [f for f in self.standing if f is not untuned]
        try:
            duel = self._paired(fastest, untuned, self._spare() / 3)
            better = _far_ahead(fastest, untuned) if duel is None else duel.significant and duel.ratio < 1
        except MeasureError as e:
            fell = self._fell(e, fastest, untuned)
            better = fell is untuned
            fastest = untuned if fell is fastest else fastest
        if better:
            self.start = fastest
        elif self.races and fastest is not untuned:
            self._rank([fastest, *self.standing])

    def decide(self) -> Decision:
        """The best finalist that beats the start schedule and passes the second check, else the start schedule, if that passes it."""
        message = ""
        while self.standing:
            champion = self._champion(keep=2.0)
            if champion is None:
                break
            significant, ratio, paired, message = self._against_start(champion)
            if champion not in self.standing:
                continue
            if not significant and champion is self._fastest():
                break
            if not significant:  # (one that is faster, by less than can be told, may be told from the start schedule)
                self.standing = [f for f in self.standing if f is not champion]
                continue
            checked = self._second(champion)
            if checked is None or checked.outcome == "ok":
                return self._won(champion, checked, True, ratio, paired, message)
            self._drop(champion, checked)
        else:
            message = "no candidate of the search survived" if self.failed else message
        return self._started_from(message)

    def _started_from(self, message: str) -> Decision:
        """The start schedule wins, or where it fails the best that stands without it."""
        start = self.start
        if start is None:
            text = "every finalist failed the second check" if self.failed else "nothing valid was found"
            return Decision(None, message=text, failed=tuple(self.failed))
        checked = self._second(start)
        if checked is None or checked.outcome == "ok":
            note = "no significant win: the answer is the start schedule" if self.challenged else "the answer is the start schedule"
            return self._won(start, checked, False, 1.0, False, f"{note} ({message})" if message else note)
        self._drop(start, checked)
        self.standing = self.standing or self.torn
        if self.standing:
            return self.decide()
        return Decision(None, message=f"the start schedule failed the second check ({checked.outcome})", failed=tuple(self.failed))

    def _won(
        self, winner: Finalist, checked: Measurement | None, significant: bool, ratio: float | None, paired: bool, message: str
    ) -> Decision:
        checks = (*winner.measurement.checks, *(checked.checks if checked is not None else ()))
        return Decision(winner, significant, ratio, paired, checked is not None, message, tuple(self.failed), tuple(dict.fromkeys(checks)))

    def _spare(self) -> float:
        return self.left() - self.check_s

    def _second(self, f: Finalist) -> Measurement | None:
        return self.checks.of(f.built, self.left() > -self.grace_s)

    def _drop(self, f: Finalist, how: Measurement) -> None:
        """Out of the finals for good."""
        self.failed.append(how)
        self.standing = [x for x in self.standing if x is not f]
        if f is self.start:
            self.start = None

    def _champion(self, keep: float) -> Finalist | None:
        """The best of the race, or of three by duels; the fastest stays unless another beats it significantly. Leaves time for the
        duel with the start schedule. None: all of them failed."""
        champion = self.standing[0]
        rivals = [f for f in self.standing[1:] if self._in_race(f, champion) is not None]
        rivals = rivals or [f for f in self.standing[1:3] if f.t < 1.05 * champion.t]
        rivals += [f for f in self.standing if f is self.quick and f not in rivals and f is not champion]
        for i, rival in enumerate(rivals):
            try:
                duel = self._paired(rival, champion, self._spare() / (len(rivals) - i + keep))
                if duel is None:
                    continue
            except MeasureError as e:
                # where it is not known which of the two is not right, the champion is checked again before it wins
                if self._fell(e, rival, champion) is champion:
                    champion = rival
                continue
            if duel.significant and duel.ratio < 1:
                champion, self.level = rival, {}
            elif _alike(duel):
                self.level[id(rival)] = rival, math.log(duel.ratio), math.log1p(duel.noise)
        if champion not in self.standing:
            self.level = {}
            return self.standing[0] if self.standing else None
        self.level[id(champion)] = champion, 0.0, 0.0
        near = [f for f, ratio, _ in self.level.values() if ratio < math.log(TIE) and f in self.standing]
        return min(near, key=lambda f: (self.length(f.built.opts), short(f.built.opts)))

    def _fastest(self) -> Finalist | None:
        """Who is ahead of all that stand and were not told apart."""
        here = [x for x in self.level.values() if x[0] in self.standing]
        return min(here, key=lambda x: x[1])[0] if here else next(iter(self.standing), None)

    def ties_of(self, winner: Finalist | None) -> tuple[NearTie, ...]:
        """What was not told from the winner."""
        if winner is None:
            return ()
        found = []
        racers = self.races[0][0] if self.races else []
        if any(f is winner for f in racers):
            others = (f for f in racers if f is not winner and f is not self.start and all(m.opts != f.built.opts for m in self.failed))
            races = ((f, self._in_race(f, winner)) for f in others)
            found = [NearTie(f.built.opts, d.ratio, *d.interval) for f, d in races if d is not None and _alike(d) and d.noise <= WIDE]
        elif winner is self.start:
            duels = (
                (f, d)
                for (a, b), d in self.checks.duels.items()
                for f in (*(f for f, _, _ in self.level.values()), *self.torn)
                if (f.built.sha, winner.built.sha) == (a, b)
            )
            found = [NearTie(f.built.opts, d.ratio, *d.interval) for f, d in duels if not d.significant and f is not winner]
        elif own := self.level.get(id(winner)):
            for f, ratio, half in self.level.values():
                if f is not winner and f in self.standing:
                    between, doubt = ratio - own[1], math.hypot(half, own[2])
                    found.append(NearTie(f.built.opts, math.exp(between), math.exp(between - doubt), math.exp(between + doubt)))
        return tuple(sorted(found, key=lambda t: t.ratio))

    def places_of(self, winner: Finalist | None) -> tuple[float, float] | None:
        """The winner's time over the start schedule's from memory and in the caches, where it was compared with that."""
        if winner is None or self.start is None:
            return None
        duel = self.checks.duels.get((winner.built.sha, self.start.built.sha))
        return None if duel is None else duel.places

    def _duel(self, a: Finalist, b: Finalist, n: int) -> Duel:
        """`n` rounds between two, about what is compared. Raises MeasureError."""
        energy = {} if a.instead is None else {"energy": True}
        duel = self.measurer.duel(a.built, b.built, rounds=n, **energy)
        self.checks.duels[a.built.sha, b.built.sha] = duel
        return duel

    def _paired(self, a: Finalist, b: Finalist, budget_s: float) -> Duel | None:
        """What the race says of two; else a duel that fits in some seconds, or the last one that there was; None where there was none. Raises MeasureError."""
        if (raced := self._in_race(a, b)) is not None:
            return raced
        n = rounds(a, b, budget_s, FEWEST if a.t * CLEAR < b.t else ROUNDS)
        return self._duel(a, b, n) if n else self.checks.duels.get((a.built.sha, b.built.sha))

    def _fell(self, e: MeasureError, a: Finalist, b: Finalist) -> Finalist | None:
        """Which of two was found wrong in a duel, if that is known; it is out, however right it may be the next time."""
        culprit = getattr(e, "culprit", None)
        if culprit is None:
            return None
        found = (a, b)[culprit]
        self._drop(found, _wrong(found, str(e)))
        return found

    def _against_start(self, champion: Finalist) -> tuple[bool, float | None, bool, str]:
        """(significant, ratio, paired, message) of the champion against the start schedule; either may fall over it."""
        start = self.start
        if start is None:
            return True, None, False, "no start schedule could be measured" if not self.failed else "no start schedule is right"
        try:
            duel = self._paired(champion, start, self._spare() + GRACE_S / 2)
            if duel is None:
                return _far_ahead(champion, start), champion.t / start.t, False, "there was no time to compare the best candidate in pairs"
            again = rounds(champion, start, self._spare(), AGAIN) if _doubtful(duel) else 0
            if again > duel.rounds:
                duel = self._duel(champion, start, again)
        except MeasureError as e:
            fell = self._fell(e, champion, start)
            if fell is start:
                return self._against_start(champion)
            if fell is None:
                self._recheck(champion)
            return False, None, False, str(e)
        if duel.torn:  # the next one may be ahead in both places
            self.standing, self.torn = [f for f in self.standing if f is not champion], [*self.torn, champion]
            return False, duel.ratio, True, f"ahead of the start schedule from memory or in the caches, but not in both ({duel.ratio:.3f})"
        win = duel.significant and duel.ratio < 1
        return win, duel.ratio, True, "" if win else _undecided(duel, cost(champion, start))

    def _recheck(self, champion: Finalist) -> None:
        """Find out who of the two was wrong when it ran for the duel: the second check says whether it was the champion."""
        checked = self._second(champion)
        if checked is not None and checked.outcome != "ok":
            self._drop(champion, checked)


def _alike(duel: Duel) -> bool:
    """Whether two were not told apart by more than another process may turn round. One that is ahead from memory and behind in the caches is told."""
    low, high = duel.interval
    return not duel.torn and low < ALIKE and high > 1 / ALIKE


def _far_ahead(a: Finalist, b: Finalist) -> bool:
    """Whether one is faster than another by single measurements alone; of energy these are means of seconds already."""
    return a.t * (APART if a.instead is None else MARGIN) < b.t


def _undecided(duel: Duel, round_s: float) -> str:
    """What is known where no difference was shown: the ratio, its 95 % interval, and how many pairs would show such a ratio if it is true."""
    low, high = duel.interval
    said = f"best candidate / start = {duel.ratio:.3f} in {duel.rounds} pairs, 95 % of the doubt within {low:.3f} to {high:.3f}"
    if duel.ratio * MARGIN > 1 or not math.isfinite(duel.noise):
        return said
    # the interval shrinks with the root of the number of pairs
    pairs = max(duel.rounds + 1, math.ceil(duel.rounds * (math.log1p(duel.noise) / -math.log(duel.ratio)) ** 2))
    return f"{said}: about {pairs} pairs would tell, {pairs * round_s:.2g} s more of budget, on a quieter machine fewer"


def _wrong(f: Finalist, detail: str) -> Measurement:
    return dataclasses.replace(f.measurement, outcome=Outcome.wrong, detail=detail, t_min=None, t_med=None, n=0, checks=())


def cost(a: Finalist, b: Finalist) -> float:
    """About how many seconds a round of a duel takes: a burst of each (some twenty calls and what warms up, fewer of slow kernels), each
    after a rest; or a window of each, where the duel is about energy."""
    if a.window_s and b.window_s:
        return a.window_s + b.window_s + ROUND_S
    return sum(f.typical * (30 if f.t < 0.02 else 9 if f.t < 0.2 else 2) for f in (a, b)) + ROUND_S


def entrants(always: Sequence[Finalist], standing: Sequence[Finalist]) -> list[Finalist]:
    """Who races: those that do always, and who is near the fastest."""
    fastest = min((f.t for f in (*standing, *always)), default=0.0)
    near = [f for f in standing if f.t < NEAR * fastest and f not in always][:RACERS]
    return list({id(f): f for f in (*always, *near)}.values())


def race_s(racers: Sequence[Finalist]) -> float:
    """About how many seconds a race takes until it tells who is clearly behind."""
    return LEAST_ROUNDS * sum(cost(f, f) / 2 for f in racers)


def rounds(a: Finalist, b: Finalist, budget_s: float, most: int = ROUNDS) -> int:
    """Rounds of a duel that fit in `budget_s`, at most `most`, 0 when a meaningful number does not."""
    fit = int(budget_s / cost(a, b))
    return min(fit, most) if fit >= FEWEST else 0


def _doubtful(duel: Duel) -> bool:
    """Whether a candidate that looks faster was not shown to be: disturbed rounds can hide a factor of two."""
    return not duel.significant and not duel.torn and duel.ratio * MARGIN < 1
