"""How much NumPy has to do for a reference."""

from __future__ import annotations

from itertools import combinations
from math import prod

from ..body import Reduce
from ..kernel import Kernel
from ..node import Node, axes_of, walk
from .values import as_written, factors_of


def evaluation_work(kernel: Kernel, in_order: bool = False) -> int:
    """About how many elements of arrays are made when `kernel` is evaluated with errors: each operator of an expression once for each
    point of the axes it varies over. Sums of products count as their last two operands do, since BLAS adds them up. `in_order`:
    factors are multiplied as they are written (`Algebra.in_order`). Symbols count as 1."""
    made = 0
    for v in kernel.values.values():
        expr = v.expr
        roots = factors_of(v.body, v.dtype) if isinstance(expr, Reduce) and expr.combine == "add" else [v.body]
        if in_order and len(roots) > 2:
            roots = as_written(v.body, roots)
        made += sum(_points(n) for n in walk(*roots) if n.src)
        made += _merged(roots)
        if len(roots) == 1:
            made += prod(_extent(a) for a in axes_of(roots[0]) | set(v.axes))
    return made + sum(_points(n) for s in kernel.stores for n in walk(s.expr) if n.src)


def reduced_points(kernel: Kernel) -> int:
    """How many terms all reductions of `kernel` add up, one after the other. Symbols count as 1."""
    values = [v for v in kernel.values.values() if isinstance(v.expr, Reduce)]
    return sum(prod(map(_extent, {*v.axes, *v.reduce_axes})) for v in values)


def _merged(factors: list[Node]) -> int:
    """Elements of the products that are made of several factors until two are left, the smallest first, as `values` does it."""
    axes, made = [axes_of(f) for f in factors], 0
    while len(axes) > 2:
        i, j = min(combinations(range(len(axes)), 2), key=lambda p: prod(map(_extent, axes[p[0]] | axes[p[1]])))
        both = axes[i] | axes[j]
        made += prod(map(_extent, both))
        axes = [a for k, a in enumerate(axes) if k not in (i, j)] + [both]
    return made


def _points(n: Node) -> int:
    return prod(_extent(a) for a in axes_of(n))


def _extent(axis: Node) -> int:
    return axis.arg.extent if isinstance(axis.arg.extent, int) else 1
