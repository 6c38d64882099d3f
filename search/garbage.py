"""Python looks through all young objects for cycles after every 700 new ones, and now and then through all objects. A search makes
many that stay (states, schedules) and hardly a cycle: a tenth of its own time went into that."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 50_000
"""New objects after which the youngest are looked through."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Inside, cycles are looked for less often, unless whoever runs this process said that they never are, or even less often."""
    before = gc.get_threshold()
    if 0 < before[0] < OBJECTS:
        gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
