"""Which tensors gradients are asked for: `requires_grad`, and what that means for nodes that were computed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from ..graph.node import OpenArgument, TensorNode, walk

LEAVES: weakref.WeakKeyDictionary[TensorNode, weakref.ref[Any]] = weakref.WeakKeyDictionary()
"""The tensors with requires_grad, by their nodes."""


def behind(node: TensorNode) -> list[Any]:
    """The live tensors with requires_grad that a node was made from."""
    held = [LEAVES[n]() for n in walk([node], lambda n: not n.tracked) if n in LEAVES]
    return [t for t in held if t is not None]


def keeps(node: TensorNode) -> bool:
    """Whether a gradient may still be asked for through a node: of a tensor with requires_grad, or of an argument of a
    function that is being differentiated."""
    return node.tracked and id(node) in kept([node])


def kept(nodes: Iterable[TensorNode]) -> set[int]:
    """The ids of all nodes behind some nodes (and of these) of which `keeps` is true, in one pass."""
    found: set[int] = set()
    for n in walk((n for n in nodes if n.tracked), lambda n: not n.tracked):
        own = (isinstance(n.arg, OpenArgument) and n.arg.open) or (n in LEAVES and LEAVES[n]() is not None)
        if own or any(id(s) in found for s in n.src):
            found.add(id(n))
    return found
