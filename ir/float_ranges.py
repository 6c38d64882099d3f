"""The interval of a float expression, where limits are written down: what is clipped, rounded, or read from a stated range."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, inf, trunc

from .buffer import load_parts
from .index import BIG
from .integer_ranges import value_range
from .node import Node, pending

Floats = tuple[float, float]
"""The least and the largest value, both included, rounding set aside; NaN, which any operand may be, is never in it."""
NOTHING_KNOWN: Floats = (-inf, inf)
_WHOLE: dict[str, Callable[[float], int]] = {"floor": floor, "trunc": trunc, "round": round}


def float_range(n: Node) -> Floats:
    """Which values a float expression can have, but for NaN and what rounding adds (memoised)."""
    for m in pending(n, lambda m: "floats" in m._memo or not m.dtype.is_float):
        m._memo["floats"] = _range(m)
    found: Floats = n._memo["floats"] if n.dtype.is_float else _of_integer(n)
    return found


def _of_integer(n: Node) -> Floats:
    low, high = value_range(n)
    return (-inf if low <= -BIG else low, inf if high >= BIG else high)


def _range(n: Node) -> Floats:
    if n.op == "const":
        return (n.arg, n.arg) if n.arg == n.arg else NOTHING_KNOWN
    if n.op == "load":
        stated, mask = load_parts(n)[0].range, load_parts(n)[2]
        if stated is None:
            return NOTHING_KNOWN
        return (stated[0], stated[1]) if mask is None else (min(0.0, stated[0]), max(0.0, stated[1]))
    if n.op == "cast":
        return float_range(n.src[0])
    if n.op in ("max", "min"):
        (a, b), (c, d) = map(float_range, n.src)
        pick = max if n.op == "max" else min
        return pick(a, c), pick(b, d)
    if n.op == "where":
        (a, b), (c, d) = map(float_range, n.src[1:])
        return min(a, c), max(b, d)
    if n.op in _WHOLE:
        low, high = float_range(n.src[0])
        return (low if low == -inf else float(_WHOLE[n.op](low)), high if high == inf else float(_WHOLE[n.op](high)))
    return _computed(n)


def _computed(n: Node) -> Floats:
    if n.op not in ("add", "sub", "mul", "neg", "abs"):
        return NOTHING_KNOWN
    x = float_range(n.src[0])
    if n.op == "neg":
        return -x[1], -x[0]
    if n.op == "abs":
        return max(0.0, x[0], -x[1]), max(-x[0], x[1])
    y = float_range(n.src[1])
    if n.op == "add":
        ends = [x[0] + y[0], x[1] + y[1]]
    elif n.op == "sub":
        ends = [x[0] - y[1], x[1] - y[0]]
    else:
        ends = [a * b for a in x for b in y]
    return (min(ends), max(ends)) if all(e == e for e in ends) else NOTHING_KNOWN
