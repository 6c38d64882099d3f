"""Kernels stay within what lowering and devices take: long chains are cut where few bytes cross."""

from __future__ import annotations

from collections.abc import Callable

from ..graph.node import TensorNode
from ..graph.order import Graph

OPERATIONS = 160
"""Nodes of a kernel's expressions."""
ARRAYS = 48
"""Arrays that a kernel reads (CUDA and OpenCL promise a few kilobytes of parameters)."""

TURNS = 6
"""Reshapes, each behind others that no reshape is one with (a permutation between them), that indices are followed through:
expressions of divisions and remainders grow threefold with each."""


def turned(graph: Graph, stored: Callable[[TensorNode], bool]) -> list[TensorNode]:
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


def cuts(graph: Graph, stored: Callable[[TensorNode], bool]) -> list[TensorNode]:
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
            inside = _between(graph, cut, n, memory)
            for m in map(graph.order.__getitem__, inside):  # what lies behind the cut is no longer behind these
                behind[id(m)], arrays[id(m)] = _union(m, behind, arrays, memory)
    return found


def _between(graph: Graph, cut: TensorNode, n: TensorNode, memory: Callable[[TensorNode], bool]) -> list[int]:
    """Places of `n` and of what it computes from, down to memory and after `cut`; in order. (Views too: they hold no
    operations, but what lies behind them.)"""
    found, stack = {graph.place[id(n)]}, [n]
    while stack:
        for s in stack.pop().src:
            place = graph.place[id(s)]
            if place > graph.place[id(cut)] and place not in found and not memory(s):
                found.add(place)
                stack.append(s)
    return sorted(found)


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
