"""How much work a reference is, and parts of a large kernel's outer axes for references that would take too long on its whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

from ..body import Reduce, Store
from ..dtypes import float32
from ..kernel import Kernel
from ..node import Node, axes_of, const, walk
from .algebra import Algebra
from .dense import Env
from .reference import bind, checked_inputs, cut_axes
from .values import as_written, factors_of

if TYPE_CHECKING:
    import numpy as np

    from .dense import Span

    Array = np.ndarray[Any, Any]

RUN = 16
"""Consecutive places of a slice: twice the period of `measure.inputs`."""
FIRST = 2 * RUN
"""Of the first slice: thrice the period and more, since each of NaN and the two infinities has every third."""
_LEAST = 3
"""Slices at least: the first, the last, and one between."""
_MOST = 64
"""Slices at most: a slice of few elements costs NumPy's calls and little else, so many short ones become fewer long ones."""


def sampled_slices(
    kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int], share: float, seed: int
) -> list[dict[str, Span]] | None:
    """Spans of the longest outer axis along which `kernel` can be cut, about `share` of it: the first `FIRST` places, the last `RUN`, and others
    at random (by `seed`), of `RUN` places each, or of as many times that as leaves `_MOST` of them. None where such parts do not make whole results (no shared axis, stores that combine or whose place
    a value decides), or would be most of it anyway."""
    import numpy as np

    if any(s.combine is not None or _by_values(s) for s in kernel.stores):
        return None
    symbols = bind(kernel, inputs, vars)
    prefix = cut_axes(kernel, Env(Algebra(), checked_inputs(kernel, inputs, symbols), symbols))
    if not prefix:
        return None
    family, n = max(prefix, key=lambda p: p[1])
    long = RUN * max(1, -(-int(share * -(-n // RUN)) // _MOST))
    blocks = -(-n // long)
    count = max(_LEAST, int(share * blocks))
    if 2 * count > blocks:
        return None
    between = np.random.default_rng(seed).choice(np.arange(-(-FIRST // long), blocks - 1), count - 2, replace=False)
    later = [(int(b) * long, min(n, (int(b) + 1) * long)) for b in (*sorted(between), blocks - 1)]
    return [{family: span} for span in ((0, FIRST), *later)]


def reached(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int], slices: list[dict[str, Span]]) -> dict[str, Array]:
    """Flat masks, by output, of the elements that belong to slices of `sampled_slices`."""
    import numpy as np

    from .reference import run

    stores = tuple(replace(s, expr=const(1.0, float32), buffer=replace(s.buffer, dtype=float32, alias="")) for s in kernel.stores)
    marked = Kernel(kernel.name, (), stores, (*kernel.inputs, *dict.fromkeys(s.buffer for s in stores)))
    found = run(marked, inputs, vars, Algebra(), None, slices=slices)
    return {name: ~np.isnan(np.asarray(q)).reshape(-1) for name, q in found.items()}


def _by_values(s: Store) -> bool:
    roots = [*s.indices, *([] if s.mask is None else [s.mask])]
    return any(n.op == "ref" for n in walk(*roots))


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
