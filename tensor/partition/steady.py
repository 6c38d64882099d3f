"""What is compared with an extreme of itself has the same bits there as where the extreme was taken.

Sums are stored where several kernels read them, and arithmetic and elementary functions of elements have the same bits wherever they are
computed. A quotient by a root has not: it is a product where both are in one expression and in lanes, and a division where the root
comes from memory (docs/numerics.md). Nor have functions that are known by their expression, whose parts may be kept apart. They are
computed once."""

from __future__ import annotations

from collections.abc import Callable

from ..graph.node import TensorNode
from ..graph.order import Graph
from ..graph.primitives import COMPARISONS

_CHOICES = frozenset({"max", "min", "neg", "abs", "where", "rounded"})
_KNOWN = frozenset({"tan", "asin", "acos", "atan2"})


def unsteady(graph: Graph, memory: Callable[[TensorNode], bool]) -> list[TensorNode]:
    """Nodes to store, behind values that are compared with what is chosen from them; down to what `memory` says."""
    found: dict[int, TensorNode] = {}
    for n in graph.order:
        if n.op == "elementwise" and n.arg in COMPARISONS and n.src[0] is not n.src[1] and n.src[0].dtype.is_float:
            one, two = (_chosen_from(s) for s in n.src)
            stack = [m for i, m in one.items() if i in two]
            seen: set[int] = set()
            while stack:
                m = stack.pop()
                if id(m) in seen or graph.leaf(m) or memory(m):
                    continue
                seen.add(id(m))
                if _varies(m):
                    found[id(m)] = m
                elif m.op in ("elementwise", "cast", "view", "gather", "after"):
                    stack.extend(m.src)
    return list(found.values())


def _chosen_from(n: TensorNode) -> dict[int, TensorNode]:
    """The nodes whose elements a node's are, or were chosen among, itself included."""
    found: dict[int, TensorNode] = {}
    stack = [n]
    while stack:
        m = stack.pop()
        if id(m) in found or m.op == "const":
            continue
        found[id(m)] = m
        if m.op in ("view", "cast", "gather", "after"):
            stack.append(m.src[0])
        elif (m.op == "elementwise" and m.arg in _CHOICES) or (m.op in ("reduce", "scan") and m.arg[0] in _CHOICES):
            stack.extend(m.src)
        elif m.op == "scatter" and m.arg.combine in _CHOICES:
            stack.append(m.src[0])
    return found


def _varies(n: TensorNode) -> bool:
    """Whether a node's bits depend on the kernel that computes it."""
    if n.op != "elementwise" or not n.dtype.is_float:
        return False
    return n.arg in _KNOWN or (n.arg == "div" and _rooted(n.src[1]))


def _rooted(n: TensorNode) -> bool:
    """Whether a divisor is a root, or a product with one."""
    while n.op in ("view", "cast"):
        n = n.src[0]
    if n.op == "elementwise" and n.arg == "mul":
        return any(map(_rooted, n.src))
    return n.op == "elementwise" and n.arg == "sqrt"
