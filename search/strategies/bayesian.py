"""Bayesian optimisation over the points of templates: a model of times, and what it expects the most of is measured next.

A space has few valleys, and a walk to the bottom of one costs a few dozen measurements, or fewer with a model that says which neighbour to
try. So a search that has found nothing better for a while spends part of its measurements on other valleys, one after another (`Descent`;
restarts as in Eriksson et al., "Scalable Global Optimization via Local Bayesian Optimization", NeurIPS 2019), each compared with itself and
not with the best there is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from .gaussian_process import MOST, Encoder, Process
from .point_search import PointSearch, at_once
from .points import jump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    import numpy as np

    from ..space import Schedule, Space
    from .gaussian_process import Matrix
    from .points import ChoicePoint, ChoicePoints, Family

    Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

PATIENCE = 8
"""Neighbours in a row that were no better, after which a walk has arrived."""
APART = 3
"""Values in which a beginning differs at least from the best and from where earlier walks ended."""
BEGINNINGS = 20
"""Points drawn to find a beginning."""
HELD, FRESH = 0.5, 0.25
"""How often a walk keeps a value that the best has not got, and how often it begins at a new point."""


class Descent:
    """One walk at a time, over points whose times are told by whoever measured them."""

    def __init__(self, points: ChoicePoints, rng: Random) -> None:
        self._points, self._rng = points, rng
        self._ends: list[ChoicePoint] = []
        self.here: ChoicePoint | None = None
        self.held: tuple[int, int] | None = None
        """A parameter and the value of it that the walk keeps."""
        self._seconds = math.inf
        self._asked: set[ChoicePoint] = set()
        """What is being measured for the walk."""
        self._misses = 0

    @property
    def seconds(self) -> float:
        """The time where the walk is, in seconds; infinity before it has one."""
        return self._seconds

    @property
    def waits(self) -> bool:
        """Whether its beginning is being measured: until then there is nothing to ask for."""
        return self.here is None and bool(self._asked)

    def begin(self, times: Mapping[ChoicePoint, float], best: ChoicePoint) -> ChoicePoint | None:
        """Begin a walk: the point to measure, or None where it begins at a measured one or nowhere."""
        self.here, self._seconds, self._misses, self.held = None, math.inf, 0, None
        how = self._rng.random()
        if how < HELD:
            self.held = self._other_value(best)
        elif how < HELD + FRESH:
            return self._drawn(times, best)
        far = [p for p, t in times.items() if t < math.inf and self._open(p, best)]
        if not far:
            self.held = None
            return self._drawn(times, best)
        self.here = min(far, key=lambda p: times[p])
        self._seconds = times[self.here]
        return None

    def holds(self, point: ChoicePoint) -> bool:
        """Whether a point has the value that the walk keeps."""
        return self.held is None or point.at[self.held[0]] == self.held[1]

    def _other_value(self, best: ChoicePoint) -> tuple[int, int] | None:
        """A parameter and a value that it has not got at the best point."""
        sizes = [len(v) for v in self._points.family(best).values]
        free = [p for p, n in enumerate(sizes) if n > 1]
        if not free:
            return None
        p = self._rng.choice(free)
        return p, self._rng.choice([i for i in range(sizes[p]) if i != best.at[p]])

    def _open(self, point: ChoicePoint, best: ChoicePoint) -> bool:
        """Whether a walk may begin at a measured point."""
        if self.held is not None:
            return point.template == best.template and self.holds(point) and point not in self._ends
        return all(_distance(point, e) >= APART for e in (best, *self._ends[-20:]))

    def _drawn(self, times: Mapping[ChoicePoint, float], best: ChoicePoint) -> ChoicePoint | None:
        drawn = [p for p in (self._points.uniform(self._rng) for _ in range(BEGINNINGS)) if p is not None and p not in times]
        drawn.sort(key=lambda p: -min(APART, *(_distance(p, e) for e in (best, *self._ends[-20:]))))
        return drawn[0] if drawn else None

    def asked(self, point: ChoicePoint) -> None:
        """This is being measured for the walk."""
        self._asked.add(point)

    def told(self, point: ChoicePoint, t: float, best: bool) -> None:
        """A result, asked for by anybody; `best`: it is the best there is, which needs no walk of its own."""
        mine = point in self._asked
        self._asked.discard(point)
        better = t < self._seconds and (mine or (self.here is not None and _distance(point, self.here) == 1 and self.holds(point)))
        if better:
            self.here, self._seconds, self._misses = point, t, 0
        elif mine:
            self._misses += 1
        if (better and best) or self._misses >= PATIENCE or (mine and self.here is None and not self._asked):
            self.end()

    def end(self) -> None:
        """The walk is over."""
        if self.here is not None:
            self._ends.append(self.here)
        self.here, self._seconds, self._misses = None, math.inf, 0
        self._asked.clear()


def _distance(a: ChoicePoint, b: ChoicePoint) -> int:
    """The number of values in which two points differ; points of two templates are as far apart as can be."""
    return sum(x != y for x, y in zip(a.at, b.at)) if a.template == b.template else len(a.at) + len(b.at)


TRUSTING, BOLD, NEAR = 1.0, 3.0, 0.0
"""How many standard deviations count as one; NEAR: as the model has them, and only points with one other value than the
best are asked for."""
LEAST_CHANCE = 0.02
"""Of being valid, as it is believed: a model of few failures is never sure."""
AGAIN = 1.15
"""The model's hypotheses are chosen anew when there are so many times more results."""


