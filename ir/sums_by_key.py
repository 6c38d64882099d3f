"""Sums of those elements whose key is the place of the result: Σ_i where(key[i] == v, x[i], 0) for every v.

As written, each result compares all keys with its own, but no more has to be done than to look at each element once: a histogram, or the
totals of groups."""

from __future__ import annotations

from dataclasses import dataclass

from .body import Reduce, Value
from .dtypes import bool_, index
from .kernel import Kernel
from .node import Node, axes_of, const
from .operators import cast
from .skipped_tiles import conjuncts


@dataclass(frozen=True)
class SumByKey:
    """A sum `value` of `part` over those points where `keys` (of some axes of the result) are the places along these, and the `conditions`
    hold."""

    value: Value
    keys: dict[Node, Node]
    part: Node
    conditions: tuple[Node, ...]


def sums_by_key(kernel: Kernel) -> dict[str, SumByKey]:
    """Such sums of a kernel, by name."""
    found = {}
    for v in kernel.body:
        if isinstance(v, Value) and isinstance(v.expr, Reduce) and v.expr.combine == "add" and v.dtype is not bool_:
            one = None if v.dtype.narrow or not all(isinstance(a.arg.extent, int) for a in v.axes) else _keyed(v, v.expr.expr)
            if one is not None:
                found[v.name] = one
    return found


def _keyed(v: Value, e: Node) -> SumByKey | None:
    said = _counted(e)
    if said is None:
        return None
    part, condition = said
    keys: dict[Node, Node] = {}
    others: list[Node] = []
    for c in conjuncts(condition):
        place = _place(v, c)
        if place is None or place[0] in keys:
            others.append(c)
        else:
            keys[place[0]] = place[1]
    if not keys or not axes_of(part, *others, *keys.values()).isdisjoint(keys):
        return None
    return SumByKey(v, keys, part, tuple(others))


def _counted(e: Node) -> tuple[Node, Node] | None:
    """(what is added, where) of a term that is 0 elsewhere."""
    if e.op == "where" and e.src[2].op == "const" and e.src[2].arg == 0:
        return e.src[1], e.src[0]
    if e.op == "cast" and e.src[0].dtype is bool_:
        return const(1, e.dtype), e.src[0]
    if e.op == "cast":
        found = _counted(e.src[0])
        return None if found is None else (cast(found[0], e.dtype), found[1])
    return None


def _place(v: Value, c: Node) -> tuple[Node, Node] | None:
    """(axis of the result, key) of a condition that says that the key is the place along the axis."""
    if c.op != "eq":
        return None
    for key, at in (c.src, c.src[::-1]):
        a = at.src[0] if at.op == "cast" else at
        if a.op != "axis" or a not in v.axes or not (key.dtype.is_int or key.dtype is index):
            continue
        if at is a or a.arg.extent <= 1 << (8 * at.dtype.size - (at.dtype.kind == "i")):  # (a place is no other one in the key's type)
            return a, key
    return None
