"""Tensor maps: how the copy engine of a GPU (TMA) sees an array, as data. A driver makes 128 bytes of each before a launch.

A map describes an array of up to five dimensions in one parameter's memory. A copy takes one *box* of it, a rectangle of elements,
to or from shared memory. What lies outside the array is zero when it is read, and is left out when it is written. (CUDA driver API,
`cuTensorMapEncodeTiled`; PTX ISA, "Tensor Data Movement".)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir.dtypes import DType
from ..ir.errors import BuildError
from ..ir.index import evaluate
from ..ir.node import Node, walk

BYTES = 128
"""Size of an encoded map. As a kernel's parameter it is aligned to 64."""
MOST = 256
"""Elements that a box has along one dimension at most."""
SWIZZLES = (0, 32, 64, 128)
"""Rows of so many bytes whose 16-byte chunks change places; 0: none do."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """One map. `param`: the position of the parameter; `dtype`: its elements. `dims`: elements along each dimension, innermost
    first, and `strides`: elements from one to the next along each dimension but the innermost; numbers, or expressions over the symbols.
    `box`: elements of a box along each dimension. `swizzle`: a row of the box is so many bytes, and its 16-byte chunks are exchanged
    in shared memory (see `swizzled`); 0: no exchange. `offset`: the array's first element in the parameter."""

    param: int
    dtype: DType
    dims: tuple[int | Node, ...]
    strides: tuple[int | Node, ...]
    box: tuple[int, ...]
    swizzle: int = 128
    offset: int | Node = 0

    @property
    def bytes(self) -> int:
        """Bytes of a box in shared memory, which is also what a copy counts at its mbarrier."""
        n = self.dtype.size
        for b in self.box:
            n *= b
        return n

    def check(self) -> str | None:
        """What makes the map impossible whatever the symbols are, as a text; None: nothing."""
        rank, unit = len(self.dims), self.dtype.size
        if not 1 <= rank <= 5 or len(self.strides) != rank - 1 or len(self.box) != rank:
            return f"a map of {rank} dimensions has {len(self.strides)} strides and a box of {len(self.box)}"
        if not all(1 <= b <= MOST for b in self.box):
            return f"a box of {_times(self.box)} elements has more than {MOST} along a dimension, or none"
        row = self.box[0] * unit
        if row % 16:
            return f"the rows of a box are {row} bytes, no multiple of 16"
        if self.swizzle not in SWIZZLES or 0 < self.swizzle != row:
            return f"rows of {row} bytes are not those of the swizzle of {self.swizzle} bytes"
        for s in self.strides:
            if isinstance(s, int) and s * unit % 16:
                return f"a pitch of {s * unit} bytes is no multiple of 16"
        if isinstance(self.offset, int) and self.offset * unit % 16:
            return f"it begins at byte {self.offset * unit}, no multiple of 16"
        return None


@dataclass(frozen=True, slots=True)
class MapNumbers:
    """A map for known symbols, as `cuTensorMapEncodeTiled` wants it: `dims` in elements, `pitches` of all dimensions but the innermost
    and the `offset` from the parameter's address in bytes."""

    map: TensorMap
    dims: tuple[int, ...]
    pitches: tuple[int, ...]
    offset: int


def numbers(m: TensorMap, name: str, symbols: Mapping[str, int]) -> MapNumbers:
    """The numbers of a map of parameter `name`, given the values of the symbols by name. Raises BuildError that says why TMA cannot
    address such an array; its memory must begin at a multiple of 16 bytes besides."""

    def value(d: int | Node) -> int:
        return d if isinstance(d, int) else evaluate(d, {n: symbols[n.arg.name] for n in walk(d) if n.op == "sym"})

    unit = m.dtype.size
    out = MapNumbers(m, tuple(map(value, m.dims)), tuple(value(s) * unit for s in m.strides), value(m.offset) * unit)
    wrong = m.check()
    if wrong is None and not all(0 < d <= 1 << 32 for d in out.dims):
        wrong = f"{_times(out.dims)} elements"
    if wrong is None and not all(0 < p < 1 << 40 and p % 16 == 0 for p in out.pitches):
        wrong = f"pitches of {', '.join(map(str, out.pitches))} bytes, which must be multiples of 16 below 2^40"
    if wrong is None and (out.offset % 16 or out.offset < 0):
        wrong = f"it begins at byte {out.offset}, no multiple of 16"
    if wrong is not None:
        raise BuildError(f"TMA cannot address {name}: {wrong}; leave out the options that copy it by TMA")
    return out


def swizzled(address: int, swizzle: int) -> int:
    """Where the byte goes that would lie at `address` of shared memory in plain order: bits 4 and up are exchanged with those from 7
    on, as many as 16-byte chunks are in a row (CUTLASS, `cute/swizzle.hpp`: Swizzle<3, 4, 3> for 128 bytes)."""
    chunks = max(1, swizzle // 16)
    return address ^ (address >> 3 & (chunks - 1) << 4)


def _times(xs: Sequence[int]) -> str:
    return " × ".join(map(str, xs))