class FamilyModel:
    """The processes of one template's points: of their times, and of whether they are valid."""

    def __init__(self, family: Family, seed: int) -> None:
        self.encoder = Encoder(family)
        self.times, self.validity = Process(self.encoder, seed), Process(self.encoder, seed + 1)
        self._fitted: dict[Process, float] = {}

    def predict(self, process: Process, known: Sequence[ChoicePoint], values: Sequence[float], encoded: Matrix) -> tuple[Matrix, Matrix]:
        """(mean, standard deviation) at the encoded candidates, in the units of `values`."""
        import numpy as np

        again = len(known) >= AGAIN * self._fitted.get(process, 0.0)
        process.fit(self.encoder(known), np.array(values), again)
        if again:
            self._fitted[process] = len(known)
        return process.predict(encoded)


class Offer:
    """Candidates of a family with what is expected of each."""

    def __init__(
        self,
        model: FamilyModel,
        known: Sequence[ChoicePoint],
        values: dict[ChoicePoint, float],
        failed: Sequence[ChoicePoint],
        candidates: Sequence[ChoicePoint],
    ) -> None:
        import numpy as np

        self.candidates, self._model = candidates, model
        self.family = candidates[0].template
        self._failed = bool(failed)
        self._asked_rows: list[Matrix] = []
        self.walked: ChoicePoint | None = None
        """Of which point all neighbours are among the candidates, beyond those of the best."""
        self._at = np.array([p.at for p in candidates])
        self._encoded = model.encoder(candidates)
        self._mean, self._sd = model.predict(model.times, known, [values[p] for p in known], self._encoded)
        self._centre = candidates[0]
        self._chance = np.zeros(len(candidates))
        """Logarithm of the chance that it is valid."""
        if failed:
            said = [1.0] * len(known) + [0.0] * len(failed)
            mean, _ = model.predict(model.validity, [*known, *failed], said, self._encoded)
            self._chance = np.log(np.clip(mean, LEAST_CHANCE, 1.0))

    def promising(self, best: float, count: int) -> list[int]:
        """Candidates of which the most is expected."""
        gains = improvement(best, self._mean, TRUSTING * self._sd) + self._chance
        return [int(i) for i in gains.argsort()[::-1][:count]]

    def extend(self, points: list[ChoicePoint]) -> None:
        """More candidates."""
        import numpy as np

        rows = self._model.encoder(points)
        mean, sd = self._model.times.predict(rows)
        for row in self._asked_rows:
            alike = self._model.times.alike(rows, row)
            sd = sd * np.sqrt(np.maximum(0.02, 1 - alike * alike))
        chance = np.zeros(len(points))
        if self._failed:
            said, _ = self._model.validity.predict(rows)
            chance = np.log(np.clip(said, LEAST_CHANCE, 1.0))
        self.candidates = [*self.candidates, *points]
        self._encoded = np.concatenate([self._encoded, rows])
        self._mean, self._sd = np.concatenate([self._mean, mean]), np.concatenate([self._sd, sd])
        self._chance = np.concatenate([self._chance, chance])
        self._at = np.concatenate([self._at, np.array([p.at for p in points])])

    def top(self, best: float, how: float) -> tuple[float, int]:
        """(logarithm of the expected improvement on `best`, which candidate) of the best one; `how`: TRUSTING, BOLD or
        NEAR."""
        import numpy as np

        gains = improvement(best, self._mean, (how or TRUSTING) * self._sd) + self._chance
        if how == NEAR:
            gains = np.where(self._one_from(self._centre), gains, -np.inf)
        i = int(gains.argmax())
        return float(gains[i]), i

    def centre(self, point: ChoicePoint) -> None:
        """What counts as NEAR: points with one other value than this one."""
        self._centre = point

    def knows(self, point: ChoicePoint) -> bool:
        """Whether all its neighbours are among the candidates."""
        return point == self.walked

    def best_neighbour(self, point: ChoicePoint, value: float, held: tuple[int, int] | None) -> int | None:
        """The neighbour of a point that is expected to improve most on its `value`, with the value `held` of a parameter."""
        import numpy as np

        there = self._one_from(point) if held is None else self._one_from(point) & (self._at[:, held[0]] == held[1])
        gains = np.where(there, improvement(value, self._mean, self._sd) + self._chance, -np.inf)
        i = int(gains.argmax())
        return i if gains[i] > -np.inf else None

    def _one_from(self, point: ChoicePoint) -> Mask:
        import numpy as np

        differ: Mask = (self._at != np.array(point.at)).sum(1) == 1
        return differ

    def take(self, i: int, asked: bool) -> None:
        """Leave candidate i out from now on; whether it was `asked` for."""
        if asked:
            self._known(self._encoded[i])
        self._sd[i] = math.nan

    def expect(self, points: Sequence[ChoicePoint]) -> None:
        """These are being measured."""
        for row in self._model.encoder(points) if points else ():
            self._known(row)

    def _known(self, row: Matrix) -> None:
        """What was asked for is as good as known: others like it are less of a surprise."""
        import numpy as np

        self._asked_rows.append(row)
        alike = self._model.times.alike(self._encoded, row)
        self._sd *= np.sqrt(np.maximum(0.02, 1 - alike * alike))


