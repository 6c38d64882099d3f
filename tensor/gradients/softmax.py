"""Softmax as one step of the backward pass, and attention's backward pass in the shape its kernels have.

A quotient e / Σ e with e = exp(s − m) has the gradient p · (dp − Σ dp · p) with respect to s, whatever m is that does
not vary along the sum. Taken as one step, nothing of m, e and the sum gets a gradient of its own.

Where the scores s come from a contraction they had better not reach memory. Two rewrites see to that
(FlashAttention's backward pass: Dao et al., "FlashAttention", 2022):

* p is computed again as exp(s − lse), with lse = m + log Σ e a number a row;
* where y = Σ_j p_j v_j is all that reads p (through dropout's factors, casts and movement), the row's sum Σ_j dp_j · p_j is
  Σ_d dy_d · y_d, so that no sum over the scores is needed before the gradients' own sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.node import reachable
from ..graph import index_maps as maps
from ..graph.index_maps import IndexMap
from ..graph.nodes import TensorNode, constant_of
from ..graph.primitives import cast, reduce, view
from ..ops.elementwise import choose, exp, log
from ..partition.heads import is_contraction, varies
from .transposes import spread, without

Readers = Mapping[int, list[TensorNode]]


@dataclass(frozen=True)
class Product:
    """`result` = what a softmax's rows become by sums along them; `rows`: by a dimension of the softmax its dimension there."""

    result: TensorNode
    rows: dict[int, int]


@dataclass(frozen=True)
class Softmax:
    """`p` over `dims`, of the scores `target` (elsewhere than a mask allows p is 0). `weights`: p by log-sum-exp, where
    that is better; `product`: what all of it is summed to, if anything."""

    p: TensorNode
    target: TensorNode
    dims: tuple[int, ...]
    weights: TensorNode | None
    product: Product | None

    def gradient(self, p: TensorNode, dp: TensorNode, found: Mapping[int, TensorNode]) -> tuple[TensorNode, TensorNode]:
        """(the scores, their gradient); `p` is the value to use, `found` has the gradients of all later nodes."""
        return self.target, p * (dp - self._row(p, dp, found))

    def _row(self, p: TensorNode, dp: TensorNode, found: Mapping[int, TensorNode]) -> TensorNode:
        """Σ dp · p of each row, repeated along it."""
        if self.product is None:
            return spread(reduce("add", dp * p, self.dims), p.shape, self.dims)
        y, rows = self.product.result, self.product.rows
        kept = {there: here for here, there in rows.items()}
        over = [d for d in range(len(y.shape)) if d not in kept]
        delta = cast(reduce("add", found[id(y)] * y, over), p.dtype)
        placeholders = maps.placeholder_axes(p.shape)
        return view(delta, IndexMap(p.shape, delta.shape, placeholders, tuple(placeholders[kept[d]] for d in sorted(kept))))


def softmaxes(order: Sequence[TensorNode], outs: Sequence[TensorNode]) -> dict[int, Softmax]:
    """By id, the nodes of `order` that are a softmax."""
    found: dict[int, tuple[TensorNode, TensorNode]] = {}
    for n in order:
        if n.op == "elementwise" and n.arg in ("div", "mul") and (total := _total(n)) is not None:
            found[id(n)] = (n, total)
    if not found:
        return {}
    readers: dict[int, list[TensorNode]] = {}
    for n in order:
        for s in dict.fromkeys(n.src):
            readers.setdefault(id(s), []).append(n)
    ends = {id(o) for o in outs}
    return {i: _softmax(p, total, readers, ends) for i, (p, total) in found.items()}


