"""Indices over axes, rewritten over the loops the axes were cut into."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.dtypes import index
from ..ir.node import INTEGER, Node, pending, walk
from ..ir.operators import substitute_on

Split = tuple[Node, int, int, list[tuple[int, str]], list[tuple[Node, int]]]
"""(scalar index, constant, lane coefficient, (coefficient, register part) pairs, (non-linear term, coefficient) pairs)."""


class PartTable(dict[Node, Node]):
    """Each axis as an index over the parts that it is cut into. It remembers what was rewritten: of an unrolled body's copies all ask the
    same."""

    def __init__(self, table: Mapping[Node, Node]) -> None:
        super().__init__(table)
        self.rewritten = dict(table)


def over_parts(node: Node, table: PartTable) -> Node:
    """An index over axes rewritten over parts. Loads inside it stay over axes: they are masked or clamped on their own."""
    found = table.rewritten.get(node)
    if found is None:
        if reads_memory(node):
            table.rewritten |= {n: n for n in walk(node) if n.op in ("load", "ref")}
        found = substitute_on(node, table.rewritten)
    return found


def reads_memory(node: Node) -> bool:
    """Whether an index term is computed as values are: it needs a load, a component of a tuple, an operator of integers, or arithmetic of
    another type than indices have, such as int32 (memoised)."""
    for n in pending(node, lambda n: "reads" in n._memo):
        own = n.op in ("load", "ref", "arg") or n.op in INTEGER or (n.dtype.is_int and n.dtype is not index and n.op != "const")
        n._memo["reads"] = own or any(s._memo["reads"] for s in n.src)
    return bool(node._memo["reads"])
