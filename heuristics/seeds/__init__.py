"""Seed schedules: good answers with no search."""

from .gathered import seeds
from .quick import quick_seeds

__all__ = ["quick_seeds", "seeds"]
