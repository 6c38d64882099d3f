"""The error of this room."""

from __future__ import annotations

import math

from ..ir.errors import UsageError


class PlanError(UsageError):
    """A plan over devices, or a pipeline schedule, is malformed, cannot be carried out, or does not fit."""


class MemoryLimitError(PlanError):
    """Nothing fits into a limit of memory: `least` bytes a device would."""

    def __init__(self, text: str, least: float) -> None:
        super().__init__(text)
        self.least = least


def rounded_up(nbytes: float) -> int:
    """Bytes, rounded up but for errors of rounding."""
    return math.ceil(nbytes * (1 - 1e-12))
