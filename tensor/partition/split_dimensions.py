"""Attention over dimensions that were flattened, as attention over the dimensions behind them.

Many write batch and heads as one dimension around their products, and apart where a mask is added: scores [b·h, s, s] are seen as
[b, h, s, s] and seen back again. Every such view divides indices, so that no element of the product belongs to one place of what follows,
and the chain could not run in tiles. Here such a product, and all that is computed from its elements, has the dimensions apart: the views
around it are then axes that change places, or nothing. What lies in memory lies as before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from ...ir import index as ix
from ...ir.node import Node
from ...ir.node import walk as walk_index
from ..graph import index_maps as maps
from ..graph.index_maps import IndexMap, Shape
from ..graph.nodes import TensorNode, interned_in, make
from ..graph.primitives import elementwise, reduce, reshape, view
from ..graph.symbolic_sizes import symbolic
from .dominators import Graph
from .fold_search import find_folds
from .heads import is_contraction

Parts = tuple[int, ...]
"""The sizes of the parts of one dimension, outer first; its own size alone where it is whole."""


def apart(outs: Sequence[TensorNode]) -> tuple[Sequence[TensorNode], Mapping[int, TensorNode]]:
    """The same results, computed from products whose flattened dimensions are apart, where such a product then runs in tiles; `outs`
    itself where there is none. And by the id of each new node, the node of the given graph that has its elements in this order."""
    graph = Graph(outs)
    wanted: dict[int, tuple[Parts, ...]] = {}
    chains: dict[int, set[int]] = {}
    for n in graph.order:
        if not graph.leaf(n) and is_contraction(n) and not symbolic(n.shape):
            chain = _chain(graph, n)
            parts = _parts(graph, n) if chain else None
            if parts:
                wanted[id(n)], chains[id(n)] = parts, chain
    while wanted:
        with interned_in({}):
            rebuilt = _Apart(graph, wanted, set().union(*(chains[i] for i in wanted)))
            new = rebuilt.outs()
        inside = find_folds(Graph(new), ()).inside
        kept = {i: p for i, p in wanted.items() if id(rebuilt.found[i][0]) in inside}
        if len(kept) == len(wanted):
            return new, rebuilt.behind
        wanted = kept
    return outs, {}


# which ------------------------------------------------------------------------------------------------------
def _parts(graph: Graph, head: TensorNode) -> tuple[Parts, ...] | None:
    """The parts of a product's dimensions that views around it show; None where all dimensions are whole."""
    found: dict[int, Parts] = {}
    for by in (*_views_ahead(graph, head), *_views_behind(graph, head)):
        for d, p in by.items():
            if found.setdefault(d, p) != p:
                return None
    return tuple(found.get(d, (n,)) for d, n in enumerate(head.shape)) if found else None


def _chain(graph: Graph, head: TensorNode) -> set[int]:
    """The ids of the pointwise work, views and reductions by rows between a product and the products that read it, with these; nothing
    where no row is reduced."""
    rows = products = False
    found, todo = set[int](), [head]
    while todo:
        for m in graph.readers[id(todo.pop())]:
            contraction = is_contraction(m)
            if id(m) in found or not (contraction or m.op in ("elementwise", "cast", "view", "reduce")):
                continue
            found.add(id(m))
            products |= contraction
            rows |= m.op == "reduce" and not contraction
            if not contraction and id(m) not in graph.outputs:
                todo.append(m)
    return found if rows and products else set()


def _views_ahead(graph: Graph, head: TensorNode) -> Iterator[dict[int, Parts]]:
    """What views of the product, or of pointwise work on it, take its dimensions apart into."""
    seen, todo = set[int](), [head]
    while todo:
        for m in graph.readers[id(todo.pop())]:
            if id(m) in seen:
                continue
            seen.add(id(m))
            if m.op in ("elementwise", "cast"):
                todo.append(m)
            elif m.op == "view" and m.arg.mask is None:
                yield {d: p for d, (i, n) in enumerate(zip(m.arg.indices, m.arg.source)) if (p := _radix(i, n))}


