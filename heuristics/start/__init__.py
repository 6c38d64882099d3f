"""Start schedules: good answers with no search."""

from .gathered import starts
from .quick import quick_starts
from .ranked import ranked_starts

__all__ = ["quick_starts", "ranked_starts", "starts"]
