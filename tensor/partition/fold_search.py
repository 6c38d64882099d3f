"""Folds: contractions whose result never reaches memory, because every reader runs over it in tiles.

Attention is q·kᵀ with readers that reduce over the keys; its backward pass reads the same scores in three sums. A
head is absorbed where everything that reads it element by element ends in contractions over one of its dimensions
(or, where no contraction reads it, in reductions over one), and computing it again in each reader costs less than its
memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ..graph.nodes import TensorNode
from ..graph.symbolic_sizes import most, product
from .dominators import Graph
from .heads import batches, is_contraction, is_head
from .store_rules import FLOPS_PER_BYTE

MOST_STATE = 512
"""Elements that a row of an absorbing contraction may hold in addition to the absorbed ones: they are a tile's state."""
ROWS = 32
"""Rows that a product's reductions must leave (a mean of all its elements leaves one): a fold's tiles go along the reduced
dimensions, so lanes, register tiles and threads have nothing but rows."""
LOST = 2.0
"""What a product in tiles of rows costs beside one that is stored, as multiply-adds for each step of its sum: its register tile has to end
where the reduction is, and panels are not packed for it. Sums of up to 27 steps were quicker in tiles (0.4 to 0.9 of the time of two
kernels), those of 128 steps and more never (1.1 to 2.4 times), measured at AVX2 and AVX-512 for reductions of products and convolutions."""
LARGE = 1 << 28
"""Bytes of a product from which it is not stored for its rows' sake, whatever that costs: distances of all pairs are more than memory holds."""
MOST_RECOMPUTED = 3.0
"""A head is computed again while that costs up to so many times its memory traffic: what it saves is memory, too."""


@dataclass
class Frontier:
    """What reads a head element by element. `dims`: by id of a node, the head's dimension behind each of its own.
    `heads` and `rows`: the contractions and the other reductions where it ends, with the head's dimensions they reduce."""

    source: TensorNode
    dims: dict[int, tuple[int | None, ...]] = field(default_factory=dict)
    heads: dict[int, tuple[TensorNode, frozenset[int]]] = field(default_factory=dict)
    rows: dict[int, tuple[TensorNode, frozenset[int]]] = field(default_factory=dict)


@dataclass
class Folds:
    """`absorbed`: by id of an absorbing contraction (or last reduction) the heads it computes in tiles. `inside`: ids of
    the nodes between. `together`: contractions that one kernel computes. `order`: by id of an absorbing contraction, its
    dimensions in the order of the absorbed one's: loops run so, whatever the graph's transposes say."""

    absorbed: dict[int, tuple[TensorNode, ...]] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)
    together: list[list[TensorNode]] = field(default_factory=list)
    order: dict[int, tuple[int, ...]] = field(default_factory=dict)


def find_folds(graph: Graph, banned: Collection[int]) -> Folds:
    """The folds of a graph; heads whose id is in `banned` are not absorbed."""
    found = Folds()
    frontiers = [f for n in graph.order if not graph.leaf(n) and is_contraction(n) and id(n) not in banned and (f := _frontier(graph, n))]
    first = [f for f in frontiers if f.heads and _chained(f) and _worth(f)]
    taken = {id(f.source) for f in first}
    readers = {h for f in first for h in f.heads}
    more = [f for f in frontiers if f.heads and not f.rows and id(f.source) not in taken | readers and _reads_fold(f, first)]
    for f in (*first, *more):
        _absorb(found, f, list(f.heads))
    for f in frontiers:
        if not f.heads and f.rows and id(f.source) not in readers and _worth_of_rows(f):
            last = _last(graph, f)
            if last is not None:
                _absorb(found, f, [id(last)])
    _pair(graph, found, first)
    return found


def _absorb(found: Folds, f: Frontier, readers: list[int]) -> None:
    for r in readers:
        if r in f.heads:
            head, _ = f.heads[r]
            kept = [f.dims[id(head.src[0])][d] for d in range(len(head.src[0].shape)) if d not in head.arg[1]]
            found.order[r] = tuple(sorted(range(len(kept)), key=lambda d: (kept[d] is None, kept[d] or 0)))
        found.absorbed[r] = (*found.absorbed.get(r, ()), f.source)
    found.inside |= set(f.dims) | {id(f.source)}


