"""What the models of a template's points say of candidates, and which of these to measure next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..choices.process import Encoder, Process

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from ..choices.points import ChoicePoint, Family
    from ..choices.process import Matrix

    Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

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

    def beside(self, point: ChoicePoint, value: float, held: tuple[int, int] | None) -> int | None:
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
