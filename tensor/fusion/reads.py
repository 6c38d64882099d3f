"""Ways of reading an array in one kernel, each a parameter of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir import index as ix
from ...ir.buffer import Buffer
from ...ir.dtypes import DType
from ..graph.maps import Indices, Shape
from ..graph.node import TensorNode, range_of
from ..graph.symbols import extents

NEAR = 16
"""Offsets up to which reads of an array that differ by constants share a parameter (a stencil's taps do, slices do not)."""

Terms = tuple[tuple[object, ...], ...]
"""Of each dimension, what is added up in its index beside a constant."""


@dataclass
class ReadParameter:
    """A way in which a nest reads an array, and its parameter."""

    terms: Terms
    offsets: tuple[int, ...]
    buffer: Buffer

    def near(self, terms: Terms, offsets: tuple[int, ...]) -> bool:
        """Whether reads with these offsets are a stencil's taps beside this one. Where a dimension is read at a constant
        (one of several stacked arrays: queries, keys, values), another constant is another array, however near."""
        pairs = zip(self.offsets, offsets, self.terms, terms)
        return all(a == b or (bool(mine) and bool(other) and abs(a - b) <= NEAR) for a, b, mine, other in pairs)


class ReadParameters:
    """`buffers`: the parameters of a kernel's inputs so far, in order, each with the node whose memory it is."""

    def __init__(self, kept: Mapping[int, DType]) -> None:
        """`kept`: by id, types of nodes in memory that are not the nodes' own."""
        self.kept = kept
        self.buffers: dict[Buffer, TensorNode] = {}
        self._known: dict[tuple[int, Shape], list[Buffer]] = {}
        self._ways: dict[tuple[str, int, Shape], list[ReadParameter]] = {}

    def buffer(self, nest: str, t: TensorNode, shape: Shape, at: Indices) -> Buffer:
        """The parameter for one way of reading `t`, as an array of a shape: in a nest, reads that differ by more than small
        offsets have parameters of their own."""
        terms = tuple(tuple(sorted(ix.parts(i)[0].items(), key=lambda p: ix.order_key(p[0]))) for i in at)
        offsets = tuple(ix.parts(i)[1] for i in at)
        ways = self._ways.setdefault((nest, id(t), shape), [])
        for w in ways:
            if w.terms == terms and w.near(terms, offsets):
                return w.buffer
        known = self._known.setdefault((id(t), shape), [])
        far = [b for b in known if not any(w.buffer is b for w in ways) and self._near(b, (id(t), shape), (terms, offsets))]
        if far:
            buffer = far[0]
        else:
            buffer = Buffer(f"in{len(self.buffers)}", self.kept.get(id(t), t.dtype), extents(shape), "in", range=range_of(t))
            self.buffers[buffer] = t
            known.append(buffer)
        ways.append(ReadParameter(terms, offsets, buffer))
        return buffer

    def _near(self, buffer: Buffer, array: tuple[int, Shape], at: tuple[Terms, tuple[int, ...]]) -> bool:
        """Whether another nest reads the parameter at about these offsets."""
        every = (w for (_, i, s), ways in self._ways.items() if (i, s) == array for w in ways)
        return any(w.buffer is buffer and w.near(*at) for w in every)
