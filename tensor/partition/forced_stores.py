"""Nodes that must get memory whatever they cost, so that kernels stay within what lowering and devices take.

A kernel has a limit of operations and arrays, of divisions in its indices, and of places at which it computes one node. And a value
that is compared with an extreme of itself is computed once, since another kernel might compute it with other bits."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from ...ir.node import reachable
from ..graph.index_maps import Indices
from ..graph.nodes import TensorNode
from ..graph.primitives import COMPARISONS
from ..graph.symbolic_sizes import axis
from .dominators import Graph
from .heads import is_contraction
from .loop_axes import ZERO
from .store_rules import FLOPS_PER_BYTE, LAUNCH, work

OPERATIONS = 160
"""Nodes of a kernel's expressions."""
ARRAYS = 48
"""Arrays that a kernel reads (CUDA and OpenCL promise a few kilobytes of parameters)."""

PIECES = 4
"""Arrays that are joined along an axis and read through the join. A kernel has code for each of them in every place that reads it, and
networks that join each layer's results to all earlier ones would have kernels that grow with their depth."""

TURNS = 6
"""Reshapes, each behind others that no reshape is one with (a permutation between them), that indices are followed through:
expressions of divisions and remainders grow threefold with each."""


def deep_reshapes(graph: Graph, stored: Callable[[TensorNode], bool]) -> list[TensorNode]:
    """Nodes to store so that no index is followed through more than `TURNS` views that divide indices. (A reshape of what is
    in memory is free.)"""
    level: dict[int, int] = {}
    found: dict[int, TensorNode] = {}

    def memory(s: TensorNode) -> bool:
        return graph.leaf(s) or id(s) in found or stored(s)

    for n in graph.order:
        if graph.leaf(n):
            continue
        level[id(n)] = max((0 if memory(s) else level[id(s)] for s in n.src), default=0)
        if n.op == "view" and n.arg.divides and not (n.arg.reshape and memory(n.src[0])):
            if level[id(n)] == TURNS:
                found[id(n.src[0])] = n.src[0]
                level[id(n)] = 0
            level[id(n)] += 1
    return list(found.values())


def reshaped(graph: Graph, stored: Container[int]) -> list[TensorNode]:
    """Nodes that are read in a shape of which no index of theirs can be made: as memory they can. (A reshape that is stored itself is
    written at its places, which can be said.) `stored`: ids."""
    views = (n for n in graph.order if n.op == "view" and n.arg.lies and id(n) not in stored and not graph.leaf(n))
    return [n.src[0] for n in views if not graph.leaf(n.src[0]) and id(n.src[0]) not in stored]


AGAIN = 1.5
"""How often windows read an element of a join that is stored: which of its arrays it is from is found out each time."""


def joined(graph: Graph, stored: Callable[[TensorNode], bool]) -> list[TensorNode]:
    """Joins to store so that no kernel reads more than `PIECES` arrays through one (a join of joins counts all of their pieces), and none
    that windows read again and again."""
    pieces: dict[int, int] = {}
    found: dict[int, TensorNode] = {}
    for n in graph.order:
        if graph.leaf(n):
            continue
        behind = [1 if graph.leaf(s) or id(s) in found or stored(s) else pieces[id(s)] for s in n.src]
        pieces[id(n)] = sum(behind[1:]) if _is_join(n) else max(behind, default=1)
        if _is_join(n) and (pieces[id(n)] > PIECES or _again(graph, n) >= AGAIN):
            found[id(n)] = n
    return [n for n in found.values() if not stored(n)]


def _again(graph: Graph, join: TensorNode) -> float:
    """How often reductions that are no contraction read an element of a join through windows, at most: views of more dimensions."""
    most, stack, seen = 0.0, [(join, 1.0)], set[int]()
    while stack:
        n, often = stack.pop()
        for r in graph.readers[id(n)]:
            if r.op == "reduce" and not is_contraction(r):
                most = max(most, often)
            elif r.op in ("view", "elementwise", "cast") and id(r) not in seen:
                seen.add(id(r))
                stack.append((r, often * r.size / max(1, n.size) if r.op == "view" and len(r.shape) > len(n.shape) else often))
    return most