def _radix(i: Node, size: int) -> Parts | None:
    """The extents of the axes that an index counts through in order, last ones fastest: of 24·a + 8·b + c (4, 3, 8)."""
    terms, c = ix.parts(i)
    found = sorted(terms.items(), key=lambda t: -t[1])
    if len(found) < 2 or c or any(a.op != "axis" or not isinstance(a.arg.extent, int) for a, _ in found):
        return None
    extents = tuple(a.arg.extent for a, _ in found)
    steps = [k for _, k in found]
    inorder = steps[-1] == 1 and all(k == step * n for (k, step), n in zip(pairwise(steps), extents[1:]))
    return extents if inorder and prod(extents) == size else None


def _views_behind(graph: Graph, head: TensorNode) -> Iterator[dict[int, Parts]]:
    """What the views that the product reads through divide its dimensions into."""
    over = head.arg[1]
    kept = [d for d in range(len(head.src[0].shape)) if d not in over]
    todo = [head.src[0]]
    while todo:
        n = todo.pop()
        if graph.leaf(n):
            continue
        if n.op in ("elementwise", "cast"):
            todo.extend(n.src)
        elif n.op == "view":
            by = n.arg
            while n.src[0].op == "view" and not graph.leaf(n.src[0]) and maps.composable(by, n.src[0].arg):
                n = n.src[0]
                by = maps.compose(by, n.arg)
            yield {kept.index(d): p for d, p in _divided(by).items() if d in kept}


