"""Intervals of integers: what an operator makes of its operands' ends."""

from __future__ import annotations

Interval = tuple[int, int]
"""The least and the largest number, both included."""
BIG = 1 << 62
"""Ends of this size say that nothing is known."""


def integer_bounds(op: str, x: Interval, y: Interval) -> Interval:
    """The interval of an operator of integers; division by 0 gives 0."""
    positive = x[0] >= 0 and y[0] >= 0
    if op == "and" and max(x[0], y[0]) >= 0:
        return 0, min(r[1] for r in (x, y) if r[0] >= 0)
    if op in ("or", "xor") and positive:
        return 0, (1 << max(x[1], y[1]).bit_length()) - 1
    if op == "shr" and positive:
        return 0, x[1] >> min(y[0], 64)
    if op == "floordiv" and positive:
        return 0, x[1] // max(1, y[0])
    if op == "remainder" and y[0] >= 0:
        return 0, min(max(0, y[1] - 1), x[1]) if x[0] >= 0 else max(0, y[1] - 1)
    return -BIG, BIG
