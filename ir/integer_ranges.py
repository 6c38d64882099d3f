"""The interval of an integer expression: which values it can have, by the ranges of what it reads and by its operators."""

from __future__ import annotations

from collections.abc import Callable

from . import index as ix
from .buffer import load_parts
from .dtypes import DType, bool_, index
from .intervals import BIG, Interval, integer_bounds
from .node import Node, pending
from .rewrite import rounded


def value_range(n: Node) -> Interval:
    """The exact values that an integer, an index or a bool (as 0 and 1) can have (memoised)."""
    for m in pending(n, lambda m: "range" in m._memo):
        m._memo["range"] = _range(m)
    found: Interval = n._memo["range"]
    return found


def whole(dtype: DType) -> Interval:
    """All values of an integer type."""
    bits = 8 * dtype.size
    return (0, (1 << bits) - 1) if dtype.kind == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def inside(x: Interval, dtype: DType) -> bool:
    """Whether a type has all values of an interval."""
    low, high = whole(dtype)
    return low <= x[0] and x[1] <= high


def magnitude_of(n: Node) -> Node | None:
    """x, where an expression is the larger of x and −x; else None."""
    if n.op != "max":
        return None
    return next((a for a, b in (n.src, n.src[::-1]) if b.op == "neg" and b.src[0] is a), None)


def _range(n: Node) -> Interval:
    if n.dtype is bool_:
        return 0, 1
    if n.dtype is index:
        return ix.bounds(n)
    if not n.dtype.is_int:
        return -BIG, BIG
    every = whole(n.dtype)
    found = every
    if n.op == "const":
        found = (int(rounded(n.arg, n.dtype)),) * 2
    elif n.op == "load":
        stated = load_parts(n)[0].range
        found = every if stated is None else (int(stated[0]), int(stated[1]))
        if load_parts(n)[2] is not None:  # 0 under a mask that does not hold
            found = min(0, found[0]), max(0, found[1])
    elif n.op == "cast":
        found = value_range(n.src[0])
    elif n.op in _RESULT:
        found = _RESULT[n.op](n)
    return found if inside(found, n.dtype) else every


def _corners(n: Node, of: Callable[[int, int], int]) -> Interval:
    x, y = map(value_range, n.src)
    ends = [of(a, b) for a in x for b in y]
    return min(ends), max(ends)


def _add(n: Node) -> Interval:
    x, y = map(value_range, n.src)
    found, mean = (x[0] + y[0], x[1] + y[1]), _mean(n)
    return found if mean is None else (max(found[0], mean[0]), min(found[1], mean[1]))


def _sub(n: Node) -> Interval:
    x, y = map(value_range, n.src)
    return x[0] - y[1], x[1] - y[0]


def _neg(n: Node) -> Interval:
    low, high = value_range(n.src[0])
    return -high, -low


def _abs(n: Node) -> Interval:
    return _size(*value_range(n.src[0]))


def _size(low: int, high: int) -> Interval:
    return max(0, low, -high), max(high, -low)


def _extreme(n: Node) -> Interval:
    both = magnitude_of(n)
    low, high = value_range(n.src[0] if both is None else both)
    if both is not None and -low <= whole(n.dtype)[1]:  # (−x wraps for the least number)
        return _size(low, high)
    pick, other = max if n.op == "max" else min, value_range(n.src[1])
    x = value_range(n.src[0])
    return pick(x[0], other[0]), pick(x[1], other[1])


def _shift(n: Node) -> Interval:
    y = value_range(n.src[1])
    if not 0 <= y[0] <= y[1] < 8 * n.dtype.size:
        return integer_bounds(n.op, *map(value_range, n.src))
    return _corners(n, (lambda a, k: a << k) if n.op == "shl" else lambda a, k: a >> k)


def _floordiv(n: Node) -> Interval:
    x, y = map(value_range, n.src)
    return _corners(n, lambda a, b: a // b) if y[0] > 0 else integer_bounds(n.op, x, y)


def _not(n: Node) -> Interval:
    low, high = value_range(n.src[0])
    ones = whole(n.dtype)[1] if n.dtype.kind == "u" else -1
    return ones - high, ones - low


def _where(n: Node) -> Interval:
    x, y = map(value_range, n.src[1:])
    return min(x[0], y[0]), max(x[1], y[1])


def _bits(n: Node) -> Interval:
    x, y = map(value_range, n.src)
    return integer_bounds(n.op, x, y)


def _count(n: Node) -> Interval:
    low, high = value_range(n.src[0])
    bits = 8 * n.dtype.size
    if low < 0:
        return 0, bits
    return (0, high.bit_length()) if n.op == "popcount" else (bits - high.bit_length(), bits - low.bit_length())


_RESULT: dict[str, Callable[[Node], Interval]] = {
    "add": _add,
    "sub": _sub,
    "mul": lambda n: _corners(n, lambda a, b: a * b),
    "neg": _neg,
    "abs": _abs,
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("and", "or", "xor", "remainder"), _bits),
    "floordiv": _floordiv,
    "not": _not,
    "where": _where,
    **dict.fromkeys(("popcount", "clz"), _count),
}
"""The interval of an operator's exact result, which may not fit its type."""


def _mean(n: Node) -> Interval | None:
    """The interval of a·(c − t) + b·t with 0 <= t <= c, which lies between c·a and c·b; None for what is no such sum."""
    if any(s.op != "mul" for s in n.src):
        return None
    p, q = (s.src for s in n.src)
    for a, rest in (p, p[::-1]):
        for b, t in (q, q[::-1]):
            for less, more in ((rest, t), (t, rest)):
                if less.op == "sub" and less.src[1] is more and less.src[0].op == "const":
                    c = int(less.src[0].arg)
                    low, high = value_range(more)
                    if low >= 0 and high <= c:
                        ends = [c * end for x in (a, b) for end in value_range(x)]
                        return min(ends), max(ends)
    return None
