"""The interval of an integer expression: which values it can have, by the ranges of what it reads and by its operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import floor, inf, prod, trunc

from . import index as ix
from .body import Reduce, Value
from .buffer import load_parts
from .dtypes import DType, bool_, index, rounded
from .index import BIG, INTERVALS, Interval, product, size, split_remainders
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
    return n.op not in INTERVALS or ((found := _result(n, of)) is not None and inside(found, n.dtype))


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
    else:
        found = _result(n, of) or every
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
        found = reduce(product, map(of, n.src))
    elif n.op == "div":
        low, high = of(n.src[0])
        found = low // n.arg, high // n.arg
    elif n.op == "cast" and not n.src[0].dtype.is_float:
        found = of(n.src[0])
    else:
        found = _result(n, of) or every
    return (max(found[0], -BIG), min(found[1], BIG)) if inside(found, index) else every


def _result(n: Node, of: Of) -> Interval | None:
    """The interval of an operator's exact result, which may not fit its type; None where nothing is known."""
    bits = 8 * n.dtype.size
    if n.op == "max" and (both := magnitude_of(n)) is not None and -of(both)[0] <= whole(n.dtype)[1]:  # (−x wraps for the least number)
        return size(of(both))
    if n.op == "not":
        low, high = of(n.src[0])
        ones = whole(n.dtype)[1] if n.dtype.kind == "u" else -1
        return ones - high, ones - low
    if n.op in ("popcount", "clz"):
        low, high = of(n.src[0])
        if low < 0:
            return 0, bits
        return (0, high.bit_length()) if n.op == "popcount" else (bits - high.bit_length(), bits - low.bit_length())
    rule = INTERVALS.get(n.op)
    found = None if rule is None else rule(*map(of, n.src))
    mean = _mean(n, of) if n.op == "add" else None
    return found if found is None or mean is None else (max(found[0], mean[0]), min(found[1], mean[1]))


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
_OF_FLOATS = frozenset({"add", "sub", "mul", "neg", "abs", "max", "min", "where"})


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
    if n.op in _WHOLE:
        low, high = float_range(n.src[0])
        return (low if low == -inf else float(_WHOLE[n.op](low)), high if high == inf else float(_WHOLE[n.op](high)))
    found = INTERVALS[n.op](*map(float_range, n.src)) if n.op in _OF_FLOATS else None
    return found if found is not None and all(e == e for e in found) else NOTHING_KNOWN
