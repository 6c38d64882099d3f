"""Contractions whose operands are computed: decoded weights, an activation of an input, rows that an index picks, or any function of
two inputs that are both used again and again, such as a squared difference.

A contraction is what its loops share and not what it multiplies: along the lane axis one part of the expression stays as it is, and
along the rows another, so that a register tile reads each of them once for many results."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ...ir import index as ix
from ...ir.body import Fold
from ...ir.buffer import Buffer, loads
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ..access import strides_of
from ..nests import Nest
from .structure import Contraction, contractions, extent, lane_axis, nests

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
