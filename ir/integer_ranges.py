"""The interval of an integer expression: which values it can have, by the ranges of what it reads and by its operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor, inf, prod, trunc

from . import index as ix
from .body import Reduce, Value
from .buffer import load_parts
from .dtypes import DType, bool_, index, rounded
from .index import BIG, Interval, integer_bounds, split_remainders
from .kernel import Kernel
from .node import Node, pending

Of = Callable[[Node], Interval]


def value_range(n: Node) -> Interval:
    """The exact values that an integer, an index or a bool (as 0 and 1) can have (memoised)."""
    for m in pending(n, lambda m: "range" in m._memo):
        m._memo["range"] = _range(m, value_range)
    found: Interval = n._memo["range"]
    return found


class KernelRanges:
    """The same of expressions of one kernel, of whose values some are known: `refs` has their intervals by name."""

    def __init__(self, refs: Mapping[str, Interval]) -> None:
        self.refs = refs
        self._found: dict[Node, Interval] = {}

    def __call__(self, n: Node) -> Interval:
        """The exact values that `n` can have."""
        if not self.refs:
            return value_range(n)
        for m in pending(n, self._found.__contains__):
            self._found[m] = self.refs[m.arg] if m.op == "ref" and m.arg in self.refs else _range(m, self)
        return self._found[n]


def whole(dtype: DType) -> Interval:
    """All values of an integer type."""
    bits = 8 * dtype.size
    return (0, (1 << bits) - 1) if dtype.kind == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def inside(x: Interval, dtype: DType) -> bool:
    """Whether a type has all values of an interval."""
    low, high = whole(dtype)
    return low <= x[0] and x[1] <= high


def exact(n: Node, of: Of = value_range) -> bool:
    """Whether an operator's result is what it is in whole numbers: its type has all of them, so nothing wraps."""
    return n.op not in _RESULT or inside(_RESULT[n.op](n, of), n.dtype)


def magnitude_of(n: Node) -> Node | None:
    """x, where an expression is the larger of x and −x; else None."""
    if n.op != "max":
        return None
    return next((a for a, b in (n.src, n.src[::-1]) if b.op == "neg" and b.src[0] is a), None)


def _range(n: Node, of: Of) -> Interval:
    if n.dtype is bool_:
        return 0, 1
    if n.dtype is index:
        known, found = ix.bounds(n), _index_range(n, of)
        return max(known[0], found[0]), min(known[1], found[1])
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
        found = of(n.src[0])
    elif n.op in _RESULT:
        found = _RESULT[n.op](n, of)
    return found if inside(found, n.dtype) else every


def _index_range(n: Node, of: Of) -> Interval:
    """The interval of an index, by those of what it is made of: data has been computed in other types."""
    every = (-BIG, BIG)
    if n.op == "sum":
        left, terms, c = split_remainders(n)
        ends = [sorted((k * a, k * b)) for t, k in terms.items() for a, b in (of(t),)]
        ends += [[0, times * (t.arg - 1)] for t, times in left]
        found = c + sum(low for low, _ in ends), c + sum(high for _, high in ends)
    elif n.op == "prod":
        found = of(n.src[0])
        for s in n.src[1:]:
            ends = [[a * b] for a in found for b in of(s)]
            found = min(ends)[0], max(ends)[0]
    elif n.op == "div":
        low, high = of(n.src[0])
        found = low // n.arg, high // n.arg
    elif n.op == "cast" and not n.src[0].dtype.is_float:
        found = of(n.src[0])
    elif n.op in _RESULT:
        found = _RESULT[n.op](n, of)
    else:
        return every
    return (max(found[0], -BIG), min(found[1], BIG)) if inside(found, index) else every


def _corners(n: Node, of: Of, op: Callable[[int, int], int]) -> Interval:
    x, y = map(of, n.src)
    ends = [op(a, b) for a in x for b in y]
    return min(ends), max(ends)


def _add(n: Node, of: Of) -> Interval:
    x, y = map(of, n.src)
    found, mean = (x[0] + y[0], x[1] + y[1]), _mean(n, of)
    return found if mean is None else (max(found[0], mean[0]), min(found[1], mean[1]))


def _sub(n: Node, of: Of) -> Interval:
    x, y = map(of, n.src)
    return x[0] - y[1], x[1] - y[0]


def _neg(n: Node, of: Of) -> Interval:
    low, high = of(n.src[0])
    return -high, -low


def _abs(n: Node, of: Of) -> Interval:
    return _size(*of(n.src[0]))


def _size(low: int, high: int) -> Interval:
    return max(0, low, -high), max(high, -low)