def improvement(best: float, mean: Matrix, sd: Matrix) -> Matrix:
    """The logarithm of the expected improvement on `best` (lower is better), minus infinity where the standard deviation
    is no number. Far from an improvement it must still tell bad from worse, so the tail of the normal distribution is
    that of Mills's ratio, by Boyd's bound 4 / (3 x + sqrt(x^2 + 8))."""
    import numpy as np

    z = np.nan_to_num((best - mean) / sd, nan=0.0)
    x = np.minimum(np.abs(z), 1e6)
    # of a normal distribution, what lies beyond x: its mean excess times its weight
    beyond = np.log1p(-x * 4 / (3 * x + np.sqrt(x * x + 8))) - x * x / 2 - math.log(2 * math.pi) / 2
    gain: Matrix = np.log(sd) + np.where(z > 0, np.logaddexp(np.log(np.maximum(z, 1e-12)), beyond), beyond)
    return np.where(np.isnan(gain), -np.inf, gain)


DRAWN = 400
"""Points drawn anew for each choice."""
AROUND = 5
"""Best points whose neighbours are looked at."""
STUCK = 15
"""After so many results without a new best, the model may be sure of the wrong valley: a third of what is asked for is
`BOLD`, a third `NEAR`."""
JUMPS = 40
"""Points two or three values away from each of those."""
SECOND_CHANCE = 0.1
"""How often a template with less than two valid results, of which there is no model, is asked for a point all the same."""
LOST, ELSEWHERE = 0.5, 0.25
"""After so many results without a new best, as a share of all results (and more than `STUCK`), how often a step of a walk
elsewhere is asked for (`descent`)."""
ROUNDS, CLIMBED = 2, 4
"""How often the neighbours of the most promising candidates, and of how many of them, become candidates too."""


