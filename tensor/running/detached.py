"""A graph without the memory of its leaves, so that what is remembered of it keeps no tensor alive."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import bool_
from ..graph import maps
from ..graph.node import FROM_OUTSIDE, Slot, TensorNode, range_of, walk


def detached(outs: Sequence[TensorNode]) -> tuple[list[TensorNode], list[TensorNode]]:
    """Copies of `outs` and all behind them, in which leaves are slots; and the leaves, by the numbers of their slots. Leaves
    on one memory are one slot, and those behind what has no elements are none. Marks of casts, which say something of gradients
    only and may know other nodes, stay behind."""
    copies: dict[int, TensorNode] = {}
    leaves: dict[int, TensorNode] = {}
    found: list[TensorNode] = []
    for n in walk(outs):
        if n.data is not None or n.op in FROM_OUTSIDE:
            at = id(n.data) if n.data is not None else id(n)
            if at not in leaves:
                found.append(n)
                leaves[at] = _copy(n, "slot", (), Slot(len(leaves), range_of(n)))
            copies[id(n)] = leaves[at]
        elif 0 in n.shape:
            copies[id(n)] = _without_elements(n)
        else:
            copies[id(n)] = _copy(n, n.op, tuple(copies[id(s)] for s in n.src), None if n.op == "cast" else n.arg)
    return [copies[id(o)] for o in outs], found


def copied(n: TensorNode) -> TensorNode:
    """The same operation as a node of its own, which no other expression is one with."""
    return _copy(n, n.op, n.src, n.arg)


def _without_elements(n: TensorNode) -> TensorNode:
    """What has no elements as a constant: a kernel that reads what it was made from could not say where."""
    zero = _copy(n, "const", (), False if n.dtype is bool_ else 0.0 if n.dtype.is_float else 0)
    zero.shape = ()
    return _copy(n, "view", (zero,), maps.broadcast((), n.shape))


def _copy(n: TensorNode, op: str, src: tuple[TensorNode, ...], arg: object) -> TensorNode:
    new = TensorNode.__new__(TensorNode)
    new.op, new.src, new.arg, new.shape, new.dtype, new.line, new.data = op, src, arg, n.shape, n.dtype, n.line, None
    new.tracked = False
    return new