def _divided(by: IndexMap) -> dict[int, Parts]:
    """The dimensions of a map's result whose axes it divides, with the parts by which it does."""
    place = {a: d for d, a in enumerate(by.axes) if a.op == "axis"}
    steps: dict[int, set[int]] = {}
    for i in by.indices:
        for n in walk_index(i):
            if n.op in ("div", "mod") and n.src[0] in place:
                steps.setdefault(place[n.src[0]], set()).add(n.arg)
    found = {}
    for d, own in steps.items():
        chain = [by.shape[d], *sorted((s for s in own if s < by.shape[d]), reverse=True), 1]
        if all(big % small == 0 for big, small in pairwise(chain)) and len(chain) > 2:
            found[d] = tuple(big // small for big, small in pairwise(chain))
    return found


# apart ------------------------------------------------------------------------------------------------------
def _flat(parts: Iterable[Parts]) -> Shape:
    return tuple(n for p in parts for n in p)


class _Apart:
    """Two forms of what a graph's nodes become: `found`, by id of an old node, of the shape that its dimensions' parts make, where it is in
    the chain of a wanted product; and `plain`, of the old shape. `behind`: by id of a new node, the old one."""

    def __init__(self, graph: Graph, wanted: dict[int, tuple[Parts, ...]], chain: set[int]) -> None:
        self.graph, self.wanted = graph, wanted
        self.found: dict[int, tuple[TensorNode, tuple[Parts, ...]]] = {}
        self.plain: dict[int, TensorNode] = {}
        self.behind: dict[int, TensorNode] = {}
        for n in graph.order:
            if graph.leaf(n) or not (id(n) in wanted or any(id(s) in self.plain for s in n.src)):
                continue
            known = id(n) in chain and any(id(s) in self.found for s in n.src)
            made = self._in_parts(n) if known or id(n) in wanted else None
            if made is not None:
                self.found[id(n)] = made
            self.plain[id(n)] = self._rebuilt(n) if made is None or n.op != "reduce" else self._new(n, reshape(made[0], n.shape))

    def outs(self) -> list[TensorNode]:
        """The results, in their own shapes."""
        found = [self.whole(o) for o in self.graph.outs]
        self.behind.update((id(new), o) for new, o in zip(found, self.graph.outs) if id(new) in self.behind)
        return found

    def whole(self, n: TensorNode) -> TensorNode:
        """What stands for a node, in the node's own shape."""
        return self.plain.get(id(n), n)

    def _rebuilt(self, n: TensorNode) -> TensorNode:
        """A node with what its sources have become."""
        src = tuple(map(self.whole, n.src))
        if n.op == "view":
            return self._new(n, view(src[0], n.arg))
        return self._new(n, make(n.op, src, n.arg, n.shape, n.dtype))

    def _new(self, old: TensorNode, made: TensorNode) -> TensorNode:
        """Take down what a new node stands for."""
        if id(made) not in self.graph.node and id(made) not in self.behind:
            self.behind[id(made)], made.line = old, old.line
        return made

    def _in_parts(self, n: TensorNode) -> tuple[TensorNode, tuple[Parts, ...]] | None:
        """A node in parts; None where it has to be whole."""
        if n.op == "reduce":
            return self._reduction(n)
        if n.op in ("elementwise", "cast"):
            known = [self.found[id(s)][1] for s in n.src if id(s) in self.found]
            parts = tuple(max(every, key=len) for every in zip(*known))
            agree = all(p in ((size,), own) for k in known for p, own, size in zip(k, parts, n.shape))
            return (self._pointwise(n, parts), parts) if agree else None
        if n.op == "view":
            source, parts = self.found[id(n.src[0])]
            by = maps.compose(n.arg, maps.reshape(_flat(parts), n.arg.source))
            divided = _divided(by)
            parts = tuple(divided.get(d, (e,)) for d, e in enumerate(n.shape))
            by = maps.compose(maps.reshape(n.shape, _flat(parts)), by)
            return None if by.divides else (self._new(n, view(source, by)), parts)
        return None

    def _reduction(self, n: TensorNode) -> tuple[TensorNode, tuple[Parts, ...]] | None:
        (source,), (combine, over) = n.src, n.arg
        parts = self.wanted.get(id(n))
        if parts is None:
            of_source = self.found[id(source)][1]
            if any(len(of_source[d]) > 1 for d in over):
                return None
            parts = tuple(p for d, p in enumerate(of_source) if d not in over)
        rest = iter(parts)
        every = tuple((e,) if d in over else next(rest) for d, e in enumerate(source.shape))
        first = [sum(map(len, every[:d])) for d in over]
        return self._new(n, reduce(combine, self._as(source, every), first)), parts

    def _pointwise(self, n: TensorNode, parts: tuple[Parts, ...]) -> TensorNode:
        src = [self._as(s, parts) for s in n.src]
        if n.op == "elementwise" and n.arg != "rounded":
            return self._new(n, elementwise(n.arg, *src))
        return self._new(n, make(n.op, (src[0],), n.arg, src[0].shape, n.dtype))  # to a type of its own

    def _as(self, n: TensorNode, parts: tuple[Parts, ...]) -> TensorNode:
        """A node of which the dimensions are in parts. Pointwise work before a product is done on the parts, where it can be."""
        to = _flat(parts)
        known = self.found.get(id(n))
        if known is not None and known[1] == parts:
            return known[0]
        if to == n.shape:
            return self.whole(n)
        if known is None and not self.graph.leaf(n):
            if n.op in ("elementwise", "cast"):
                return self._pointwise(n, parts)
            if n.op == "view":
                ways = list(self._ways(n, to))
                best = next((w for w in ways if w[1].plain is not None), None) or next((w for w in ways if not w[1].divides), None)
                if best is not None:
                    return self._new(n, view(*best))
        return self._new(n, reshape(self.whole(n), to))

    def _ways(self, n: TensorNode, to: Shape) -> Iterator[tuple[TensorNode, IndexMap]]:
        """What a view reads, and how its elements lie there in the shape `to`; then the same through the views behind."""
        source, by = n.src[0], maps.compose(maps.reshape(n.shape, to), n.arg)
        while id(source) not in self.found:
            yield self.whole(source), by
            if source.op != "view" or self.graph.leaf(source) or not maps.composable(by, source.arg):
                return
            source, by = source.src[0], maps.compose(by, source.arg)
        made = self.found[id(source)][0]
        yield made, maps.compose(by, maps.reshape(made.shape, source.shape))
