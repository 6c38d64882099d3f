"""Along which axes of a kernel can writes meet in one element? These stay in order, and with one worker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..ir.body import Store
from ..ir.checks.written_once import writes
from ..ir.kernel import Kernel
from ..ir.node import Node, walk


def scatter_ordered(s: Store) -> set[Node]:
    """Axes of a store along which writes can meet: they stay serial and in order. Of a store that combines nothing, only
    where data decides what is written, and the last write counts."""
    if s.combine is None and (all(n.op not in ("load", "ref") for n in walk(*s.indices)) or writes(s).once):
        return set()
    free = {i for i in s.indices if i.op == "axis"}
    if s.own is not None:
        free.add(s.own[0])
    return {a for a in s.axes if a not in free}


def own_dimensions(stores: Sequence[Store]) -> set[tuple[Node, int]]:
    """(axis, dimension) of each axis that is the index of one dimension in all of some stores to one output. Points that differ in such
    an axis write to different elements, whichever of the stores they are of."""
    each = [{(i, d) for d, i in enumerate(s.indices) if i.op == "axis"} for s in stores]
    return set.intersection(*each)


def meeting(stores: Sequence[Store]) -> set[Node]:
    """Axes along which writes of some stores to one output can meet, those of one store or of two."""
    found = {a for s in stores for a in scatter_ordered(s)}
    if len(stores) > 1 and stores[0].combine is not None:  # (without, no two of them have an element in common)
        apart = {a for a, _ in own_dimensions(stores)}
        found |= {a for s in stores for a in s.axes if a not in apart}
    return found


def scatters(kernel: Kernel, name: str) -> tuple[Store, ...]:
    """The stores of a kernel to the output `name`."""
    return tuple(s for s in kernel.stores if s.buffer.name == name)


@lru_cache(maxsize=64)
def kernel_ordered(kernel: Kernel) -> dict[Node, str]:
    """Axes along which writes of any stores can meet, each with the name of an output where they do."""
    return {a: b.name for b in reversed(kernel.outputs) for a in meeting(scatters(kernel, b.name))}
