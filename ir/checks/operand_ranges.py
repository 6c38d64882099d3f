"""Integer inputs whose elements are places, or say how far a loop goes: what a call checks of their values.

Memory, loops and masks are laid out by the ranges that such inputs state. Where none is stated, and every element of an input is
used as an index as it is, the dimension says where it must lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import index as ix
from ..body import KernelBody, values_of
from ..buffer import Buffer, Extent, load_parts
from ..errors import OutOfRangeError
from ..node import Node, axes_of, const, walk
from .access_bounds import accesses

_COMPARISONS = frozenset({"lt", "le", "eq", "ne"})


@dataclass(frozen=True)
class OperandRange:
    """Elements of an input lie between `low` and `high`, both included. `place`: of the input among the kernel's."""

    place: int
    name: str
    low: int
    high: Extent
    ascending: bool = False

    def check(self, who: str, array: Any, high: int) -> None:
        """Raise OutOfRangeError where an element lies outside; `high`: as a number."""
        if not array.size:
            return
        inside = False
        if self.low == 0 and (kind := array.dtype.kind) in "iu" and array.dtype.isnative:
            # read as unsigned, a negative element is a large one: one pass sees both ends
            largest = (1 << 8 * array.itemsize - (kind == "i")) - 1
            inside = int(array.view(f"u{array.itemsize}").max()) <= min(high, largest)
        if not inside and ((least := int(array.min())) < self.low or (most := int(array.max())) > high):
            wrong = least if least < self.low else most
            raise OutOfRangeError(
                f"{who}: {self.name} has the element {wrong}, outside of {self.low}..{high}: its elements are places, or say how far a loop goes"
            )
        if self.ascending and (down := array[..., 1:] < array[..., :-1]).any():
            at = tuple(int(d) for d in zip(*down.nonzero(), strict=True).__next__())
            one, next_one = int(array[at]), int(array[(*at[:-1], at[-1] + 1)])
            raise OutOfRangeError(f"{who}: {self.name} has {one} before {next_one}, at {list(at)}: its elements ascend, as it was declared")


def operand_ranges(kernel: KernelBody) -> tuple[OperandRange, ...]:
    """The ranges of inputs in order. TILEWRIGHT_INDEX_CHECKS=0: none."""
    if os.environ.get("TILEWRIGHT_INDEX_CHECKS", "1") == "0":
        return ()
    inputs = [b for b in kernel.buffers if b.role == "in"]
    if not any(b.dtype.is_int for b in inputs):
        return ()
    placing, implied = _placing(kernel)
    out = []
    for n, b in enumerate(inputs):
        stated = b.whole_range
        if stated is not None and b in placing:
            out.append(OperandRange(n, b.name, *stated, b.ascending))
        elif stated is None and b in implied:
            out.extend(OperandRange(n, b.name, 0, ix.add(size, const(-1)) if isinstance(size, Node) else size - 1) for size in implied[b])
    return tuple(out)


def highest(ranges: Iterable[OperandRange], symbols: Mapping[Node, int]) -> list[int]:
    """The upper end of each range, for these values of the kernel's symbols."""
    table = dict(symbols)
    return [ix.evaluate(r.high, table) if isinstance(r.high, Node) else r.high for r in ranges]


def check_operands(who: str, ranges: Sequence[OperandRange], high: Sequence[int], arrays: Sequence[Any]) -> None:
    """Raise OutOfRangeError where an array, one of a kernel's inputs in order, has an element outside of its range."""
    for r, top in zip(ranges, high, strict=True):
        r.check(who, arrays[r.place], top)


def _placing(kernel: KernelBody) -> tuple[set[Buffer], dict[Buffer, dict[Extent, None]]]:
    """(inputs that are read for an index, a mask, or a comparison with places; the sizes of the dimensions that all elements of an
    input are indices of)."""
    placing: set[Buffer] = set()
    implied: dict[Buffer, dict[Extent, None]] = {}
    for a in accesses(kernel):
        placing.update(_read(a.position))
        if a.mask is None:
            found = _source_buffer(a.position)
            if found is not None:
                implied.setdefault(found, {})[a.size] = None
        else:
            placing.update(_read(a.mask))
    roots = [v.body for item in kernel.body for v in values_of(item)] + [s.expr for s in kernel.stores]
    for n in walk(*roots, *(s.mask for s in kernel.stores if s.mask is not None)):
        if n.op in _COMPARISONS and n.src[0].dtype.is_int and any(s.op != "load" and axes_of(s) and not _read(s) for s in n.src):
            placing.update(_read(n))
    return placing, implied


def _read(n: Node) -> set[Buffer]:
    return {load_parts(m)[0] for m in walk(n) if m.op == "load" and m.dtype.is_int}


def _source_buffer(n: Node) -> Buffer | None:
    """The input whose every element this is in turn, through conversions."""
    while n.op == "cast" and n.src[0].dtype.is_int:
        n = n.src[0]
    if n.op != "load" or not n.dtype.is_int:
        return None
    buffer, indices, mask = load_parts(n)
    whole = all(i.op == "axis" and i.arg.extent == size for i, size in zip(indices, buffer.shape, strict=True))
    return buffer if whole and mask is None and len(set(indices)) == len(indices) else None
