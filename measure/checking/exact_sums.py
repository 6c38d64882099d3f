"""On which test inputs is a kernel's result the same float in every order of evaluation?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod, sqrt

from ...ir.body import Fold, Reduce, Scan, Value
from ...ir.buffer import load_parts
from ...ir.index import evaluate as index_value
from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ..inputs import whole_limits

_INDEX = {"const", "axis", "sym", "load", "ref", "sum", "prod", "div", "mod"}
_VALUE = {
    "min",
    "max",
    "add",
    "sub",
    "mul",
    "neg",
    "abs",
    "floor",
    "round",
    "trunc",
    "where",
    "cast",
    "lt",
    "le",
    "eq",
    "ne",
    "and",
    "or",
    "not",
}
_MANTISSA = {8: 53, 4: 24}
_DIGITS = {8: 53, 4: 24, 2: 8, 1: 2}
"""Bits of the largest whole number up to which a float of so many bytes holds all (the least of several types)."""


def is_exact(kernel: Kernel, vars: Mapping[str, int]) -> bool:
    """On inputs from `inputs.generate(whole=True)`, every order of evaluation gives the same float, because all partial results
    are whole numbers that the accumulate type holds."""
    env = {s: vars[s.arg.name] for s in kernel.symbols if s.arg.name in vars}
    largest: dict[str, float] = {}

    def limit(v: Value) -> float | None:
        top = magnitude(v.body)
        if top is None:
            return None
        if isinstance(v.expr, Reduce | Scan):
            if v.expr.combine == "mul":
                return None
            over = v.expr.axes if isinstance(v.expr, Reduce) else (v.expr.axis,)
            if v.expr.combine == "add":
                for a in over:
                    e = a.arg.extent
                    top *= index_value(e, env) if isinstance(e, Node) else e
        return top if not v.dtype.is_float or (not v.dtype.narrow and top < 2.0 ** _MANTISSA[v.dtype.size]) else None

    def magnitude(root: Node) -> float | None:
        memo: dict[Node, float] = {}
        for n in walk(root):
            got = _magnitude(n, memo, largest)
            if got is None or (n.dtype.is_float and got >= 2.0 ** _MANTISSA.get(n.dtype.compute.size, 0)):
                return None
            memo[n] = got
        return memo[root]

    for item in kernel.body:
        if isinstance(item, Fold):
            return False
        top = limit(item)
        if top is None:
            return False
        largest[item.name] = top
    return all(s.combine is None and magnitude(s.expr) is not None for s in kernel.stores)


def drift(kernel: Kernel, vars: Mapping[str, int]) -> float:
    """By how much more than at random the roundings of a float sum of the kernel may grow on inputs that repeat a few values: √K for the
    longest, of K terms. What is added again and again is rounded the same way again and again, so errors add up by K, not √K."""
    env = {s: vars[s.arg.name] for s in kernel.symbols if s.arg.name in vars}

    def terms(axes: Iterable[Node]) -> int:
        extents = [a.arg.extent for a in axes]
        return prod(index_value(e, env) if isinstance(e, Node) else e for e in extents)

    values = [v for item in kernel.body for v in (item.block if isinstance(item, Fold) else (item,))]
    sums = [v.expr for v in values if isinstance(v.expr, Reduce | Scan) and v.expr.combine == "add" and v.expr.dtype.is_float]
    adds: dict[str, float] = {}
    for s in kernel.stores:
        if s.combine == "add" and s.buffer.dtype.is_float:
            adds[s.buffer.name] = adds.get(s.buffer.name, 0.0) + terms(s.axes)
    most = [*adds.values()] + [float(terms(s.axes if isinstance(s, Reduce) else (s.axis,))) for s in sums]
    return sqrt(max(most, default=1.0))


def _magnitude(n: Node, memo: Mapping[Node, float], largest: Mapping[str, float]) -> float | None:
    if n.op not in _INDEX | _VALUE or (n.op == "cast" and n.dtype.narrow and n.src[0].op != "ref"):
        return None
    if n.op == "div" and n.dtype.is_float:  # (of indices it rounds down)
        return None
    if n.op == "const":
        return abs(float(n.arg)) if not n.dtype.is_float or float(n.arg).is_integer() else None
    if n.op == "load":
        b = load_parts(n)[0]
        if b.dtype.is_float:
            ends = whole_limits(b)
            return float(max(map(abs, ends))) if ends is not None and max(map(abs, ends)) <= 2 ** _DIGITS[b.dtype.size] else None
        return float(max(abs(x) for x in b.range)) if b.range else 2.0 ** (8 * b.dtype.size)
    if n.op == "ref":
        return largest.get(n.arg)
    if n.dtype.name == "int64" and n.op in ("axis", "sym", "sum", "prod", "div", "mod"):
        return 2.0**31
    src = [memo[s] for s in n.src if s.dtype.kind != "b"]
    if n.op in ("add", "sub"):
        return sum(src)
    if n.op == "mul":
        return src[0] * src[1]
    return max(src, default=1.0)
