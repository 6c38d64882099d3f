"""Sums that are added up in memory before the rest of their kernel, which loads them."""

from __future__ import annotations

from collections.abc import Mapping, Set

from ...ir.buffer import Buffer, load
from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...ir.operators import substitute
from ..kernel_parts import changed_item, changed_store, loaded, needed, store_roots


def totals(value: str) -> str:
    """The name of the buffer in which a sum is added up."""
    return f"{value}.total"


def left(kernel: Kernel, works: Mapping[str, Buffer], taken: Set[int] = frozenset()) -> Kernel:
    """What is left of a kernel that loads its values `works` from buffers. `taken`: the stores that it lacks, by id."""

    def loads(root: Node) -> Node:
        table = {n: load(works[n.arg], tuple(loads(i) for i in n.src)) for n in walk(root) if n.op == "ref" and n.arg in works}
        return substitute(root, table)

    stores = tuple(changed_store(s, loads) for s in kernel.stores if id(s) not in taken)
    later = tuple(changed_item(item, loads) for item in kernel.body if item.name not in works)
    body = needed(later, (r for s in stores for r in store_roots(s)))
    outputs = dict.fromkeys(s.buffer for s in stores)
    return Kernel(kernel.name, body, stores, (*loaded((*kernel.inputs, *works.values()), body, stores), *outputs))