def _total(p: TensorNode) -> TensorNode | None:
    """Σ e of e / Σ e or e · (1 / Σ e) with e = exp(…), the sum being repeated along the dimensions it was taken over."""
    e, below = p.src
    if e.op != "elementwise" or e.arg != "exp" or below.op != "view" or below.arg.plain is None:
        return None
    total = below.src[0]
    if p.arg == "mul":
        if total.op != "elementwise" or total.arg != "div" or constant_of(total.src[0]) != 1.0:
            return None
        total = total.src[1]
    if total.op != "reduce" or total.arg[0] != "add" or total.src[0] is not e:
        return None
    kept = [d for d in range(len(e.shape)) if d not in total.arg[1]]
    same = all(there == here or (there is None and e.shape[here] == 1) for here, there in zip(kept, below.arg.plain))
    return total if same else None


def _softmax(p: TensorNode, total: TensorNode, readers: Readers, ends: set[int]) -> Softmax:
    dims: tuple[int, ...] = total.arg[1]
    scores, m = p.src[0].src[0], None
    if scores.op == "elementwise" and scores.arg == "sub" and not varies(scores.src[1]) & set(dims):
        scores, m = scores.src
    cond = None
    if scores.op == "elementwise" and scores.arg == "where" and constant_of(scores.src[2]) == float("-inf"):
        cond, scores = scores.src[0], scores.src[1]
    weights = None
    if _contracted(scores):
        lse = log(total)
        if m is not None:
            lse = without(m, dims) + lse
        weights = exp(scores - spread(lse, p.shape, dims))
        if cond is not None:
            weights = choose(cond, weights, 0.0)
    return Softmax(p, scores, dims, weights, _product(p, dims, readers, ends))


def _contracted(n: TensorNode) -> bool:
    """Whether a contraction is behind pointwise work and movement."""
    return any(is_contraction(m) for m in reachable([n], lambda m: m.src if m.op in ("elementwise", "cast", "view", "after") else ()))


def _product(p: TensorNode, dims: tuple[int, ...], readers: Readers, ends: set[int]) -> Product | None:
    """Follow the one reader of `p`, and its one reader, as long as each is linear and keeps rows apart, to where all of
    `dims` are summed."""
    n = p
    rows = {d: d for d, e in enumerate(p.shape) if d not in dims and e != 1}
    along = {d for d in dims if p.shape[d] != 1}
    while True:
        if id(n) in ends or len(readers.get(id(n), ())) != 1:
            return None
        (reader,) = readers[id(n)]
        if reader.op == "view" and reader.arg.plain is not None:
            places = reader.arg.plain
            if any(places[d] is None for d in (*rows.values(), *along)) or not _keeps_rows(reader, list(rows.values())):
                return None
            rows = {here: places[there] or 0 for here, there in rows.items()}
            along = {places[d] or 0 for d in along}
        elif reader.op == "reduce" and reader.arg[0] == "add":
            over = set(reader.arg[1])
            if over & set(rows.values()):
                return None
            kept = {d: i for i, d in enumerate(d for d in range(len(n.shape)) if d not in over)}
            rows = {here: kept[there] for here, there in rows.items()}
            along = {kept[d] for d in along if d not in over}
        elif not _linear(reader, n):
            return None
        n = reader
        if not along:
            return Product(n, rows)


def _keeps_rows(reader: TensorNode, rows: Sequence[int]) -> bool:
    """Whether a view shows all rows of its source, each in a place of its own (a slice does not, nor a diagonal)."""
    places, source = [reader.arg.plain[d] for d in rows], reader.src[0].shape
    return len({*places}) == len(places) and all(reader.shape[p] == source[d] for d, p in zip(rows, places))


def _linear(reader: TensorNode, n: TensorNode) -> bool:
    """Whether a pointwise node is its operand `n` times what does not depend on it. (What is read once cannot reach its
    reader twice.)"""
    if reader.op == "cast":
        return reader.dtype.is_float and reader.arg is None
    if reader.op == "elementwise" and reader.arg == "mul":
        return reader.src[0] is not reader.src[1]
    if reader.op == "elementwise" and reader.arg == "div":
        return reader.src[0] is n and reader.src[1] is not n
    return reader.op == "elementwise" and reader.arg in ("neg",)
