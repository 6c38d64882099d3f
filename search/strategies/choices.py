"""A model of times over the choices of templates, and what it expects the most of is measured next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from ..choices.moves import jump
from ..choices.process import MOST, Encoder, Process
from .over_choices import OverChoices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..choices.points import ChoicePoint, ChoicePoints, Family
    from ..choices.process import Matrix
    from ..space import Schedule, Space

DRAWN = 400
"""Points drawn anew for each choice."""
AROUND = 5
"""Best points whose neighbours are looked at."""
DOUBT = 0.3
"""Share of the model's standard deviation that counts: a search of a hundred measurements cannot look wherever it does
not know."""
JUMPS = 40
"""Points two or three values away from each of those."""
AGAIN = 1.15
"""The model's hypotheses are chosen anew when there are so many times more results."""


class ModelledChoices(OverChoices):
    """Expected improvement (Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions",
    1998) of the logarithm of the time under a Gaussian process, over points drawn evenly and the neighbours of the
    best ones. A space with several templates has a model for each; all compete.

    The logarithm is flattened beyond the median: how slow a slow one is says little about where the fast ones are. A
    failure counts as the slowest time."""

    name: ClassVar[str] = "choices"

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), points: ChoicePoints | None = None) -> None:
        super().__init__(space, seed=seed, start=start, points=points)
        self._models: dict[int, FamilyModel] = {}

    def _next(self, n: int, out: list[Schedule]) -> None:
        import numpy as np

        values = flattened(list(self._times.values()))
        by_point = dict(zip(self._times, values))
        best = min(values)
        offers: list[tuple[Matrix, Matrix, Matrix, list[ChoicePoint], FamilyModel]] = []
        for f in self._points.families:
            known = [p for p in by_point if p.template == f.index]
            candidates = self._candidates(f) if len(known) > 1 else []
            if not candidates:
                continue
            model = self._models.setdefault(f.index, FamilyModel(f, self.seed))
            mean, sd = model.predict(self._fitted(known, by_point), by_point, candidates)
            offers.append((mean, sd, model.encoded, candidates, model))
        while offers and len(out) < n:
            gains = [improvement(best, mean, DOUBT * sd) for mean, sd, *_ in offers]
            which = max(range(len(offers)), key=lambda i: float(gains[i].max()))
            mean, sd, encoded, candidates, model = offers[which]
            i = int(np.argmax(gains[which]))
            if gains[which][i] == -math.inf:
                break
            if self._take(candidates[i], out) is not None:
                # what it will say is as good as known: others like it are less of a surprise
                alike = model.process.alike(encoded, encoded[i])
                sd *= np.sqrt(np.maximum(0.02, 1 - alike * alike))
            sd[i] = math.nan

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
        return [p for p in found if self._new(p) and not self._points.illegal(p)]


class FamilyModel:
    """The process of one template's points."""

    def __init__(self, family: Family, seed: int) -> None:
        self.encoder = Encoder(family)
        self.process = Process(self.encoder, seed)
        self.encoded: Matrix
        self._fitted = 0.0

    def predict(self, known: list[ChoicePoint], values: dict[ChoicePoint, float], candidates: list[ChoicePoint]) -> tuple[Matrix, Matrix]:
        """(mean, standard deviation) at the candidates, in the units of `values`."""
        import numpy as np

        again = len(known) >= AGAIN * self._fitted
        rows, y = self.encoder(known), np.array([values[p] for p in known])
        self.process.fit(rows, y, again)
        if again:
            self._fitted = len(known)
        self.encoded = self.encoder(candidates)
        return self.process.predict(self.encoded)


def flattened(times: Sequence[float]) -> list[float]:
    """Logarithms of times (infinity: a failure, as slow as the slowest), growing slower beyond twice the way from the best to the median."""
    valid = [math.log(t) for t in times if t < math.inf] or [0.0]
    least, slowest = min(valid), max(valid)
    logs = [math.log(t) if t < math.inf else slowest for t in times]
    scale = sorted(logs)[len(logs) // 2] - least or 1.0
    edge = least + 2 * scale
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
