"""Indices over axes, rewritten over the loops the axes were cut into."""

from __future__ import annotations

from ..ir.node import Node, pending, walk
from ..ir.op_names import INTEGER
from ..ir.operators import substitute

Split = tuple[Node, int, int, list[tuple[int, str]], list[tuple[Node, int]]]
"""(scalar index, constant, lane coefficient, (coefficient, register part) pairs, (non-linear term, coefficient) pairs)."""


def over_parts(node: Node, table: dict[Node, Node]) -> Node:
    """An index over axes rewritten over parts. Loads inside it stay over axes: they are masked or clamped on their own."""
    if reads_memory(node):
        table = {**table, **{n: n for n in walk(node) if n.op in ("load", "ref")}}
    return substitute(node, table)


def reads_memory(node: Node) -> bool:
    """Whether an index term is computed as values are: it needs a load, or an operator of integers (memoised)."""
    for n in pending(node, lambda n: "reads" in n._memo):
        n._memo["reads"] = n.op in ("load", "ref") or n.op in INTEGER or any(s._memo["reads"] for s in n.src)
    return bool(node._memo["reads"])
