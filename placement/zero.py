"""Where parameters, gradients and optimiser state lie over data-parallel devices: ZeRO's stages (arXiv 1910.02054) as placements."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import PlanError


@dataclass(frozen=True)
class StatePlacement:
    """What is split over devices, each of which holds the rest whole."""

    state: bool = False
    gradients: bool = False
    parameters: bool = False

    def memory(self, n: int, parameters: float, gradients: float, state: float) -> float:
        """Bytes on each of `n` devices, of so many bytes in all."""
        parts = ((self.state, state), (self.gradients, gradients), (self.parameters, parameters))
        return sum(nbytes / n if split else nbytes for split, nbytes in parts)

    def sent(self, parameters: float) -> float:
        """Bytes of a step, in units of parameters, as the paper counts (a ring's (n - 1)/n is 1): gradients are added up and scattered, and
        parameters gathered after the update; those that are split are gathered in both passes instead."""
        return (3 if self.parameters else 2) * parameters


STAGES = (
    StatePlacement(),
    StatePlacement(state=True),
    StatePlacement(state=True, gradients=True),
    StatePlacement(state=True, gradients=True, parameters=True),
)


def zero_stage(k: int) -> StatePlacement:
    """ZeRO's stage 0 to 3. Raises PlanError."""
    if not 0 <= k < len(STAGES):
        raise PlanError(f"ZeRO has the stages 0 to 3, not {k}")
    return STAGES[k]
