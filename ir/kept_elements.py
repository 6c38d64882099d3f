"""Kernels in place that leave elements as they are: they write the others only.

A slice that is written is, as an expression, every element of the array: the value where the element is in the slice, and itself where it
is not. In the array's own memory the second part does nothing. So a store of `where(condition, value, what lies there)` runs over the
points where the condition holds, as far as it bounds single axes; what else it says stays a condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from . import index as ix
from .body import Store
from .buffer import Buffer, load, load_parts
from .kernel import Kernel
from .node import Node, as_node, axes_of, axis, const, reads_data, walk
from .operators import cast, substitute, where


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


def written_at_places(kernel: Kernel, name: str, marks: Kernel, names: Sequence[str]) -> Kernel | None:
    """`kernel`, which writes over an array at places that data says, without its input `name`: the map of the whole array that `marks` makes, with
    the number of the last value for each place. It goes through the values in their order instead, and a later one stays. `names`: those that
    the inputs of `marks` have in it. None where the two are not these."""
    if kernel.body or marks.body or len(kernel.stores) != 1 or len(marks.stores) != 1:
        return None
    (store,), (made,) = kernel.stores, marks.stores
    old = next((b for b in kernel.inputs if b.name == store.buffer.alias), None)
    parts = None if old is None or store.indices != store.axes else _choice(store, old)
    if old is None or parts is None:
        return None
    given, value = parts
    maps = [n for n in walk(given, value) if n.op == "load" and load_parts(n)[0].name == name]
    if len(maps) != 1 or load_parts(maps[0])[1:] != (store.indices, None) or given is not (const(0) < maps[0]):
        return None
    if any(n.op == "load" and load_parts(n)[0] == old for n in walk(value)):
        return None
    number, step = const(1), const(1)
    for a in reversed(made.axes):
        number, step = ix.add(number, ix.mul(a, step)), ix.mul(as_node(a.arg.extent), step)
    if made.combine != "max" or made.own is not None or made.expr is not number:
        return None
    inputs = {b: replace(b, name=to) for b, to in zip(marks.inputs, names, strict=True)}
    taken: dict[Node, Node] = {}
    for n in walk(*made.indices, *([made.mask] if made.mask is not None else [])):
        if n.op == "load":
            buffer, at, mask = load_parts(n)
            taken[n] = load(
                inputs[buffer], tuple(substitute(i, dict(taken)) for i in at), None if mask is None else substitute(mask, dict(taken))
            )
    indices = tuple(substitute(i, dict(taken)) for i in made.indices)
    inside = ix.minmax(
        "max", ix.minmax("min", ix.add(maps[0], const(-1)), ix.add(step, const(-1))), const(0)
    )  # (as all places of a gather are)
    table = {maps[0]: number, inside: ix.add(number, const(-1)), **dict(zip(store.axes, indices, strict=True))}
    value = substitute(value, table)
    out = replace(store.buffer, alias="")
    mask = None if made.mask is None else substitute(made.mask, dict(taken))
    found = Store(out, indices, value, made.axes, None, mask)
    read = {load_parts(n)[0] for n in walk(*indices, value, *([] if mask is None else [mask])) if n.op == "load"}
    return Kernel(kernel.name, (), (found,), (*sorted(read, key=lambda b: b.name), out))


def _narrowed(store: Store, old: Buffer, number: int) -> Store:
    """The store over fewer points; itself where it leaves nothing as it is."""
    parts = _choice(store, old)
    if parts is None:
        return store
    found = _over(store, parts, load(old, store.indices), number, True)
    if any(map(reads_data, found.indices)) and any(n.op == "load" and load_parts(n)[0] == old for n in walk(found.expr)):
        return _over(
            store, parts, load(old, store.indices), number, False
        )  # read in place only where indices show that each is written once
    return found


def _choice(store: Store, old: Buffer) -> tuple[Node, Node] | None:
    """(the condition, the value) of a store that leaves elements as they are where a condition does not hold; None of any other. Elements of
    few bits are chosen as they are computed, as wider ones."""
    e, kept = store.expr, load(old, store.indices)
    rounds = e.op == "cast" and e.src[0].op == "where" and old.dtype is e.dtype
    chosen = e.src[0] if rounds else e
    if chosen.op != "where" or store.combine is not None or store.mask is not None:
        return None
    given, value, other = chosen.src
    if other is not (cast(kept, chosen.dtype) if rounds else kept):
        return None
    return given, cast(value, e.dtype) if rounds else value


def _over(store: Store, parts: tuple[Node, Node], kept: Node, number: int, data: bool) -> Store:
    """The store over the points that the condition allows, of (condition, value). `data`: whether a place may be one that data says."""
    rest = list(_conjuncts(parts[0]))
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
    value, kept = (substitute(n, dict(table)) for n in (parts[1], kept))
    for c in rest:
        value = where(substitute(c, dict(table)), value, kept)
    expr = cast(value, store.buffer.dtype)
    return replace(store, indices=tuple(substitute(i, dict(table)) for i in store.indices), expr=expr, axes=tuple(axes))


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