def _is_join(n: TensorNode) -> bool:
    """Whether `n` takes one of two arrays by place, as `concat` writes it."""
    return n.op == "elementwise" and n.arg == "where" and all(s.op == "view" and s.arg.mask is not None for s in n.src[1:])


def too_large(graph: Graph, stored: Callable[[TensorNode], bool]) -> list[TensorNode]:
    """Nodes to store so that no node has more than `OPERATIONS` operations or `ARRAYS` arrays behind it, down to what
    `stored` says is in memory."""
    behind: dict[int, set[int]] = {}
    arrays: dict[int, set[int]] = {}
    found: list[TensorNode] = []
    cut_at: set[int] = set()

    def memory(s: TensorNode) -> bool:
        return graph.leaf(s) or id(s) in cut_at or stored(s)

    for n in graph.order:
        if graph.leaf(n):
            continue
        behind[id(n)], arrays[id(n)] = _union(n, behind, arrays, memory)
        while len(behind[id(n)]) > OPERATIONS or len(arrays[id(n)]) > ARRAYS:
            cut = _smallest(graph, n, behind, arrays)
            if cut is None:
                break
            found.append(cut)
            cut_at.add(id(cut))
            inside = _nodes_behind(graph, cut, n, memory)
            for m in map(graph.order.__getitem__, inside):  # what lies behind the cut is no longer behind these
                behind[id(m)], arrays[id(m)] = _union(m, behind, arrays, memory)
    return found


def _nodes_behind(graph: Graph, cut: TensorNode, n: TensorNode, memory: Callable[[TensorNode], bool]) -> list[int]:
    """Places of `n` and of what it computes from, down to memory and after `cut`; in order. (Views too: they hold no
    operations, but what lies behind them.)"""
    after = graph.place[id(cut)]
    found = reachable([n], lambda m: [s for s in m.src if graph.place[id(s)] > after and not memory(s)])
    return sorted(graph.place[id(m)] for m in found)


def _union(
    n: TensorNode, behind: dict[int, set[int]], arrays: dict[int, set[int]], memory: Callable[[TensorNode], bool]
) -> tuple[set[int], set[int]]:
    nodes: set[int] = set() if n.op in ("view", "const", "iota") else {id(n)}  # indices and numbers are no operations
    reads: set[int] = set()
    for s in n.src:
        if memory(s):
            reads.add(id(s))
        else:
            nodes |= behind[id(s)]
            reads |= arrays[id(s)]
    return nodes, reads