def _extreme(n: Node, of: Of) -> Interval:
    both = magnitude_of(n)
    low, high = of(n.src[0] if both is None else both)
    if both is not None and -low <= whole(n.dtype)[1]:  # (−x wraps for the least number)
        return _size(low, high)
    pick, other = max if n.op == "max" else min, of(n.src[1])
    x = of(n.src[0])
    return pick(x[0], other[0]), pick(x[1], other[1])


def _shift(n: Node, of: Of) -> Interval:
    y = of(n.src[1])
    if not 0 <= y[0] <= y[1] < 8 * n.dtype.size:
        return integer_bounds(n.op, *map(of, n.src))
    return _corners(n, of, (lambda a, k: a << k) if n.op == "shl" else lambda a, k: a >> k)


def _floordiv(n: Node, of: Of) -> Interval:
    x, y = map(of, n.src)
    return _corners(n, of, lambda a, b: a // b) if y[0] > 0 else integer_bounds(n.op, x, y)


def _not(n: Node, of: Of) -> Interval:
    low, high = of(n.src[0])
    ones = whole(n.dtype)[1] if n.dtype.kind == "u" else -1
    return ones - high, ones - low


def _where(n: Node, of: Of) -> Interval:
    x, y = map(of, n.src[1:])
    return min(x[0], y[0]), max(x[1], y[1])


def _bits(n: Node, of: Of) -> Interval:
    x, y = map(of, n.src)
    return integer_bounds(n.op, x, y)


def _count(n: Node, of: Of) -> Interval:
    low, high = of(n.src[0])
    bits = 8 * n.dtype.size
    if low < 0:
        return 0, bits
    return (0, high.bit_length()) if n.op == "popcount" else (bits - high.bit_length(), bits - low.bit_length())


_RESULT: dict[str, Callable[[Node, Of], Interval]] = {
    "add": _add,
    "sub": _sub,
    "mul": lambda n, of: _corners(n, of, lambda a, b: a * b),
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


def _mean(n: Node, of: Of) -> Interval | None:
    """The interval of a·(c − t) + b·t with 0 <= t <= c, which lies between c·a and c·b; None for what is no such sum."""
    if any(s.op != "mul" for s in n.src):
        return None
    p, q = (s.src for s in n.src)
    for a, rest in (p, p[::-1]):
        for b, t in (q, q[::-1]):
            for less, more in ((rest, t), (t, rest)):
                if less.op == "sub" and less.src[1] is more and less.src[0].op == "const":
                    c = int(less.src[0].arg)
                    low, high = of(more)
                    if low >= 0 and high <= c:
                        ends = [c * end for x in (a, b) for end in of(x)]
                        return min(ends), max(ends)
    return None


def ranges_of(kernel: Kernel) -> Mapping[str, Interval]:
    """The interval of each integer value of which more is known than its type, by name."""
    found: dict[str, Interval] = {}
    for item in kernel.body:
        if isinstance(item, Value) and item.dtype.is_int and item.dtype is not index:
            known = interval(item, KernelRanges(dict(found)))
            if known is not None and inside(known, item.dtype):
                found[item.name] = known
    return found


def interval(v: Value, of: KernelRanges) -> Interval | None:
    """The interval of what a value sums up or computes, whether its type has it or not; None of what is no such value."""
    if isinstance(v.expr, Node):
        return of(v.expr)
    if not isinstance(v.expr, Reduce):
        return None
    low, high = of(v.expr.expr)
    extents = [value_range_of(a) for a in v.expr.axes]
    if v.expr.combine == "add":
        most = prod(max(0, high) for _, high in extents)
        return min(0, low * most), max(0, high * most)
    if v.expr.combine in ("max", "min") and all(least > 0 for least, _ in extents):  # (of none it is an end of the type)
        return low, high
    return None


def value_range_of(a: Node) -> Interval:
    """How many elements an axis may have."""
    extent = a.arg.extent
    return (extent, extent) if isinstance(extent, int) else ix.bounds(extent) if extent.dtype is index else value_range(extent)


Floats = tuple[float, float]
"""The least and the largest value, both included, rounding set aside; NaN, which any operand may be, is never in it."""
NOTHING_KNOWN: Floats = (-inf, inf)
_WHOLE: dict[str, Callable[[float], int]] = {"floor": floor, "trunc": trunc, "round": round}


def float_range(n: Node) -> Floats:
    """Which values a float expression can have, but for NaN and what rounding adds (memoised)."""
    for m in pending(n, lambda m: "floats" in m._memo or not m.dtype.is_float):
        m._memo["floats"] = _float_range(m)
    found: Floats = n._memo["floats"] if n.dtype.is_float else _of_integer(n)
    return found


def _of_integer(n: Node) -> Floats:
    low, high = value_range(n)
    return (-inf if low <= -BIG else low, inf if high >= BIG else high)


def _float_range(n: Node) -> Floats:
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
