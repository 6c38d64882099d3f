"""Places in several dimensions as single numbers, so that the many places of register copies are counted quickly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

DIGIT = 32
"""Bits that a dimension has in the number of a place."""
_FAR, _BESIDE = 12, 6


def as_number(at: Sequence[int]) -> int:
    """A place as one number. Sums of places are sums of their numbers, and different places (of less than 2³¹ in each dimension) have
    different numbers."""
    total = 0
    for k in at:
        total = (total << DIGIT) + k
    return total


def anywhere(direction: int) -> int:
    """How far copies are apart whose places data decides: further than others, in each of a few directions further than in the one before."""
    return 1 << _FAR + _BESIDE * direction


@cache
def offsets(steps: tuple[int, ...], counts: tuple[int, ...]) -> tuple[int, ...]:
    """How far copies are apart from the first, as numbers: `counts` of them in each direction, each `steps` from the one before."""
    out = {0}
    for step, count in zip(steps, counts, strict=True):
        out = {k + step * i for k in out for i in range(count)}
    return tuple(out)
