"""The measurer of a source's configurations: builders, runner and checks are those of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..measure.measurer import Measurer
from ..measure.processes.runner_setup import Data
from ..search.prepared import build_deadline_s
from . import building, preparing

if TYPE_CHECKING:
    from ..ir.kernel import Kernel
    from ..search.budget import Budget

LEAST_S, MOST_S = 2.0, 10.0
"""Seconds that a call may take, at least and at most."""


class SourceMeasurer(Measurer):
    """Builds, verifies and times configurations of a `SourceTask`."""

    def __init__(self, task: building.SourceTask, what: Any, budget: Budget, seed: int, hashed: bool = False) -> None:
        """`what` has the `device` (a SourceDevice) and the `threads`. One endless loop must not cost the whole budget."""
        deadline = MOST_S if budget.seconds is None else min(MOST_S, max(LEAST_S, budget.seconds / 6))
        # to a measurer its kernel is opaque: `build` and `prepare` alone look inside
        kernel = cast("Kernel", task)
        told: dict[str, Any] = {"compile": building.build, "prepare": preparing.prepare, "hash_outputs": hashed}
        told["build_deadline_s"] = build_deadline_s(budget)
        super().__init__(kernel, what.device, what.threads, seed=seed, deadline_s=deadline, **told)

    def _second_data(self, flushes: bool, regroups: bool) -> list[Data]:
        """Other inputs of the kinds that the user chose, and many runs that must give the same bits."""
        return [Data(self.seed + 1, preparing.AGAIN)]
