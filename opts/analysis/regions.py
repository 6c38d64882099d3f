"""Which part of a value a block of its readers needs: bounds inference, by intervals.

The places at which a value is read are index expressions over the block's number (`atom`) and the reader's own axes. Their bounds
relative to a multiple of the block's number are the same for all blocks: that is the box that a block needs (Halide's bounds
inference; overlapped tiles in PolyMage, Mullapudi et al. 2015). Clamps and reflections at borders are minima and maxima, and
intervals go through them. Wraps `x mod size` are undone: a block of a torus needs an interval as well, of which some lies at the other end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...ir import index as ix
from ...ir.index import Interval
from ...ir.node import Node, axes_of, const
from .interior import middle


@dataclass(frozen=True, slots=True)
class Span:
    """What a block needs along one dimension: `extent` elements from index `start` on, which varies with the block. Of a dimension that
    is `round` so many elements, indices are taken modulo that."""

    start: Node
    extent: int
    round: int | None = None

    def element(self, place: Node) -> Node:
        """The index of the element at a place of the span."""
        at = ix.add(self.start, place)
        return at if self.round is None else ix.mod(at, self.round)

    def place(self, element: Node) -> Node:
        """Where in the span a block finds an element that it needs."""
        return ix.add(element if self.round is None else unwrapped(element, self.round), self.start, -1)


def needed_span(indices: Iterable[Node], atom: Node, size: int) -> Span | None:
    """The elements of a dimension of `size` elements that `indices` reach in a block, whatever the other axes are; None where that
    is all of them, or no index varies with the block. `atom`: the axis that numbers blocks."""
    as_read = list(indices)
    found = [unwrapped(i, size) for i in as_read]
    scales = [k for k in (scale(i, atom) for i in found) if k is not None]
    if not scales:
        return None
    k = max(scales)
    spans = [relative(i, atom, k) for i in found]
    lo, hi = min(s[0] for s in spans), max(s[1] for s in spans)
    if hi - lo + 1 >= size:
        return None
    start = ix.add(ix.mul(atom, const(k)), const(lo))
    if found != as_read:
        return Span(start, hi - lo + 1, size)
    # a block at a border begins where as many elements are left: what it does not need is computed there, and nothing is masked
    return Span(ix.minmax("max", const(0), ix.minmax("min", start, const(size - (hi - lo + 1)))), hi - lo + 1)


def unwrapped(i: Node, size: int) -> Node:
    """`x` less a multiple of `size`, for an index `x mod size`: as it is for most points, so that it is an interval for all of a block."""
    if i.op != "mod" or i.arg != size:
        return i
    at = middle(i.src[0])
    return i if at is None else ix.add(i.src[0], const(-(at // size) * size))


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
