"""Python numbers that are parameters of a captured function: they take the type of the array beside them, as numbers do."""

from __future__ import annotations

from .graph.node import TensorNode, walk

_KEEPS = ("elementwise", "cast", "const")


def weak(n: TensorNode) -> bool:
    """Whether a node is a number of Python's, or computed from such numbers alone."""
    if n.shape or n.data is not None or not _possible(n):
        return False
    found = False
    for m in walk([n]):
        if m.op == "slot" and getattr(m.arg, "weak", False):
            found = True
        elif m.op not in _KEEPS or (m.op == "cast" and m.dtype.size < 8):  # a cast to a type that numbers do not have was asked for
            return False
    return found


def _possible(n: TensorNode) -> bool:
    return n.op in _KEEPS or (n.op == "slot" and getattr(n.arg, "weak", False))
