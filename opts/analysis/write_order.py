"""Along which axes of a kernel can writes meet in one element? These stay in order, and with one worker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...ir.body import Store
from ...ir.checks.written_once import writes
from ...ir.index import parts
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...targets import Target


def scatter_ordered(s: Store) -> set[Node]:
    """Axes of a store along which writes can meet: they stay serial and in order. Of a store that combines nothing, only
    where data decides what is written, and the last write counts."""
    if s.combine is None and (all(n.op not in ("load", "ref") for n in walk(*s.indices)) or writes(s).once):
        return set()
    free = {i for i in s.indices if i.op == "axis"}
    if s.own is not None:
        free.add(s.own[0])
    return {a for a in s.axes if a not in free}


def side_by_side(s: Store, a: Node) -> bool:
    """Whether the writes of a scatter's points that differ in the axis `a` alone lie side by side, as those along the rows of a stamp do
    that data places: its last index is `a` and what does not vary with it, and no other index does."""
    if not s.indices:  # (a number that all of them add to)
        return False
    *others, last = s.indices
    terms = parts(last)[0]
    return terms.get(a) == 1 and not any(a in axes_of(n) for n in (*others, *(t for t in terms if t is not a)))


def in_vectors(target: Target, s: Store, a: Node) -> bool:
    """Whether lanes along `a` combine into an output at once."""
    return target.kind == "cpu" and not target.simt and side_by_side(s, a)


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