def _frontier(graph: Graph, source: TensorNode) -> Frontier | None:
    """None where an element of `source` is an output, is read by anything but pointwise work and reductions, or moves
    in a way that mixes dimensions."""
    f = Frontier(source)
    f.dims[id(source)] = tuple(range(len(source.shape)))
    if id(source) in graph.outputs:
        return None
    queue, seen = [graph.place[id(m)] for m in graph.readers[id(source)]], set()
    heapify(queue)
    while queue:
        place = heappop(queue)
        if place in seen:
            continue
        seen.add(place)
        m = graph.order[place]
        if m.op == "reduce":
            over = frozenset(d for k in m.arg[1] if (d := f.dims[id(m.src[0])][k]) is not None)
            if not over:
                return None
            (f.heads if is_contraction(m) else f.rows)[id(m)] = (m, over)
            if (
                is_contraction(m)
                and product(n for d, n in enumerate(m.src[0].shape) if d not in m.arg[1] and f.dims[id(m.src[0])][d] is None) > MOST_STATE
            ):
                return None
            continue
        if id(m) in graph.outputs or is_head(m):
            return None
        dims = _moved(m, f)
        if dims is None:
            return None
        f.dims[id(m)] = dims
        for r in graph.readers[id(m)]:
            heappush(queue, graph.place[id(r)])
    return f


def _moved(m: TensorNode, f: Frontier) -> tuple[int | None, ...] | None:
    """The head's dimensions behind those of a pointwise node or view."""
    if m.op in ("elementwise", "cast"):
        given = [f.dims[id(s)] for s in m.src if id(s) in f.dims]
        return given[0] if all(g == given[0] for g in given) else None
    if m.op == "view" and m.arg.plain is not None:
        inner = f.dims[id(m.src[0])]
        back = {p: inner[d] for d, p in enumerate(m.arg.plain) if p is not None}
        lost = [d for d, p in enumerate(m.arg.plain) if p is None and inner[d] is not None and f.source.shape[inner[d] or 0] not in (0, 1)]
        return None if lost else tuple(back.get(d) for d in range(len(m.shape)))
    return None


def _chained(f: Frontier) -> bool:
    """Whether a contraction over some dimension has other reductions of the head over the same dimension beside it (which it
    reads, or which divide it), and every reduction belongs to such a chain."""
    chains = {over for _, over in f.heads.values()} & {over for _, over in f.rows.values()}
    return bool(chains) and all(o in chains for _, o in f.rows.values())


def _reads_fold(f: Frontier, first: list[Frontier]) -> bool:
    """Whether all contractions that read a head run over an absorbed one anyway."""
    return any(all(h in g.heads and g.heads[h][1] == over for h, (_, over) in f.heads.items()) for g in first)


def _worth(f: Frontier) -> bool:
    """Whether computing the head in every reader costs less than a few times its store and loads."""
    source = f.source
    length, nbytes = product(source.src[0].shape[d] for d in source.arg[1]), product(source.shape) * source.dtype.size
    extremes = any(r.arg[0] != "add" for r, _ in f.rows.values())
    if not extremes and not batches(source) and nbytes < LARGE:
        # by one matrix for all rows, before a norm: its tiles would compute it for the mean, for the variance and for the sum
        return False
    groups = {over for _, over in f.heads.values()}
    kernels = max(1, len(groups) + sum(1 for h, o in f.heads.values() if o == frozenset()))
    again = (kernels - 1) * length / FLOPS_PER_BYTE
    return bool(again <= MOST_RECOMPUTED * source.dtype.size * (1 + kernels))


def _worth_of_rows(f: Frontier) -> bool:
    """Whether a head that only reductions of rows read costs less in tiles of them than stored and loaded."""
    source = f.source
    length, nbytes = product(source.src[0].shape[d] for d in source.arg[1]), product(source.shape) * source.dtype.size
    return bool(nbytes >= LARGE or LOST * length / FLOPS_PER_BYTE < 2 * source.dtype.size)


def _last(graph: Graph, f: Frontier) -> TensorNode | None:
    """The node that all reductions of a head lead to: its kernel's end. None where they part, or leave too few rows."""
    overs = {o for _, o in f.rows.values()}
    if len(overs) != 1:
        return None
    (over,) = overs
    if product(n for d, n in enumerate(f.source.shape) if d not in over) < ROWS:
        return None
    for n in graph.passed(f.source):
        if id(n) in f.dims:
            continue
        between = graph.between(f.source, n)
        if not all(m.op in ("elementwise", "cast", "view", "reduce", "gather") for m in between):
            return None
        if all(any(m is r for m in between) for r, _ in f.rows.values()):
            return n
    return None


def _pair(graph: Graph, found: Folds, first: list[Frontier]) -> None:
    """Contractions over the same dimension of the same head share a kernel where neither needs the other. One that another fold
    computes in tiles itself has no kernel to share."""
    for f in first:
        by: dict[frozenset[int], list[TensorNode]] = {}
        for h, over in f.heads.values():
            if id(h) not in found.inside:
                by.setdefault(over, []).append(h)
        for heads in by.values():
            kept: list[TensorNode] = []
            for h in heads:
                if all(
                    sorted(h.shape, key=most) == sorted(k.shape, key=most) and not graph.depends(h, k) and not graph.depends(k, h)
                    for k in kept
                ):
                    kept.append(h)
            if len(kept) > 1:
                found.together.append(kept)
