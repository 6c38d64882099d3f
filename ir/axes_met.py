"""Axes in an order of their own: sets of nodes, such as `axes_of` gives, are in the order of where these lie in memory, and what is chosen
by it is another in each process."""

from __future__ import annotations

from .node import Node, walk


def axes_met(node: Node) -> tuple[Node, ...]:
    """The axes that a node depends on, in the order in which one meets them (memoised)."""
    if node.op == "axis":
        return (node,)
    found: tuple[Node, ...] | None = node._memo.get("met")
    if found is None:
        found = node._memo["met"] = tuple(n for n in walk(node) if n.op == "axis")
    return found
