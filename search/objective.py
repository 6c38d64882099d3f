"""What a search makes small (`cache.objective_types`), as its parts need it: a score for strategies, who may win, who is kept, what a duel compares.

Strategies and limits reckon in seconds, so a score is of that size: joules count as seconds at 100 W, and bytes of scratch memory make a
time longer, by as much again for every 64 KiB. It only guides. The finals decide by the objective itself. Of time and energy the
score is the geometric mean, the root of the energy-delay product (M. Horowitz et al., "Low-power digital design", 1994)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from ..cache.objective_types import ENERGIES, TIME, Objective, own
from ..cache.objective_types import objective as named
from ..ir.errors import UsageError
from .result import value_text

if TYPE_CHECKING:
    from ..devices import Device
    from ..measure import Measurement
    from .budget import Budget
    from .finals import Finalist

WATTS = 100.0
SCRATCH = 64 << 10
KEPT = 12
"""Builds of the best candidates kept for the finals."""
FRONT = 12
"""The same for a front."""
CLOSE = 1.02
"""Times and energies within this ratio are equal, where a front is drawn from single measurements."""
F = TypeVar("F", bound="Finalist")


@dataclass(frozen=True)
class SearchObjective:
    """The objective, as `cache.objective_types.objective` writes it."""

    text: str = TIME

    @property
    def names(self) -> tuple[str, ...]:
        """One objective, or the two of a front."""
        return tuple(self.text.split(","))

    @property
    def front(self) -> bool:
        """Whether there are two."""
        return len(self.names) == 2

    @property
    def own(self) -> Objective | None:
        """The objective of somebody's own that this is."""
        return own(self.text)

    @property
    def energy(self) -> str:
        """What has to be measured beside the time: '', 'energy' or 'dynamic-energy'."""
        mine = "energy" if self.own is not None and self.own.reads_energy else ""
        return next((n for n in self.names if n in ENERGIES), mine)

    @property
    def room(self) -> float | None:
        """The ratio within which two figures are equal, so that the time decides; None where the finals compare what is made small in pairs."""
        return self.own.close if self.own is not None else 1.0 if self.first == "scratch" else None

    @property
    def first(self) -> str:
        """What the finals decide about: of a front, the first objective."""
        return self.names[0]

    # measurements ---------------------------------------------------------------------------------------------------
    def able(self, m: Measurement) -> bool:
        """Whether everything was measured that the objective is about."""
        if m.t_min is None or (self.energy and m.energy is None) or ("scratch" in self.names and m.scratch is None):
            return False
        return self.own is None or math.isfinite(self.own.figure(m))

    def value(self, m: Measurement, name: str) -> float:
        """Seconds, joules, bytes, or a figure of somebody's own. Where joules are not known (of what was rejected as slow), those at 100 W."""
        if self.own is not None and name == self.text:
            return self.own.figure(m) if m.t_min is not None and (not self.own.reads_energy or m.energy is not None) else math.inf
        if name in ENERGIES:
            return (m.t_min or math.inf) * WATTS if m.energy is None else m.energy.joules
        return float(m.scratch or 0) if name == "scratch" else m.t_min or math.inf

    def said(self, value: float) -> str:
        """A figure of what is not compared in pairs, for a reader: `4096 bytes`, or with the unit that somebody's own objective states."""
        return f"{value:.0f} bytes" if self.own is None else value_text(self.text, value)

    def values(self, m: Measurement) -> tuple[float, ...]:
        """The values of every objective, in their order."""
        return tuple(self.value(m, n) for n in self.names)

    def logs(self, m: Measurement) -> tuple[float, ...]:
        """The same as logarithms, for samplers that fit differences; of bytes, which may be none, of one more."""
        return tuple(math.log1p(v) if n == "scratch" else math.log(v) for n, v in zip(self.names, self.values(m), strict=True))

    def scored(self, m: Measurement) -> Measurement:
        """The measurement, with the score that strategies see in the place of the time."""
        return m if self.text == TIME or m.t_min is None else replace(m, score=self._score(m))

    def _score(self, m: Measurement) -> float:
        if self.own is not None:
            return max(self.value(m, self.text) / self.own.per_second, 1e-12)
        sizes = [self.value(m, n) / (WATTS if n in ENERGIES else 1.0) for n in self.names if n != "scratch"] or [m.t_min or math.inf]
        more = 1 + (m.scratch or 0) / SCRATCH if "scratch" in self.names else 1.0
        return float(more * math.prod(sizes) ** (1 / len(sizes)))

    # finalists ------------------------------------------------------------------------------------------------------
    def decides(self, m: Measurement) -> float | None:
        """What the finals compare in the place of the time; None: the time."""
        return self.value(m, self.first) / WATTS if self.first in ENERGIES else None

    def kept(self, found: Sequence[F]) -> list[F]:
        """Those of the builds so far that may still win, at most some."""
        if self.front:
            ends = sorted(found, key=lambda f: f.t)[:2]
            members = self.members(found, exact=True)
            return list({id(f): f for f in (*ends, *members[:: max(1, -(-len(members) // FRONT))], *members[-1:])}.values())
        return self.ranked(found)[:KEPT]

    def ranked(self, found: Sequence[F]) -> list[F]:
        """The best first."""
        if self.room is not None:
            return sorted(found, key=lambda f: (self.value(f.measurement, self.first), f.t))
        return sorted(found, key=lambda f: f.t)

    def rivals(self, found: Sequence[F]) -> list[F]:
        """Those among whom a duel has to decide: of scratch memory, which is no matter of chance, those with the least."""
        if self.room is None or not found:
            return list(found)
        most = self.room * min(self.value(f.measurement, self.first) for f in found)
        return [f for f in found if self.value(f.measurement, self.first) <= most]

    def members(self, found: Sequence[F], exact: bool = False) -> list[F]:
        """The front of two: finalists to which no other is equal or better in both. `exact`: however small the difference."""
        a, b = self.names
        out: list[F] = []
        for f in sorted(found, key=lambda f: self.values(f.measurement)):
            if not self.able(f.measurement):
                continue
            worst = [o for o in out if self._close(o.measurement, f.measurement, b, exact)]
            if worst:
                continue
            # as good in the first objective, within the noise, and plainly better in the second
            if not exact:
                out = [o for o in out if not self._close(f.measurement, o.measurement, a, False)]
            out.append(f)
        return out

    def clearly(self, better: Measurement, m: Measurement, name: str) -> bool:
        """Whether one is better than the other in this objective, by more than the noise."""
        return not self._close(m, better, name, False)

    def _close(self, better: Measurement, m: Measurement, name: str, exact: bool) -> bool:
        """Whether one is no worse than the other, in this objective."""
        room = 1.0 if exact or name == "scratch" else CLOSE
        return self.value(better, name) <= room * self.value(m, name)


def check(objective: str | Sequence[str], strategy: str, study: str | None, limit: Budget) -> None:
    """Raise UsageError where a strategy, a study or a limit has no meaning for an objective."""
    aim = SearchObjective(named(objective))
    if aim.text == TIME:
        return
    if limit.stop_at is not None:
        raise UsageError("stop_at is a share of the roofline, which is about the time: leave it out, or search for the time")
    if aim.front and strategy == "optuna:cmaes":
        raise UsageError("optuna:cmaes makes one thing small: use optuna:nsga2, optuna:tpe or another for a front of two")
    if study is not None:
        raise UsageError("a study holds times: leave --study out, or search for the time alone")


def measurable(objective: str, device: Device, elsewhere: bool) -> SearchObjective:
    """The aim of a search that is about to measure, `elsewhere` than on this machine's own device. Raises UsageError, or DeviceError
    where energy cannot be read."""
    aim = SearchObjective(objective)
    if aim.energy and elsewhere:
        raise UsageError("energy is measured on this machine's own devices only, not on a fleet's: search for the time there")
    if aim.energy:
        from ..measure.energy import check_energy as readable

        readable(device)
    return aim
