"""A model of times over the choices of templates, and what it expects the most of is measured next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from ..choices.moves import jump
from ..choices.process import MOST
from .descent import Descent
from .offers import BOLD, NEAR, TRUSTING, FamilyModel, Offer
from .over_choices import OverChoices, at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..choices.points import ChoicePoint, ChoicePoints, Family
    from ..space import Schedule, Space

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
        step = offer.beside(here, values[here], walk.held)
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
                more.update(dict.fromkeys(self._points.beside(p)))
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
            found.update(dict.fromkeys(self._points.beside(p)))
            found.update(dict.fromkeys(jump(f, p, self._rng) for _ in range(JUMPS)))
        found.update(dict.fromkeys(self._points.draw(f, self._rng) for _ in range(DRAWN)))
        if (here := self._descent.here) is not None and here.template == f.index:
            found.update(dict.fromkeys(self._points.beside(here)))
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
