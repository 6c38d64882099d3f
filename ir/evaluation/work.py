"""How much NumPy has to do for a reference."""

from __future__ import annotations

from math import prod

from ..body import Reduce
from ..kernel import Kernel
from ..node import Node, axes_of, walk
from .values import factors_of


def evaluation_work(kernel: Kernel) -> int:
    """About how many elements of arrays are made when `kernel` is evaluated with errors: each operator of an expression once for each
    point of the axes it varies over. Sums of products of two arrays count as their operands do, since BLAS adds them up. Symbols count
    as 1."""
    made = 0
    for v in kernel.values.values():
        expr = v.expr
        roots = factors_of(v.body, v.dtype) if isinstance(expr, Reduce) and expr.combine == "add" else [v.body]
        made += sum(_points(n) for n in walk(*roots) if n.src)
        if len(roots) == 1:
            made += prod(_extent(a) for a in axes_of(roots[0]) | set(v.axes))
    return made + sum(_points(n) for s in kernel.stores for n in walk(s.expr) if n.src)


def _points(n: Node) -> int:
    return prod(_extent(a) for a in axes_of(n))


def _extent(axis: Node) -> int:
    return axis.arg.extent if isinstance(axis.arg.extent, int) else 1
