"""From a graph to a list of calls: the kernels in order, which array each parameter is, and the graph's key.

Graphs that differ only in which memory their leaves are share one list: it is made once and used for every step of a
loop. The key numbers nodes in order and names leaves by shape, type and declared range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..ir.kernel import Kernel
from . import partition as P
from .node import HostCall, TensorNode, walk
from .online import online
from .pull import pull

Place = int
"""An array of a call list: the leaves first, then what is computed."""


@dataclass(frozen=True)
class KernelCall:
    """One kernel on arrays: `inputs` and `outputs` are places, in the kernel's order of parameters. `nodes`: what it stores
    and why."""

    kernel: Kernel
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    nodes: tuple[TensorNode, ...]
    rules: tuple[P.Rule, ...]
    folded: bool = False


@dataclass(frozen=True)
class NumpyCall:
    """One call of NumPy's code."""

    call: HostCall
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    nodes: tuple[TensorNode, ...]
    rules: tuple[P.Rule, ...]


Call = KernelCall | NumpyCall


@dataclass
class CallList:
    """What computes a graph. `leaves`: how many arrays come from outside; `nodes`: by place, a node of that shape and
    type; `outs`: places of the outputs."""

    calls: list[Call]
    leaves: int
    nodes: list[TensorNode]
    outs: tuple[Place, ...]
    extra: dict[str, Any] = field(default_factory=dict)


def leaves_of(outs: Sequence[TensorNode]) -> list[TensorNode]:
    """The leaves behind `outs`, in the order of their places; leaves on the same memory are one."""
    found: dict[int, TensorNode] = {}
    for n in walk(outs):
        if is_leaf(n):
            found.setdefault(id(n.data) if n.data is not None else id(n), n)
    return list(found.values())


def is_leaf(n: TensorNode) -> bool:
    """Whether a node's values come from outside of the graph."""
    return n.data is not None or n.op in ("buffer", "slot")


def key_of(outs: Sequence[TensorNode]) -> tuple[Any, ...]:
    """Equal for graphs that one call list computes."""
    number: dict[int, int] = {}
    memory: dict[int, int] = {}
    rows: list[Any] = []
    for n in walk(outs):
        number[id(n)] = len(number)
        if is_leaf(n):
            place = memory.setdefault(id(n.data) if n.data is not None else id(n), len(memory))
            rows.append(("leaf", place, n.shape, n.dtype.name, getattr(n.data, "range", None)))
        else:
            arg = (type(n.arg), repr(n.arg)) if n.op == "const" else n.arg
            rows.append((n.op, tuple(number[id(s)] for s in n.src), arg, n.shape, n.dtype.name))
    return (tuple(rows), tuple(number[id(o)] for o in outs))


def call_list(outs: Sequence[TensorNode]) -> CallList:
    """Partition `outs` and pull every kernel."""
    parted = P.partition(outs)
    leaves = leaves_of(outs)
    nodes = list(leaves)
    place: dict[int, Place] = {}
    for i, n in enumerate(leaves):
        place[id(n.data) if n.data is not None else id(n)] = i

    def at(n: TensorNode) -> Place:
        return place[id(n.data) if n.data is not None else id(n)]

    calls: list[Call] = []
    for group in parted.groups:
        for root in group.roots:
            place[id(root)] = len(nodes)
            nodes.append(root)
        made = tuple(group.roots), tuple(group.rules)
        if group.roots[0].op == "host":
            node = group.roots[0]
            calls.append(NumpyCall(node.arg, tuple(map(at, node.src)), (at(node),), *made))
            continue
        pulled = pull(group.roots, parted.regions.is_stored)
        kernel, folded = pulled.kernel, False
        if group.folded:
            kernel, folded = online(kernel) or kernel, True
        calls.append(KernelCall(kernel, tuple(map(at, pulled.inputs)), tuple(map(at, pulled.outputs)), *made, folded))
    return CallList(calls, len(leaves), nodes, tuple(map(at, outs)))
