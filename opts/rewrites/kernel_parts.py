"""Kernels taken apart and put together again, by options that make other kernels of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from ...ir.body import Fold, Reduce, Scan, Store, Value, values_of
from ...ir.buffer import Buffer, load, load_parts
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, axis, walk
from ...ir.operators import substitute

Change = Callable[[Node], Node]


def changed(v: Value, change: Change) -> Value:
    """A value with another body, over the same axes."""
    if isinstance(v.expr, Node):
        return replace(v, expr=change(v.expr))
    return replace(v, expr=replace(v.expr, expr=change(v.expr.expr)))


def changed_item(item: Value | Fold, change: Change) -> Value | Fold:
    """A value, or all values of a fold's block, with other bodies."""
    return changed(item, change) if isinstance(item, Value) else replace(item, block=tuple(changed(v, change) for v in item.block))


def changed_store(s: Store, change: Change) -> Store:
    """A store of something else, perhaps elsewhere."""
    mask = None if s.mask is None else change(s.mask)
    return replace(s, expr=change(s.expr), indices=tuple(change(i) for i in s.indices), mask=mask)


def store_roots(s: Store) -> tuple[Node, ...]:
    """Every expression of a store."""
    return (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))


def needed(body: Sequence[Value | Fold], roots: Iterable[Node]) -> tuple[Value | Fold, ...]:
    """The items of a body that some expressions refer to, directly or not, in order."""
    wanted = {n.arg for n in walk(*roots) if n.op == "ref"}
    kept: list[Value | Fold] = []
    for item in reversed(body):
        made = set(item.components) if isinstance(item, Fold) else {item.name}
        if made & wanted:
            kept.append(item)
            wanted |= {n.arg for n in walk(*(v.body for v in values_of(item))) if n.op == "ref"}
    return tuple(reversed(kept))


def loaded(buffers: Iterable[Buffer], body: Sequence[Value | Fold], stores: Sequence[Store]) -> tuple[Buffer, ...]:
    """Those of some buffers that a body or stores load from."""
    roots = [v.body for item in body for v in values_of(item)] + [r for s in stores for r in store_roots(s)]
    used = {n.arg[0] for n in walk(*roots) if n.op == "load"}
    return tuple(b for b in buffers if b in used)


def renamed(kernel: Kernel, end: str) -> Kernel:
    """`kernel` with `end` behind the name of every axis and family."""
    return with_axes(kernel, {a: axis(f"{a.arg.name}{end}", a.arg.extent, f"{a.arg.family}{end}") for a in kernel.axes})


def with_axes(kernel: Kernel, table: dict[Node, Node]) -> Kernel:
    """`kernel` with other axes: `table` has one for every axis of it, and for those of its folds."""

    def go(e: Node) -> Node:
        return substitute(e, table)

    def value(v: Value) -> Value:
        e = v.expr
        if isinstance(e, Reduce):
            new: Node | Reduce | Scan = replace(e, axes=tuple(table[a] for a in e.axes), expr=go(e.expr))
        elif isinstance(e, Scan):
            new = replace(e, axis=table[e.axis], expr=go(e.expr))
        else:
            new = go(e)
        return replace(v, axes=tuple(table[a] for a in v.axes), expr=new)

    def item(x: Value | Fold) -> Value | Fold:
        return value(x) if isinstance(x, Value) else replace(x, axis=table[x.axis], block=tuple(map(value, x.block)))

    stores = tuple(replace(changed_store(s, go), axes=tuple(table[a] for a in s.axes)) for s in kernel.stores)
    return replace(kernel, body=tuple(map(item, kernel.body)), stores=stores)


def guarded(expr: Node, axes: Set[Node], inside: Node) -> Node:
    """`expr` with every load that varies along one of `axes` masked by `inside`, also those that say where others read."""
    found: dict[Node, Node] = {}
    for n in walk(expr):  # operands come first
        if n.op == "load" and axes_of(n) & axes:
            buffer, indices, mask = load_parts(n)
            found[n] = load(
                buffer, tuple(substitute(i, found) for i in indices), inside if mask is None else substitute(mask, found) & inside
            )
    return substitute(expr, found)


def totals(value: str) -> str:
    """The name of the buffer in which a sum is added up."""
    return f"{value}.total"


def left(kernel: Kernel, works: Mapping[str, Buffer], taken: Set[int] = frozenset()) -> Kernel:
    """What is left of a kernel that loads its values `works` from buffers. `taken`: the stores that it lacks, by id."""

    def loads(root: Node) -> Node:
        table = {n: load(works[n.arg], tuple(loads(i) for i in n.src)) for n in walk(root) if n.op == "ref" and n.arg in works}
        return substitute(root, table)

    stores = tuple(changed_store(s, loads) for s in kernel.stores if id(s) not in taken)
    later = tuple(changed_item(item, loads) for item in kernel.body if item.name not in works)
    body = needed(later, (r for s in stores for r in store_roots(s)))
    outputs = dict.fromkeys(s.buffer for s in stores)
    return Kernel(kernel.name, body, stores, (*loaded((*kernel.inputs, *works.values()), body, stores), *outputs))
