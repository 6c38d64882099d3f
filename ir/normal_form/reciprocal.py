"""Division by a sum as multiplication by its reciprocal: `e / e.sum()` and `e * (1 / e.sum())` become one kernel.

No part of `tidy`, which changes no result: a product with a reciprocal has two roundings where a quotient has one,
and 1 / s is infinite where s is below 2⁻¹²⁸ (float32) while x / s may not be. Who pulls kernels out of expressions
applies it first where the numerics policy allows it, and before a chain of reductions becomes a fold: a factor can
leave a sum, a divisor cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..body import Fold, Reduce, Scan, Value
from ..kernel import Kernel
from ..node import Node, axes_of, const, walk
from ..operators import arith, rebuild


def by_reciprocal(kernel: Kernel) -> Kernel:
    """`kernel` with x / s written as x·(1 / s) where s is made of results of reductions and x has an axis, of more
    than one element, that s lacks: one division for many elements. Integers are left alone, and so are divisors that
    are loaded or constant. Results change by a rounding, but for sums that are nearly zero (see above). The kernel
    itself where nothing changes."""
    memo: dict[Node, Node] = {}
    point = {v.name for v in kernel.values.values() if isinstance(v.expr, Node)}
    body: list[Value | Fold] = []
    for item in kernel.body:
        if isinstance(item, Fold):
            body.append(replace(item, block=tuple(_value(v, memo, point) for v in item.block)))
        else:
            body.append(_value(item, memo, point))
    stores = tuple(replace(s, expr=_written((s.expr,), memo, point)[0]) for s in kernel.stores)
    if all(k is new for k, new in memo.items()):
        return kernel
    return Kernel(kernel.name, tuple(body), stores, kernel.buffers)


def _value(v: Value, memo: dict[Node, Node], point: set[str]) -> Value:
    (body,) = _written((v.body,), memo, point)
    return replace(v, expr=replace(v.expr, expr=body) if isinstance(v.expr, Reduce | Scan) else body)


def _written(roots: Sequence[Node], memo: dict[Node, Node], point: set[str]) -> list[Node]:
    for n in walk(*roots):
        if n not in memo:
            src = tuple(memo[s] for s in n.src)
            if n.op == "div" and n.dtype.is_float and _fewer(n.src[0], n.src[1], point):
                memo[n] = arith("mul", src[0], arith("div", const(1.0, n.dtype), src[1]))
            else:
                memo[n] = rebuild(n, src) if src else n
    return [memo[r] for r in roots]


def _fewer(dividend: Node, divisor: Node, point: set[str]) -> bool:
    """Whether the divisor is made of reductions' results and lacks an axis of the dividend."""
    lacks = any(a.arg.extent != 1 for a in axes_of(dividend) - axes_of(divisor))
    return lacks and any(n.op == "ref" and n.arg not in point for n in walk(divisor))
