"""Stores that may run in the loop of a reduction: those at the very points that are reduced, such as a gradient beside its loss.

What both compute is then computed once, and what both read is read once. A store that needs the reduction's result comes after it, of
course. Points of their own order (a scatter) stay in it, and a reduction that leaves out iterations would leave out their stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ...ir.dtypes import index
from ...ir.node import Node, axes_of, walk
from ...ir.operators import substitute
from ..meeting import scatter_ordered
from ..nests import Nest
from .ragged import conditions, selected, sides

Table = Mapping[Node, Node]


def sites(n: Nest, first: Nest) -> Table | None:
    """For each axis of a store the one of a reduction whose points it shares; None where they have different points."""
    own = [a for a in n.axes if a not in first.axes]
    if len(n.axes) != len(first.all_axes) or len(own) != len(first.reduce_axes):
        return None
    table, left = {}, list(first.reduce_axes)
    for a in own:
        found = next((b for b in left if b.arg.family == a.arg.family and b.arg.extent == a.arg.extent), None)
        if found is None:
            return None
        left.remove(found)
        table[a] = found
    return table


def over(n: Nest, table: Table) -> Nest:
    """A store over other sites of its axes."""
    assert n.store is not None
    there = dict(table)
    axes = tuple(there.get(a, a) for a in n.axes)
    indices = tuple(substitute(i, there) for i in n.indices)
    expr, mask = substitute(n.expr, there), None if n.mask is None else substitute(n.mask, there)
    store = replace(n.store, indices=indices, expr=expr, axes=axes, mask=mask)
    return replace(n, axes=axes, expr=expr, indices=indices, mask=mask, store=store)


def joins(n: Nest, group: Sequence[Nest], late: Collection[str]) -> bool:
    """Whether a store may run in the loop of a group, the first of which is a reduction, and has something in common with one of it there. `late`:
    what is made from the first of the group on."""
    first = group[0]
    if (
        n.kind != "store"
        or n.store is None
        or n.store.combine is not None
        or n.store.own is not None
        or n.fills
        or scatter_ordered(n.store)
    ):
        return False
    table = sites(n, first)
    if table is None or any(r.arg in late for r in n.refs) or any(_limited(m) for m in group if m.kind == "reduce"):
        return False
    reduced = set(first.reduce_axes)
    mine, theirs = _read(over(n, table), reduced), set().union(*(_read(_there(m, first), reduced) for m in group))
    # (what a value's own loop hands on in registers is read there, unless the reduction reads it here as well)
    return not mine.isdisjoint(theirs) and all(x in theirs for x in mine if x.op == "ref")


def _there(m: Nest, first: Nest) -> Nest:
    """A nest of a group over the sites of its first."""
    if m.store is None:
        return replace(m, expr=substitute(m.expr, dict(zip(m.reduce_axes, first.reduce_axes, strict=True))))
    table = sites(m, first)
    return m if table is None else over(m, table)


def _read(n: Nest, axes: Collection[Node]) -> set[Node]:
    """What a nest reads along some axes."""
    return {x for x in n.nodes if x.op in ("load", "ref") and not axes_of(x).isdisjoint(axes)}


def _limited(n: Nest) -> bool:
    """Whether a reduction's loops may leave out iterations that reduce nothing, or data a step of all results."""
    where = selected(n)
    if (
        where is not None
        and where.op == "where"
        and set(n.axes) - axes_of(where.src[0])
        and any(x.op == "load" for x in walk(where.src[0]))
    ):
        return True
    return any(sides(c) is not None or (c.src[0].dtype is index and len(axes_of(c)) > 1) for c in conditions(n))