def _smallest(graph: Graph, n: TensorNode, behind: dict[int, set[int]], arrays: dict[int, set[int]]) -> TensorNode | None:
    """Behind `n`, of the nodes with at least half of what is allowed, the one of fewest bytes; the latest of equals."""
    best: TensorNode | None = None
    for i in behind[id(n)]:
        m = graph.node[i]
        if m is n or m.op in ("view", "const", "iota") or (len(behind[i]) < OPERATIONS // 2 and len(arrays[i]) < ARRAYS // 2):
            continue
        if best is None or (m.size * m.dtype.size, -graph.place[i]) < (best.size * best.dtype.size, -graph.place[id(best)]):
            best = m
    return best


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
        self.flops = {id(n): work(n) for n in graph.order}
        self.most = min(OPERATIONS, sum(n.op in ("elementwise", "gather") for n in graph.order))
        self.bound = min(float(OPERATIONS), sum(self.flops.values()))
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
        own = {id(n)} if self.flops[id(n)] else set[int]()
        return own.union(*(self.behind[id(s)] for s in n.src if not self._memory(s))) if not self.graph.leaf(n) else own

    def _memory(self, n: TensorNode) -> bool:
        return self.graph.leaf(n) or id(n) in self.cut or self.stored(n)

    def _crowd(self, n: TensorNode) -> bool:
        """Take notice of a node: tell its sources where they are read. Whether its places are too many."""
        if self.graph.leaf(n):
            return False
        mine = self.places.pop(id(n))
        most = max(map(len, mine.values()), default=0)
        crowd = n.op in ("elementwise", "gather") and most > 1 and self._too_often(n, most)
        if crowd and self.behind:
            self.cut[id(n)] = n
        if not mine or self._memory(n):
            mine = {id(n): {self.kind.whole(n): None}}
        for i, s in enumerate(n.src):
            if not self.graph.leaf(s):
                self._tell(n, i, s, mine)
        return crowd

    def _too_often(self, n: TensorNode, places: int) -> bool:
        """Whether computing a node at so many places is more than a kernel takes, or costs more than storing it once."""
        inside = self.behind[id(n)] if self.behind else None
        count = self.most if inside is None else sum(self.graph.node[i].op != "view" for i in inside)
        flops = self.bound if inside is None else sum(self.flops[i] for i in inside)
        again = (places - 1) * n.size * flops / FLOPS_PER_BYTE
        return places * count > EVALUATIONS or again > LAUNCH + 2 * n.size * n.dtype.size

    def _tell(self, n: TensorNode, i: int, s: TensorNode, mine: Places) -> None:
        into = self.places[id(s)]
        for root, places in mine.items():
            found = into.setdefault(root, {})
            if (
                n.op in ("reduce", "scan", "scatter", "host", "loop", "kernel")
                or (n.op == "gather" and i == 0)
                or (s.shape != n.shape and n.op != "view")
            ):
                found[self.kind.whole(s)] = None  # a value of its own, or a place that is read from memory
            elif n.op == "view":
                found.update((self.kind.through(n, at), None) for at in places)
            else:
                found.update(places)


_CHOICES = frozenset({"max", "min", "neg", "abs", "where", "rounded"})
_KNOWN = frozenset({"tan", "asin", "acos", "atan2"})


def compared_with_extremes(graph: Graph, memory: Callable[[TensorNode], bool]) -> list[TensorNode]:
    """Nodes to store, behind values that are compared with what is chosen from them; down to what `memory` says."""
    found: dict[TensorNode, None] = {}

    def ends(m: TensorNode) -> bool:
        return graph.leaf(m) or memory(m)

    def behind(m: TensorNode) -> Sequence[TensorNode]:
        through = m.op in ("elementwise", "cast", "view", "gather", "after") and not _varies(m)
        return [s for s in m.src if not ends(s)] if through else ()

    for n in graph.order:
        if n.op == "elementwise" and n.arg in COMPARISONS and n.src[0] is not n.src[1] and n.src[0].dtype.is_float:
            one, two = (dict.fromkeys(reachable([s], _chosen_from)) for s in n.src)
            for m in reachable((m for m in one if m in two and m.op != "const" and not ends(m)), behind):
                if _varies(m):
                    found[m] = None
    return list(found)


def _chosen_from(n: TensorNode) -> Sequence[TensorNode]:
    """The nodes whose elements a node's are, or were chosen among."""
    if n.op in ("view", "cast", "gather", "after") or (n.op == "scatter" and n.arg.combine in _CHOICES):
        return n.src[:1]
    chosen = (n.op == "elementwise" and n.arg in _CHOICES) or (n.op in ("reduce", "scan") and n.arg[0] in _CHOICES)
    return n.src if chosen else ()


def _varies(n: TensorNode) -> bool:
    """Whether a node's bits depend on the kernel that computes it."""
    if n.op != "elementwise" or not n.dtype.is_float:
        return False
    return n.arg in _KNOWN or (n.arg == "div" and _rooted(n.src[1]))


def _rooted(n: TensorNode) -> bool:
    """Whether a divisor is a root, or a product with one."""
    while n.op in ("view", "cast"):
        n = n.src[0]
    if n.op == "elementwise" and n.arg == "mul":
        return any(map(_rooted, n.src))
    return n.op == "elementwise" and n.arg == "sqrt"
