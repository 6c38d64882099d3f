"""Seed schedules: good answers with no search."""

from .gathered import seeds
from .quick import quick_seeds
from .ranked import ranked_seeds

__all__ = ["quick_seeds", "ranked_seeds", "seeds"]
