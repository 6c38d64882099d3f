"""Which reduction asks for an output's lines before the output is stored (FETCH).

The last pass of a row kernel has little to compute for each line that it writes, and waits for each: a store reads the line first. The
pass before it, which reads what is in a cache by then and computes more, can have them fetched meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import Node, axes_of
from .nests import Item, Nest


def fetching(items: Sequence[Item], output: str) -> tuple[Nest, Nest] | None:
    """(reduction, store): the last reduction before the only store of `output` that runs over the store's points, along the axis on which the output is
    consecutive; None where there is none."""
    plain = [i for i in items if isinstance(i, Nest)]
    stores = [n for n in plain if n.store is not None and n.store.buffer.name == output]
    if len(stores) != 1 or stores[0].kind != "store" or not stores[0].indices:
        return None
    (store,) = stores
    *outer, last = store.indices
    assert store.store is not None
    if store.store.combine or store.mask is not None or last.op != "axis" or last in axes_of(*outer):
        return None
    rest = set(store.axes) - {last}
    found = [
        n for n in plain[: plain.index(store)] if n.kind == "reduce" and set(n.axes) == rest and len(n.reduce_axes) == 1 and _alike(n.reduce_axes[0], last)
    ]
    return (found[-1], store) if found else None


def _alike(a: Node, b: Node) -> bool:
    return bool(a.arg.family == b.arg.family and a.arg.extent == b.arg.extent)
