"""Which part of a value a block of its readers needs: bounds inference, by intervals.

The places at which a value is read are index expressions over the block's number (`atom`) and the reader's own axes. Their bounds
relative to a multiple of the block's number are the same for all blocks: that is the box that a block needs (Halide's bounds
inference; overlapped tiles in PolyMage, Mullapudi et al. 2015). Clamps and reflections at borders are minima and maxima, and
intervals go through them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...ir import index as ix
from ...ir.intervals import Interval
from ...ir.node import Node, axes_of, const


@dataclass(frozen=True, slots=True)
class Span:
    """What a block needs along one dimension: `extent` elements from index `start` on, which varies with the block."""

    start: Node
    extent: int


def needed_span(indices: Iterable[Node], atom: Node, size: int) -> Span | None:
    """The elements of a dimension of `size` elements that `indices` reach in a block, whatever the other axes are; None where that
    is all of them, or no index varies with the block. `atom`: the axis that numbers blocks."""
    found = list(indices)
    scales = [k for k in (scale(i, atom) for i in found) if k is not None]
    if not scales:
        return None
    k = max(scales)
    spans = [relative(i, atom, k) for i in found]
    lo, hi = min(s[0] for s in spans), max(s[1] for s in spans)
    if hi - lo + 1 >= size:
        return None
    # a block at a border begins where as many elements are left: what it does not need is computed there, and nothing is masked
    start = ix.add(ix.mul(atom, const(k)), const(lo))
    return Span(ix.minmax("max", const(0), ix.minmax("min", start, const(size - (hi - lo + 1)))), hi - lo + 1)


def scale(i: Node, atom: Node) -> int | None:
    """How far an index moves from one block to the next, borders aside; None where it does not vary with the block, or nobody knows."""
    if i.op in ("min", "max"):
        return next((k for k in (scale(s, atom) for s in i.src) if k is not None), None)
    terms, _ = ix.parts(i)
    if atom in terms:
        return terms[atom]
    return next((c * k for t, c in terms.items() if t.op in ("min", "max") for k in (scale(t, atom),) if k is not None), None)


def relative(i: Node, atom: Node, k: int) -> Interval:
    """Bounds of i − k·atom."""
    if i.op in ("min", "max"):
        (a, b), (c, d) = (relative(s, atom, k) for s in i.src)
        f = min if i.op == "min" else max
        return f(a, c), f(b, d)
    terms, c = ix.parts(i)
    varying = [t for t in terms if t is not atom and atom in axes_of(t)]
    if len(varying) == 1 and atom not in terms and terms[varying[0]] == 1 and varying[0].op in ("min", "max"):
        rest = ix.bounds(ix.add(i, varying[0], -1))
        lo, hi = relative(varying[0], atom, k)
        return lo + rest[0], hi + rest[1]
    return ix.bounds(ix.add(i, ix.mul(atom, const(k)), -1))
