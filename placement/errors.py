"""The error of this room."""

from __future__ import annotations

from ..ir.errors import UsageError


class PlanError(UsageError):
    """A plan over devices, or a pipeline schedule, is malformed, cannot be carried out, or does not fit."""
