"""Kernels in place that leave elements as they are: they write the others only.

A slice that is written is, as an expression, every element of the array: the value where the element is in the slice, and itself where it
is not. In the array's own memory the second part does nothing. So a store of `where(condition, value, what lies there)` runs over the
points where the condition holds, as far as it bounds single axes; what else it says stays a condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from . import index as ix
from .body import Store
from .buffer import Buffer, load_parts
from .kernel import Kernel
from .node import Node, as_node, axes_of, axis, const, reads_data, walk
from .operators import substitute, where


def without_kept(kernel: Kernel) -> Kernel:
    """`kernel`, which may write over inputs (`Buffer.alias`), with stores that leave out elements which keep their values. Outputs of
    which nothing is read any more have no alias: whoever calls it gives them the memory that holds the values."""
    if kernel.body:
        return kernel
    by_name = {b.name: b for b in kernel.inputs}
    stores = [_narrowed(s, by_name[s.buffer.alias], i) if s.buffer.alias else s for i, s in enumerate(kernel.stores)]
    if all(new is old for new, old in zip(stores, kernel.stores, strict=True)):
        return kernel
    read = {load_parts(n)[0].name for s in stores for n in walk(s.expr, *s.indices) if n.op == "load"}
    outs = {b: replace(b, alias=b.alias if b.alias in read else "") for b in kernel.outputs}
    found = [replace(s, buffer=outs[s.buffer]) for s in stores]
    buffers = [outs.get(b, b) for b in kernel.buffers if b.role == "out" or b.name in read]
    return Kernel(kernel.name, (), tuple(found), tuple(buffers))


def _narrowed(store: Store, old: Buffer, number: int) -> Store:
    """The store over fewer points; itself where it leaves nothing as it is."""
    e = store.expr
    if e.op != "where" or store.combine is not None or store.mask is not None or not _is_element(e.src[2], old, store.indices):
        return store
    found = _over(store, number, True)
    if any(map(reads_data, found.indices)) and any(n.op == "load" and load_parts(n)[0] == old for n in walk(found.expr)):
        return _over(store, number, False)  # an array is read in place only where indices show that each element is written once
    return found


def _over(store: Store, number: int, data: bool) -> Store:
    """The store over the points that conditions allow. `data`: whether a place may be one that data says."""
    rest = list(_conjuncts(store.expr.src[0]))
    table: dict[Node, Node] = {}
    axes: list[Node] = []
    for a in store.axes:
        span = _span(a, rest, data)
        if span is None:
            axes.append(a)
            continue
        start, length, used = span
        rest = [c for c in rest if c not in used]
        if length.op == "const" and length.arg == 1:
            table[a] = start
        else:
            new = axis(f"w{number}_{a.arg.name}", length.arg if length.op == "const" else length)
            axes.append(new)
            table[a] = ix.add(start, new)
    if not table:
        return store
    value, kept = (substitute(n, dict(table)) for n in store.expr.src[1:])
    for c in rest:
        value = where(substitute(c, dict(table)), value, kept)
    return replace(store, indices=tuple(substitute(i, dict(table)) for i in store.indices), expr=value, axes=tuple(axes))


def _is_element(n: Node, old: Buffer, indices: Sequence[Node]) -> bool:
    if n.op != "load":
        return False
    buffer, at, mask = load_parts(n)
    return buffer == old and mask is None and tuple(at) == tuple(indices)


def _conjuncts(n: Node) -> Iterator[Node]:
    if n.op == "and":
        for s in n.src:
            yield from _conjuncts(s)
    else:
        yield n


def _span(a: Node, conditions: Sequence[Node], data: bool) -> tuple[Node, Node, list[Node]] | None:
    """(first, how many, the conditions that say so) of the points of an axis; None where conditions do not bound it inside of its extent."""
    extent = as_node(a.arg.extent)
    starts: list[tuple[Node, list[Node]]] = []
    ends: list[tuple[Node, list[Node]]] = []
    for c in conditions:
        low, high = _bound(a, c, data)
        if low is not None and ix.bounds(low)[0] >= 0:
            starts.append((low, [c]))
        if high is not None and ix.bounds(ix.add(extent, high, -1))[0] >= 0:
            ends.append((high, [c]))
    if not starts and not ends:
        return None
    for start, first in [*starts, (const(0), [])]:
        for end, last in [*ends, (extent, [])]:
            length = ix.add(end, start, -1)
            if (first or last) and ix.bounds(length)[0] >= 0:
                return start, length, [*first, *last]
    return None


def _bound(a: Node, condition: Node, data: bool) -> tuple[Node | None, Node | None]:
    """(the first point, the one behind the last) of an axis that a comparison of indices allows; None where it does not bound it."""
    if condition.op not in ("le", "lt", "eq") or condition.src[0].dtype is not a.dtype:
        return None, None
    terms, c = ix.parts(ix.add(condition.src[0], condition.src[1], -1))
    step = terms.pop(a, 0)
    other = ix.linear(terms, c)
    if step not in (1, -1) or axes_of(other) or (reads_data(other) and not (data and condition.op == "eq")):
        return None, None
    if condition.op == "eq":
        at = ix.mul(other, const(-step))
        return at, ix.add(at, const(1))
    more = const(0 if condition.op == "le" else 1)
    if step == 1:  # a + other + more ≤ 0
        return None, ix.add(const(1), ix.add(other, more), -1)
    return ix.add(other, more), None
