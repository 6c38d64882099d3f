"""Outputs that are scattered into from inputs alone, so that copies of them may be made before they are combined."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.body import Store
from ...ir.kernel import Kernel
from ...ir.node import Node
from ..meeting import meeting, scatter_ordered
from ..nests import Nest, flat, plain


@dataclass(frozen=True)
class Scatter:
    """What is scattered into one output: the nests of its stores, and the axes along which its writes can meet, in the order they run."""

    nests: tuple[Nest, ...]
    serial: tuple[Node, ...]

    @property
    def store(self) -> Store:
        """The first of the stores."""
        return self.stores[0]

    @property
    def stores(self) -> tuple[Store, ...]:
        """All of them: with one combine, and over the same serial axes."""
        return tuple(n.store for n in self.nests if n.store is not None)


def privatisable(kernel: Kernel, name: str) -> Scatter | None:
    """The scatter into the output `name`, if nothing but pointwise values and inputs decides it; else None. Of several stores it is all, or
    those whose own writes can meet; the others then combine with the copies."""
    nests = tuple(n for n in flat(plain(kernel)) if n.kind == "store" and n.store is not None and n.store.buffer.name == name)
    stores = Scatter(nests, ()).stores
    if not stores or stores[0].combine is None or any(s.own is not None for s in stores):
        return None
    shape = stores[0].buffer.shape
    if not shape or not all(isinstance(d, int) and d > 0 for d in shape):
        return None
    return _scatter(nests) or _scatter(tuple(n for n in nests if n.store is not None and scatter_ordered(n.store)))


def _scatter(nests: tuple[Nest, ...]) -> Scatter | None:
    """What some nests scatter together, if they read inputs alone, and their writes meet along the same axes."""
    if not nests or any(n.op == "ref" for x in nests for n in x.nodes):
        return None
    stores = Scatter(nests, ()).stores
    ordered = meeting(stores)
    serial = {tuple(a for a in s.axes if a in ordered) for s in stores}
    axes = serial.pop()
    return Scatter(nests, axes) if axes and not serial else None


def alike(kernel: Kernel) -> list[tuple[str, ...]]:
    """The outputs that may have private copies, those over the same points together."""
    found: dict[tuple[Node, ...], list[str]] = {}
    for b in kernel.outputs:
        known = privatisable(kernel, b.name)
        if known is not None:
            found.setdefault(known.serial, []).append(b.name)
    return [tuple(names) for names in found.values()]
