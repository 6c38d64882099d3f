"""What a run on a fleet keeps of its entries: those that wait, and those that are under way."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..cache.keys import Key
    from ..search.manifest.manifest import Entry
    from .seam import FleetSlot, Running

WAIT_S = 30.0
"""How long an entry waits for a slot that was there and is gone: a worker that died is started again in a second."""


@dataclass(eq=False)
class UnderWay:
    """An entry on a slot, for whoever shows it. `counts`: candidates by outcome; `top`: what is known of the best so far (t_min in
    seconds, gflops, gbytes_s, roofline_pct, opts in short form); `began`: a moment on the clock; `attempt`: 1 or 2."""

    entry: Entry
    slot: FleetSlot
    share: float | None
    trials: int | None
    began: float
    attempt: int = 1
    phase: str = "sent"
    counts: Counter[str] = field(default_factory=Counter)
    top: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FleetOptions:
    """As `tune_all`'s: the budget of all in seconds (None: each entry has its own), measurements of each entry, whether what is cached
    is tuned too, and a strategy that goes before what the manifest says."""

    seconds: float | None = None
    trials: int | None = None
    again: bool = False
    strategy: str | None = None
    wait_s: float = WAIT_S
    clock: Callable[[], float] = time.monotonic


@dataclass(eq=False)
class Todo:
    """An entry that is still to be tuned; `i`: its place in the manifest."""

    i: int
    entry: Entry
    attempt: int = 1
    without_s: float | None = None
    """Since when no slot fits."""


@dataclass(eq=False)
class Sent:
    """An entry that a slot has."""

    todo: Todo
    running: Running
    key: Key
    shown: UnderWay
