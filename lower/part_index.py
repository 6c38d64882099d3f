"""Indices over axes, rewritten over the loops that the axes were cut into, and simplified by which iterations are under way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir import index as ix
from ..ir.dtypes import index
from ..ir.index import Interval
from ..ir.node import COMPARE, INTEGER, Node, axes_of, axis, const, pending, walk
from ..ir.operators import substitute, substitute_on
from ..opts.axis_plan import Part

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
    another type than indices have, such as int32 or float32 (memoised)."""
    for n in pending(node, lambda n: "reads" in n._memo):
        other = n.op != "const" and (n.dtype.is_float or (n.dtype.is_int and n.dtype is not index))
        own = n.op in ("load", "ref", "arg") or n.op in INTEGER or other
        n._memo["reads"] = own or any(s._memo["reads"] for s in n.src)
    return bool(node._memo["reads"])


def as_node(extent: int | Node) -> Node:
    """An extent as an index."""
    return const(extent) if isinstance(extent, int) else extent


def parts_index(parts: Sequence[tuple[Part, int]]) -> Node:
    """The element of a tile that lies by parts, each with its stride."""
    return linear_index((p.var for p, _ in parts), (stride for _, stride in parts))


def linear_index(indices: Iterable[Node], strides: Iterable[int | Node]) -> Node:
    """Σ index·stride, in elements."""
    out = const(0)
    for i, stride in zip(indices, strides, strict=True):
        out = ix.add(out, i, stride) if isinstance(stride, int) else ix.add(out, ix.mul(i, stride))
    return out


Ranges = Mapping[Node, Interval]
"""The first and the last iteration that is under way, by loop variable."""
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
