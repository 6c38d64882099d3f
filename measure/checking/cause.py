"""What a wrong element looks like, in words: its likely cause."""

from __future__ import annotations

from math import isfinite, isinf, isnan

NEAR = 64.0
"""Up to so many times its bound an error may still be one of rounding."""
RACE = "the same inputs gave other bits: threads race, or memory is read before it is written"


def cause(got: float, value: float, worst: float, missing: int, bad: int) -> str:
    """Why an element may be `got` where `value` is expected, `worst` times its bound away; of `bad` wrong elements
    `missing` hold what the output began with."""
    if missing == bad:
        return "nothing was stored there"
    if isfinite(value):
        if isnan(got):
            return "NaN comes of memory that was never written, or of inf - inf, 0 * inf or 0 / 0 after a value on the way overflowed"
        if isinf(got):
            return "a value on the way overflows its type"
    elif isfinite(got):
        return "the kernel as written gives no number there, for these inputs: is it meant for others (kb.input(..., range=...))?"
    if worst <= NEAR:
        return "just outside what rounding explains: many roundings one after the other, or large terms that cancel"
    return "another element was read or stored, a part was left out or counted twice, or threads race"
