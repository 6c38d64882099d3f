"""Ways of reading an array in one kernel, each a parameter of its own."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.buffer import Buffer

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
