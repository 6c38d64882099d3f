"""Sums of products, and contractions whose operands are computed.

Distributivity moves what does not depend on an axis out of the sum over it, and associativity brings factors together that depend on the
same axes. A contraction is what its loops share and not what it multiplies: along the lane axis one part of the expression stays as it
is, and along the rows another, so that a register tile reads each of them once for many results. Its operands may be decoded weights, an
activation of an input, rows that an index picks, or a function of two inputs such as a squared difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ...ir import index as ix
from ...ir.body import Fold, Reduce, Value
from ...ir.buffer import Buffer, loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, make
from ..access import strides_of
from ..nests import Nest, plain
from .structure import Contraction, contractions, extent, lane_axis, nests


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


Read = tuple[Buffer, tuple[Node, ...]]


@lru_cache(maxsize=64)
def all_contractions(kernel: Kernel) -> tuple[Contraction, ...]:
    """Those of plain inputs, then those of computed operands."""
    plain = contractions(kernel)
    known = {c.nest.name for c in plain}
    folded = {v.name for i in kernel.body if isinstance(i, Fold) for v in i.block}
    rest = (n for n in nests(kernel) if n.kind == "reduce" and n.name not in known | folded)
    return (*plain, *(c for n in rest if (c := computed_contraction(kernel, n)) is not None))


def computed_contraction(kernel: Kernel, nest: Nest, lane: Node | None = None) -> Contraction | None:
    """A reduction as a contraction with its lanes along `lane` (where that is not given, along what is consecutive where the value is
    stored); None where it is none. Where an operand is a pointwise value of the kernel, it is that value that is staged."""
    over = frozenset(nest.reduce_axes)
    lane = lane_axis(kernel, nest) if lane is None else lane
    if lane is None or nest.value is None:
        return None
    read = [(b, i) for b, i, _ in loads(nest.expr) if axes_of(*i) & over]
    wide, tall = [r for r in read if lane in axes_of(*r[1])], [r for r in read if lane not in axes_of(*r[1])]
    if not wide or not tall:
        return None
    (w, wi), (t, _) = max(wide, key=_size), max(tall, key=_size)
    across = axes_of(*(i for _, at in wide for i in at))
    rows = tuple(a for a in nest.axes if a not in across and any(a in axes_of(*at) for _, at in tall))
    if not any(extent(a) > 1 for a in rows):
        return None
    names = _values(kernel, nest, lane)
    alone = len({b for b, _ in wide}) == 1 and not names[0]
    simple = names[0] != "" or all(i.op in ("axis", "const") for i in wi)
    consecutive = any(strides_of(*r).get(lane) == 1 for r in wide)
    if not consecutive and not alone and not names[0]:
        return None  # what lies across the lanes is read well only where it is packed
    return Contraction(nest, lane, rows, nest.reduce_axes, w, t, simple, names[0], names[1], alone)


def _values(kernel: Kernel, nest: Nest, lane: Node) -> tuple[str, str]:
    """The pointwise values that a product is of: (the one with the lanes, the other), empty where that is none."""
    assert nest.value is not None
    body, wide, tall = nest.value.body, "", ""
    for side in body.src if body.op == "mul" else ():
        if side.op == "ref" and isinstance(kernel.values[side.arg].expr, Node):
            if lane in side.src:
                wide = str(side.arg)
            else:
                tall = str(side.arg)
    return wide, tall


def _size(read: Read) -> int:
    return prod(ix.upper(d) for d in read[0].shape)
