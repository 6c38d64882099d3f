"""A model of times over the choices of templates, and what it expects the most of is measured next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from ..choices.moves import jump
from ..choices.process import MOST, Encoder, Process
from .over_choices import OverChoices, at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..choices.points import ChoicePoint, ChoicePoints, Family
    from ..choices.process import Matrix
    from ..space import Schedule, Space

DRAWN = 400
"""Points drawn anew for each choice."""
AROUND = 5
"""Best points whose neighbours are looked at."""
STUCK = 15
"""After so many results without a new best, the model may be sure of the wrong valley: a third of what is asked for is
`BOLD`, a third `NEAR`."""
TRUSTING, BOLD, NEAR = 1.0, 3.0, 0.0
"""How many standard deviations count as one; NEAR: as the model has them, and only points with one other value than the
best are asked for."""
JUMPS = 40
"""Points two or three values away from each of those."""
LEAST_CHANCE = 0.02
"""Of being valid, as it is believed: a model of few failures is never sure."""
SECOND_CHANCE = 0.1
"""How often a template with less than two valid results, of which there is no model, is asked for a point all the same."""
AGAIN = 1.15
"""The model's hypotheses are chosen anew when there are so many times more results."""


class ModelledChoices(OverChoices):
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

    def _told(self, point: ChoicePoint, t: float) -> None:
        self._stale = 0 if t < math.inf and t <= self._best else self._stale + 1

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
            how = self._rng.choice((NEAR, BOLD, TRUSTING)) if self._stale > STUCK else TRUSTING
            tops = [o.top(best, how) for o in offers]
            which = max(range(len(offers)), key=lambda i: tops[i][0])
            gain, i = tops[which]
            if gain == -math.inf:
                if how == NEAR:
                    continue
                break
            offers[which].take(i, self._take(offers[which].candidates[i], out) is not None)

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
        offer.expect([p for p in self._pending.values() if p.template == f.index])
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
            found.update(dict.fromkeys(self._points.beside(p)))
            found.update(dict.fromkeys(jump(f, p, self._rng) for _ in range(JUMPS)))
        found.update(dict.fromkeys(self._points.draw(f, self._rng) for _ in range(DRAWN)))
        under_way = set(self._pending.values())
        return [p for p in found if p not in under_way and self._new(p) and not self._points.illegal(p)]


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
        self._encoded = model.encoder(candidates)
        self._mean, self._sd = model.predict(model.times, known, [values[p] for p in known], self._encoded)
        self._near = np.zeros(len(candidates), dtype=bool)
        self._chance = np.zeros(len(candidates))
        """Logarithm of the chance that it is valid."""
        if failed:
            said = [1.0] * len(known) + [0.0] * len(failed)
            mean, _ = model.predict(model.validity, [*known, *failed], said, self._encoded)
            self._chance = np.log(np.clip(mean, LEAST_CHANCE, 1.0))

    def top(self, best: float, how: float) -> tuple[float, int]:
        """(logarithm of the expected improvement on `best`, which candidate) of the best one; `how`: TRUSTING, BOLD or
        NEAR."""
        import numpy as np

        gains = improvement(best, self._mean, (how or TRUSTING) * self._sd) + self._chance
        if how == NEAR:
            gains = np.where(self._near, gains, -np.inf)
        i = int(gains.argmax())
        return float(gains[i]), i

    def centre(self, point: ChoicePoint) -> None:
        """What counts as NEAR: points with one other value than this one."""
        import numpy as np

        self._near = np.array([sum(a != b for a, b in zip(p.at, point.at)) == 1 for p in self.candidates])

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

        alike = self._model.times.alike(self._encoded, row)
        self._sd *= np.sqrt(np.maximum(0.02, 1 - alike * alike))


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
