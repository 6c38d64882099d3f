"""The analytic model: how long a schedule takes, from its structure and the target alone."""

from .cpu import estimate

__all__ = ["estimate"]
