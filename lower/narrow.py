"""Indices simplified by which iterations of loops are under way: inside, a clamp is the index that it keeps inside."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import index as ix
from ..ir.index import Interval
from ..ir.node import COMPARE, Node, axes_of, axis, const, pending
from ..ir.operators import substitute

Ranges = Mapping[Node, Interval]
"""Of loop variables, the first and the last iteration that is under way."""
DECIDED = frozenset({"min", "max", "div", "mod", "where"}) | COMPARE
"""What an interval of its operands may decide."""


def narrowed(node: Node, ranges: Ranges) -> Node:
    """An index over parts, simplified where these are the loops' ranges."""
    if not ranges or not undecided(node):
        return node
    there, back = _tables(node, ranges)
    return substitute(substitute(node, there), back) if there else node


def bounds(node: Node, ranges: Ranges) -> Interval:
    """The interval of an index over parts in these ranges."""
    there, _ = _tables(node, ranges) if ranges else ({}, {})
    return ix.bounds(substitute(node, there) if there else node)


def undecided(node: Node) -> bool:
    """Whether an index has terms that an interval may decide (memoised)."""
    for n in pending(node, lambda n: "undecided" in n._memo):
        n._memo["undecided"] = n.op in DECIDED or any(s._memo["undecided"] for s in n.src)
    return bool(node._memo["undecided"])


def _tables(node: Node, ranges: Ranges) -> tuple[dict[Node, Node], dict[Node, Node]]:
    """Loop variables as others that have just these iterations, and the way back."""
    there: dict[Node, Node] = {}
    back: dict[Node, Node] = {}
    for v in axes_of(node):
        found = ranges.get(v)
        if found is None:
            continue
        lo, hi = found
        if lo == hi:
            there[v] = const(lo)
            continue
        inner = axis(f"{v.arg.name}'", hi - lo + 1)
        there[v] = ix.add(inner, const(lo))
        back[inner] = ix.add(v, const(-lo))
    return there, back
