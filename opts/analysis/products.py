"""Sums of products: their factors, and what each factor depends on.

Distributivity moves what does not depend on an axis out of the sum over it, and associativity brings factors together
that depend on the same axes. Options that use one or the other begin here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from ...ir.body import Reduce, Value
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, make
from ..nests import Nest, plain


@dataclass(frozen=True, eq=False)
class SumOfProducts:
    """The sum `value` of a product of `factors` (pointwise values are inlined), in the order in which they are written."""

    value: Value
    factors: tuple[Node, ...]

    @property
    def sum(self) -> Reduce:
        """The reduction that the value is."""
        assert isinstance(self.value.expr, Reduce)
        return self.value.expr


@lru_cache(maxsize=64)
def products(kernel: Kernel) -> tuple[SumOfProducts, ...]:
    """Every sum of a kernel's body, not of its folds, with the factors of what it sums: one or more."""
    bodies = {n.name: n.expr for n in plain(kernel) if isinstance(n, Nest) and n.kind == "reduce"}
    return tuple(
        SumOfProducts(v, tuple(factors(bodies[v.name], v.expr)))
        for v in kernel.body
        if isinstance(v, Value) and isinstance(v.expr, Reduce) and v.expr.combine == "add" and v.name in bodies
    )


def factors(expr: Node, sum: Reduce) -> list[Node]:
    """What is multiplied to make `expr`, in the type that `sum` adds up: products in another type round or wrap otherwise."""
    found, stack = [], [expr]
    while stack:
        n = stack.pop()
        if n.op == "mul" and n.dtype is sum.dtype:
            stack += reversed(n.src)
        else:
            found.append(n)
    return found


def product(of: Iterable[Node]) -> Node:
    """The product of one or more factors, from the left."""
    first, *rest = of
    for n in rest:
        first = make("mul", first.dtype, (first, n))
    return first


def on(factors: Iterable[Node], axis: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """(the factors that depend on an axis, the others)."""
    every = tuple(factors)
    return tuple(f for f in every if axis in axes_of(f)), tuple(f for f in every if axis not in axes_of(f))