class ModelledChoices(PointSearch):
    """Expected improvement (Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions",
    1998) of the logarithm of the time under a Gaussian process, over points drawn evenly and the neighbours of the
    best ones, times the chance that a point is valid (Gelbart, Snoek and Adams, "Bayesian Optimization with Unknown
    Constraints", UAI 2014). A space with several templates has a model for each; all compete.

    The logarithm is flattened beyond the median: how slow a slow one is says little about where the fast ones are. A
    failure has no time: the fastest points often lie beside those that ask for too much, and a time made up for these
    would hide them."""

    name: ClassVar[str] = "choices"

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), points: ChoicePoints | None = None) -> None:
        super().__init__(space, seed=seed, start=start, points=points)
        self._models: dict[int, FamilyModel] = {}
        self._stale = 0
        self._descent = Descent(self._points, self._rng)

    def _told(self, point: ChoicePoint, t: float) -> None:
        best = t < math.inf and t <= self._best
        self._stale = 0 if best else self._stale + 1
        self._descent.told(point, t, best)

    def _next(self, n: int, out: list[Schedule]) -> None:
        n = n if any(self.start) else min(n, at_once(len(self._times)))
        valid = {p: t for p, t in self._times.items() if t < math.inf}
        by_point = dict(zip(valid, flattened(list(valid.values()))))
        offers = [o for f in self._points.families if (o := self._offer(f, by_point)) is not None]
        if not offers:
            # nothing valid to go by
            while len(out) < n and not self.done:
                self._take(self._points.uniform(self._rng), out)
            return
        poor = [f for f in self._points.families if sum(p.template == f.index for p in valid) < 2]
        if poor and self._rng.random() < SECOND_CHANCE:
            self._take(self._points.uniform(self._rng, self._rng.choice(poor)), out)
        best = min(by_point.values())
        while len(out) < n:
            if (
                self._stale > max(STUCK, LOST * len(self._times))
                and self._rng.random() < ELSEWHERE
                and self._elsewhere(offers, by_point, out)
            ):
                continue
            how = self._rng.choice((NEAR, BOLD, TRUSTING)) if self._stale > STUCK else TRUSTING
            tops = [o.top(best, how) for o in offers]
            which = max(range(len(offers)), key=lambda i: tops[i][0])
            gain, i = tops[which]
            if gain == -math.inf:
                if how == NEAR:
                    continue
                break
            offers[which].take(i, self._take(offers[which].candidates[i], out) is not None)

    def _elsewhere(self, offers: list[Offer], values: dict[ChoicePoint, float], out: list[Schedule]) -> bool:
        """Ask for a step of a walk away from the best; False where there is none to ask for now."""
        walk = self._descent
        if walk.waits:
            return False
        if walk.here is None:
            start = walk.begin(self._times, min(values, key=lambda p: values[p]))
            if start is not None:
                asked = self._take(start, out) is not None
                if asked:
                    walk.asked(start)
                return asked
        here = walk.here
        offer = next((o for o in offers if here is not None and o.family == here.template), None)
        if here is None or offer is None:
            walk.end()
            return False
        if not offer.knows(here):
            return False  # its neighbours are among the candidates from the next time on
        step = offer.best_neighbour(here, values[here], walk.held)
        if step is None:
            walk.end()
            return False
        point = offer.candidates[step]
        asked = self._take(point, out) is not None
        offer.take(step, asked)
        if asked:
            walk.asked(point)
        return asked

    def _offer(self, f: Family, values: dict[ChoicePoint, float]) -> Offer | None:
        """What a family's model says of its candidates; None where it has fewer than two results or no candidates."""
        known = [p for p in values if p.template == f.index]
        candidates = self._candidates(f) if len(known) > 1 else []
        if not candidates:
            return None
        model = self._models.setdefault(f.index, FamilyModel(f, self.seed))
        failed = [p for p, t in self._times.items() if t == math.inf and p.template == f.index]
        offer = Offer(model, self._fitted(known, values), values, failed[-MOST // 2 :], candidates)
        offer.centre(min(known, key=lambda p: values[p]))
        offer.walked = self._descent.here
        offer.expect([p for p in self._pending.values() if p.template == f.index])
        for _ in range(ROUNDS):
            tops = [offer.candidates[i] for i in offer.promising(min(values[p] for p in values), CLIMBED)]
            more: dict[ChoicePoint, None] = {}
            for p in tops:
                more.update(dict.fromkeys(self._points.neighbours(p)))
            there = set(offer.candidates) | set(self._pending.values())
            new = [p for p in more if p not in there and self._new(p) and not self._points.illegal(p)]
            if not new:
                break
            offer.extend(new)
        return offer

    def _fitted(self, known: list[ChoicePoint], values: dict[ChoicePoint, float]) -> list[ChoicePoint]:
        """The points that the model is fitted to: all, or the best half and some of the rest."""
        if len(known) <= MOST:
            return known
        ranked = sorted(known, key=lambda p: values[p])
        return ranked[: MOST // 2] + self._rng.sample(ranked[MOST // 2 :], MOST - MOST // 2)

    def _candidates(self, f: Family) -> list[ChoicePoint]:
        found: dict[ChoicePoint, None] = {}
        for p in [p for p in self._ranked() if p.template == f.index][:AROUND]:
            found.update(dict.fromkeys(self._points.neighbours(p)))
            found.update(dict.fromkeys(jump(f, p, self._rng) for _ in range(JUMPS)))
        found.update(dict.fromkeys(self._points.draw(f, self._rng) for _ in range(DRAWN)))
        if (here := self._descent.here) is not None and here.template == f.index:
            found.update(dict.fromkeys(self._points.neighbours(here)))
        under_way = set(self._pending.values())
        return [p for p in found if p not in under_way and self._new(p) and not self._points.illegal(p)]


def flattened(times: Sequence[float]) -> list[float]:
    """Logarithms of times (infinity: a failure, as slow as the slowest), growing slower beyond the median."""
    if not times:
        return []
    valid = [math.log(t) for t in times if t < math.inf] or [0.0]
    least, slowest = min(valid), max(valid)
    logs = [math.log(t) if t < math.inf else slowest for t in times]
    scale = sorted(logs)[len(logs) // 2] - least or 1.0
    edge = least + scale
    return [x if x <= edge else edge + scale * math.log1p((x - edge) / scale) for x in logs]
