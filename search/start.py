"""What a tuning run is given to start with, and what a strategy was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .space import Schedule, State


@dataclass(frozen=True, slots=True)
class Start:
    """A schedule measured before the search; `origin` is 'seed' (what is used without tuning; the answer must beat
    the best of these) or 'stored'."""

    opts: Schedule
    origin: str = "seed"


@dataclass(frozen=True, slots=True)
class Asked:
    """A schedule that a strategy asked for, and which one that was."""

    state: State
    by: str
