"""Interval arithmetic: the interval of an operator's exact result, from those of its operands. None: nothing is known.

The rules are of whole numbers; those of `add` to `where` are of floats as well: an end may be infinite, and is NaN where nothing is known. A division by 0 gives 0, and a
shift by all bits or more leaves nothing but the sign. (R. E. Moore, "Interval Analysis", 1966.)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Ends = tuple[Any, Any]
"""The least and the largest number, both included."""
Rule = Callable[..., "Ends | None"]
_FARTHEST = 63
"""The largest distance of a shift that numbers are moved by here."""


def _corners(op: Callable[[Any, Any], Any]) -> Callable[[Ends, Ends], Ends]:
    """The rule of an operation that is monotonic in each operand; NaN where a corner is."""

    def rule(x: Ends, y: Ends) -> Ends:
        ends = [op(a, b) for a in x for b in y]
        return next(((e, e) for e in ends if e != e), (min(ends), max(ends)))

    return rule


product = _corners(lambda a, b: a * b)
_divided, _moved_down, _moved_up = _corners(lambda a, b: a // b), _corners(lambda a, k: a >> k), _corners(lambda a, k: a << k)


def union(x: Ends, y: Ends) -> Ends:
    """The least interval that has both."""
    return min(x[0], y[0]), max(x[1], y[1])


def size(x: Ends) -> Ends:
    """Of the absolute values."""
    return max(0, x[0], -x[1]), max(x[1], -x[0])


def _and(x: Ends, y: Ends) -> Ends | None:
    tops = [r[1] for r in (x, y) if r[0] >= 0]
    return (0, min(tops)) if tops else None


def _bits(x: Ends, y: Ends) -> Ends | None:
    """`or` and `xor` set no bit above the highest of either."""
    return (0, (1 << max(x[1], y[1]).bit_length()) - 1) if min(x[0], y[0]) >= 0 else None


def _right(x: Ends, y: Ends) -> Ends | None:
    if x[0] >= 0 and y[0] >= 0:
        return x[0] >> min(y[1], _FARTHEST + 1), x[1] >> min(y[0], _FARTHEST + 1)
    return _moved_down(x, y) if y[0] >= 0 and y[1] <= _FARTHEST else None


def _left(x: Ends, y: Ends) -> Ends | None:
    return _moved_up(x, y) if y[0] >= 0 and y[1] <= _FARTHEST else None


def _quotient(x: Ends, y: Ends) -> Ends | None:
    if y[0] > 0:
        return _divided(x, y)
    return (0, x[1] // max(1, y[0])) if x[0] >= 0 and y[0] >= 0 else None


def _remainder(x: Ends, y: Ends) -> Ends | None:
    if y[0] == y[1] > 0 and x[0] // y[0] == x[1] // y[0]:
        return x[0] % y[0], x[1] % y[0]
    most = max(0, y[1] - 1)
    return (0, min(most, x[1]) if x[0] >= 0 else most) if y[0] >= 0 else None


INTERVALS: Mapping[str, Rule] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": product,
    "neg": lambda x: (-x[1], -x[0]),
    "abs": size,
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "where": lambda *of: union(*of[-2:]),
    "floordiv": _quotient,
    "remainder": _remainder,
    "and": _and,
    "or": _bits,
    "xor": _bits,
    "shl": _left,
    "shr": _right,
}
"""By operator."""
