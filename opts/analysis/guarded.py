"""Loads of chunks that reach past an axis: they touch no memory there."""

from __future__ import annotations

from collections.abc import Set

from ...ir.buffer import load, load_parts
from ...ir.node import Node, axes_of, walk
from ...ir.operators import substitute


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
