"""Nodes that one kernel would compute at too many places: a chain of views that overlap (slices joined again, the steps of a sorting
network) reads its beginning at a number of places that grows with each link, many times over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.maps import Indices
from ..graph.node import TensorNode
from ..graph.order import Graph
from ..graph.symbols import axis
from .limits import OPERATIONS
from .places import ZERO

EVALUATIONS = 1024
"""Places at which a kernel may compute a node, times the operations behind it, down to memory."""

Places = dict[int, dict[Any, None]]
"""By the id of a stored node, where its kernel wants another one: an index with a mask, or a number that stands for views."""


def crowded(graph: Graph, stored: Callable[[TensorNode], bool]) -> list[TensorNode]:
    """Nodes to store so that no kernel computes one at so many places; `stored` says what is in memory. Counted by the views on the way,
    and only where that is too much by the indices, of which many may be equal."""
    if not _Crowds(graph, stored, _Views()).too_many():
        return []
    return _Crowds(graph, stored, _Indices()).found()


class _Views:
    """Places as numbers: one for each chain of views."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, int], int] = {}

    def whole(self, n: TensorNode) -> int:
        """All elements of a node."""
        return 0

    def through(self, n: TensorNode, at: int) -> int:
        """What a view at a place reads of its source."""
        return self.known.setdefault((n.arg, at), len(self.known) + 1)


class _Indices:
    """Places as `pull` has them: an index, and where it is wanted at all."""

    def whole(self, n: TensorNode) -> tuple[Indices, Any]:
        """All elements of a node."""
        return tuple(axis(f"p{d}", e) if e != 1 else ZERO for d, e in enumerate(n.shape)), None

    def through(self, n: TensorNode, at: tuple[Indices, Any]) -> tuple[Indices, Any]:
        """What a view at a place reads of its source."""
        index, mask = n.arg(at[0])
        return index, at[1] if mask is None else mask if at[1] is None else at[1] & mask


class _Crowds:
    """Goes through a graph, readers before what they read."""

    def __init__(self, graph: Graph, stored: Callable[[TensorNode], bool], kind: _Views | _Indices) -> None:
        self.graph, self.stored, self.kind = graph, stored, kind
        self.behind: dict[int, set[int]] = {}
        self.most = min(OPERATIONS, sum(n.op in ("elementwise", "gather") for n in graph.order))
        self.cut: dict[int, TensorNode] = {}
        self.places: dict[int, Places] = {id(n): {} for n in graph.order}

    def too_many(self) -> bool:
        """Whether any node is computed at too many places."""
        return any(self._crowd(n) for n in reversed(self.graph.order))

    def found(self) -> list[TensorNode]:
        """The nodes to store, so that none is."""
        for n in self.graph.order:
            self.behind[id(n)] = self._operations(n)
        for n in reversed(self.graph.order):
            self._crowd(n)
        return list(self.cut.values())

    def _operations(self, n: TensorNode) -> set[int]:
        own = {id(n)} if n.op in ("elementwise", "gather") else set()
        return own.union(*(self.behind[id(s)] for s in n.src if not self._memory(s))) if not self.graph.leaf(n) else own

    def _memory(self, n: TensorNode) -> bool:
        return self.graph.leaf(n) or id(n) in self.cut or self.stored(n)

    def _crowd(self, n: TensorNode) -> bool:
        """Take notice of a node: tell its sources where they are read. Whether its places are too many."""
        if self.graph.leaf(n):
            return False
        mine = self.places.pop(id(n))
        most = max(map(len, mine.values()), default=0)
        work = len(self.behind[id(n)]) if self.behind else self.most
        crowd = n.op in ("elementwise", "gather") and most * work > EVALUATIONS
        if crowd and self.behind:
            self.cut[id(n)] = n
        if not mine or self._memory(n):
            mine = {id(n): {self.kind.whole(n): None}}
        for i, s in enumerate(n.src):
            if not self.graph.leaf(s):
                self._tell(n, i, s, mine)
        return crowd

    def _tell(self, n: TensorNode, i: int, s: TensorNode, mine: Places) -> None:
        into = self.places[id(s)]
        for root, places in mine.items():
            found = into.setdefault(root, {})
            if n.op in ("reduce", "scan", "scatter", "host") or (n.op == "gather" and i == 0) or (s.shape != n.shape and n.op != "view"):
                found[self.kind.whole(s)] = None  # a value of its own, or a place that is read from memory
            elif n.op == "view":
                found.update((self.kind.through(n, at), None) for at in places)
            else:
                found.update(places)
