"""Which reduction asks for lines of a buffer before they are used (FETCH).

The last pass of a row kernel has little to compute for each line that it writes, and waits for each: a store reads the line first. The
pass before it, which reads what is in a cache by then and computes more, can have them fetched meanwhile. Where nothing is stored for
each element, the last pass over a row can have the next row fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.buffer import Buffer, loads
from ..ir.node import Node, axes_of
from .nests import FoldItem, Item, Nest


@dataclass(frozen=True, eq=False)
class Fetch:
    """A reduction asks for `buffer` at `indices`, over its own axes; `later`: where the iteration of the loop around it that comes next will read."""

    nest: Nest
    buffer: Buffer
    indices: tuple[Node, ...]
    later: bool


def fetching(items: Sequence[Item], buffer: Buffer) -> Fetch | None:
    """Who asks for a buffer; None where nobody can. Of an output: the last reduction before its only store that runs over the store's points, along the axis on
    which it is consecutive. Of an input: the last of several nests that read the same rows, if it is a reduction along them."""
    nests = [n for i in items for n in ((i,) if isinstance(i, Nest) else i.nests if _over_rows(i) else ())]
    return _output(nests, buffer) if buffer.role == "out" else _input(nests, buffer)


def _output(nests: list[Nest], buffer: Buffer) -> Fetch | None:
    stores = [n for n in nests if n.store is not None and n.store.buffer == buffer]
    if len(stores) != 1 or stores[0].kind != "store" or not _row(stores[0].indices):
        return None
    (n,) = stores
    *outer, last = n.indices
    assert n.store is not None
    if n.store.combine or n.mask is not None:
        return None
    rest = set(n.axes) - {last}
    found = [r for r in nests[: nests.index(n)] if _along(r) and set(r.axes) == rest and _alike(r.reduce_axes[0], last)]
    return Fetch(found[-1], buffer, (*outer, found[-1].reduce_axes[0]), False) if found else None


def _input(nests: list[Nest], buffer: Buffer) -> Fetch | None:
    reads = [(n, i) for n in nests for b, i, _ in loads(*n.roots) if b == buffer and _row(i)]
    if not reads:
        return None
    n, indices = reads[-1]
    again = any(m is not n and i[:-1] == indices[:-1] and _alike(i[-1], indices[-1]) for m, i in reads)
    if not again or not _along(n) or n.reduce_axes[0] is not indices[-1] or not axes_of(*indices[:-1]):
        return None
    return Fetch(n, buffer, indices, True)


def _over_rows(item: FoldItem) -> bool:
    """Whether a fold does nothing but reduce along its own axis (argmax), like nests one after another."""
    return all(a.arg.family == item.fold.axis.arg.family for n in item.nests for a in n.reduce_axes)


def _row(indices: tuple[Node, ...]) -> bool:
    return bool(indices) and indices[-1].op == "axis" and indices[-1] not in axes_of(*indices[:-1])


def _along(n: Nest) -> bool:
    return n.kind == "reduce" and len(n.reduce_axes) == 1


def _alike(a: Node, b: Node) -> bool:
    return bool(a.arg.family == b.arg.family and a.arg.extent == b.arg.extent)
