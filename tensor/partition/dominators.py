"""The graph behind some outputs: order, readers, and the nodes that every path to the outputs passes (post-dominators)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush

from ..graph.nodes import FROM_OUTSIDE, TensorNode, walk


class Graph:
    """The nodes behind `outs`, down to those that have memory. A node is known by its `id`."""

    def __init__(self, outs: Sequence[TensorNode]) -> None:
        self.outs = tuple(outs)
        self.outputs = {id(o) for o in outs}
        self.order = list(walk(outs))
        self.place = {id(n): i for i, n in enumerate(self.order)}
        self.node = {id(n): n for n in self.order}

    def leaf(self, n: TensorNode) -> bool:
        """Whether the node's values are there before anything runs."""
        return n.data is not None or n.op in FROM_OUTSIDE

    @cached_property
    def readers(self) -> dict[int, list[TensorNode]]:
        """The nodes that read a node, each once."""
        out: dict[int, list[TensorNode]] = {id(n): [] for n in self.order}
        for n in self.order:
            if not self.leaf(n):
                for s in dict.fromkeys(n.src):
                    out[id(s)].append(n)
        return out

    @cached_property
    def dominators(self) -> dict[int, TensorNode | None]:
        """The immediate post-dominator of each node: the first node that every path to the outputs passes (None: the
        end itself). Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm" (2001), on a graph without circles."""
        found: dict[int, TensorNode | None] = {}
        for n in reversed(self.order):
            users = self.readers[id(n)]
            if id(n) in self.outputs or not users:
                found[id(n)] = None
                continue
            d: TensorNode | None = users[0]
            for u in users[1:]:
                d = self._common(d, u, found)
            found[id(n)] = d
        return found

    def _common(self, a: TensorNode | None, b: TensorNode | None, found: dict[int, TensorNode | None]) -> TensorNode | None:
        while a is not b:
            if a is None or b is None:
                return None
            if self.place[id(a)] < self.place[id(b)]:
                a = found[id(a)]
            else:
                b = found[id(b)]
        return a

    def passed(self, n: TensorNode) -> Iterator[TensorNode]:
        """The post-dominators of a node, nearest first."""
        d = self.dominators[id(n)]
        while d is not None:
            yield d
            d = self.dominators[id(d)]

    def ahead(self, n: TensorNode, stop: TensorNode | None = None) -> Iterator[TensorNode]:
        """The nodes that depend on `n`, in order; none after `stop`."""
        last = len(self.order) if stop is None else self.place[id(stop)]
        queue = [self.place[id(m)] for m in self.readers[id(n)]]
        seen = set(queue)
        heapify(queue)
        while queue:
            at = heappop(queue)
            if at > last:
                return
            yield self.order[at]
            for m in self.readers[id(self.order[at])]:
                i = self.place[id(m)]
                if i not in seen:
                    seen.add(i)
                    heappush(queue, i)

    def between(self, n: TensorNode, end: TensorNode) -> list[TensorNode]:
        """The nodes on paths from `n` to `end`, `end` with them, without `n`; in order."""
        out = list(self.ahead(n, end))
        behind = {id(end)}
        for m in reversed(out):
            if id(m) in behind:
                behind.update(id(s) for s in m.src)
        return [m for m in out if id(m) in behind]

    def depends(self, n: TensorNode, on: TensorNode) -> bool:
        """Whether computing `n` needs `on`."""
        return bool(self.behind[self.place[id(n)]] >> self.place[id(on)] & 1)

    @cached_property
    def behind(self) -> list[int]:
        """By place, the places of a node and of all that it needs, as a set of bits."""
        out: list[int] = []
        for i, n in enumerate(self.order):
            bits = 1 << i
            if not self.leaf(n):
                for s in n.src:
                    bits |= out[self.place[id(s)]]
            out.append(bits)
        return out
