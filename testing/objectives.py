"""What every objective promises, as tests that its author inherits.

    class TestMine(ObjectiveTestCase):
        def objective(self):
            return Mine()

`cache.objective_types.Objective` says what is read; `docs/energy.md` shows a whole one."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from typing import TYPE_CHECKING

from ..cache.objective_types import objective, register_objective
from ..measure.outcome import EnergyUse, Measurement, Outcome

if TYPE_CHECKING:
    from ..cache.objective_types import Objective


class ObjectiveTestCase:
    """Derive a class whose name begins with Test, and give it `objective`."""

    @abstractmethod
    def objective(self) -> Objective:
        """A fresh objective."""

    def measurements(self) -> list[Measurement]:
        """What is given to it: calls of 1 us to 1 s, with and without memory of their own."""
        used = EnergyUse(1e-3, 0.01, 3, 300, 0.02, 50.0, None, "made up") if self.objective().reads_energy else None
        every = itertools.product((1e-6, 1e-3, 1.0), (1.0, 1.5), (0, 4096), (0.0, 2.0))
        return [
            Measurement((), Outcome.ok, t, t * typical, 9, build_s=build, scratch=scratch, energy=used)
            for t, typical, scratch, build in every
        ]

    def test_its_name_stands_in_keys(self) -> None:
        register_objective(self.objective())
        assert objective(self.objective().name) == self.objective().name

    def test_every_right_measurement_has_a_figure(self) -> None:
        for m in self.measurements():
            said = self.objective().value(m)
            assert math.isfinite(said) and said >= 0, f"{said} of {m}"

    def test_the_same_measurement_has_the_same_figure(self) -> None:
        first, again = self.objective(), self.objective()
        assert [first.value(m) for m in self.measurements()] == [again.value(m) for m in reversed(self.measurements())][::-1]

    def test_it_tells_schedules_apart(self) -> None:
        assert len({self.objective().value(m) for m in self.measurements()}) > 1, "every measurement has the same figure"

    def test_figures_are_over_per_second_of_the_size_of_seconds(self) -> None:
        mine = self.objective()
        told = [mine.value(m) / mine.per_second for m in self.measurements() if m.t_min == 1.0]
        assert mine.close >= 1 and 1e-6 <= max(told) <= 1e6, (
            f"per_second {mine.per_second} is far from the figure of a second's call, {max(told)}"
        )
