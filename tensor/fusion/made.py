"""A group's kernel in its final writing: pulled, folded where the partition says so, tidied. Groups of equal structure, as
the layers of a model are, are pulled once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...ir.kernel import Kernel
from ...ir.normal_form.naming import tidy
from ...ir.online.rewrite import NoFold, compares, online
from ..graph.node import TensorNode, range_of, walk
from ..partition import Group
from .loop_plan import LoopPlan
from .pull import pull

KEPT = 4096
"""Kernels that are remembered."""


@dataclass(frozen=True)
class MadeKernel:
    """A kernel with the node behind each of its inputs and outputs, in order."""

    kernel: Kernel
    inputs: tuple[TensorNode, ...]
    outputs: tuple[TensorNode, ...]


@dataclass(frozen=True)
class KeptKernel:
    """A kernel, and by number in the walk over a group which nodes are its inputs and outputs."""

    kernel: Kernel | NoFold
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


_kept: OrderedDict[tuple[Any, ...], KeptKernel] = OrderedDict()
_lock = threading.Lock()


def kernel_of(group: Group, stored: Callable[[TensorNode], bool], plan: LoopPlan) -> MadeKernel | NoFold:
    """The kernel of a group whose nodes are not NumPy's; NoFold where it cannot run in tiles as the partition wants it to.
    `stored`, `plan`: as for `pull`."""
    own = {id(r) for r in group.roots}
    nodes = list(walk(group.roots, lambda n: n.data is not None or (id(n) not in own and stored(n))))
    number = {id(n): i for i, n in enumerate(nodes)}
    types = tuple(sorted((number[i], t.name) for i, t in plan.kept.items() if i in number))
    cut = tuple(sorted((number[i], s) for i, s in plan.splits.items() if i in number))
    key = (*_key(group, nodes, number, stored, plan), types, cut)
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
    if found is None:
        found = _made(group, stored, plan, number)
        with _lock:
            _kept[key] = found
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
    if isinstance(found.kernel, NoFold):
        return found.kernel
    return MadeKernel(found.kernel, tuple(nodes[i] for i in found.inputs), tuple(nodes[i] for i in found.outputs))


def _made(group: Group, stored: Callable[[TensorNode], bool], plan: LoopPlan, number: Mapping[int, int]) -> KeptKernel:
    pulled = pull(group.roots, stored, group.head is not None and not group.folded, plan)
    kernel: Kernel | NoFold = pulled.kernel
    if group.folded and isinstance(kernel, Kernel):
        kernel = online(kernel, products=True)
    elif group.head is None and isinstance(kernel, Kernel) and compares(kernel):
        kernel = online(kernel) or kernel  # argmax in one pass; where there is no fold, several are as good
    inputs, outputs = (tuple(number[id(n)] for n in ns) for ns in (pulled.inputs, pulled.outputs))
    return KeptKernel(tidy(kernel) if isinstance(kernel, Kernel) else kernel, inputs, outputs)


def _key(
    group: Group, nodes: list[TensorNode], number: Mapping[int, int], stored: Callable[[TensorNode], bool], plan: LoopPlan
) -> tuple[Any, ...]:
    """Equal for groups whose kernels are."""
    own = {id(r) for r in group.roots}
    memory: dict[int, int] = {}
    rows: list[Any] = []
    for n in nodes:
        if id(n) not in own and (n.data is not None or stored(n)):
            place = memory.setdefault(id(n.data) if n.data is not None else id(n), len(memory))
            rows.append(("leaf", place, n.shape, n.dtype, range_of(n)))
        else:
            arg = (type(n.arg), repr(n.arg)) if n.op == "const" else None if n.op == "cast" else n.arg
            rows.append((n.op, tuple(number[id(s)] for s in n.src), arg, n.shape, n.dtype))
    order = tuple((number[id(r)], number[id(head)], dims) for r in group.roots if (loop := plan.loops.get(id(r))) for head, dims in (loop,))
    return tuple(rows), tuple(number[id(r)] for r in group.roots), group.head is not None, bool(group.folded), order
