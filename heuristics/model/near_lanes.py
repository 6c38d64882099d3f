"""What lanes read at places that are numbered by groups of neighbours: bytes of two weights each, a scale for each 64 of them."""

from __future__ import annotations

from functools import lru_cache

from ...ir import index as ix
from ...ir.buffer import Buffer
from ...ir.node import Node, axes_of, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute


def near_lanes(buffer: Buffer, indices: tuple[Node, ...], axis: Node, width: int) -> int | None:
    """Among how many neighbours in memory the lanes of a vector along `axis` find their elements: 1 where all read the same one. None where
    they may be anywhere."""
    spans = [_span(i, axis, width) if axis in axes_of(i) else 1 for i in indices]
    return spans[-1] if spans and all(s == 1 for s in spans[:-1]) else None


@lru_cache
def _span(i: Node, axis: Node, width: int) -> int | None:
    if all(n.op not in ("div", "mod") for n in walk(i)) or not isinstance(axis.arg.extent, int):
        return None
    block, lane = make_axis("block of lanes", -(-axis.arg.extent // width)), make_axis("lane of a vector", width)
    terms, _ = ix.parts(substitute(i, {axis: ix.linear({block: width, lane: 1}, 0)}))
    within = {t: k for t, k in terms.items() if lane in axes_of(t)}
    if any(axes_of(t) != {lane} for t in within) or any(n.op == "load" for t in within for n in walk(t)):
        return None
    low, high = ix.bounds(ix.linear(within, 0))
    return high - low + 1
