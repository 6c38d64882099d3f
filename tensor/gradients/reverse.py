"""Reverse mode: the gradients of nodes as nodes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.errors import UsageError
from ...ir.node import reachable
from ..graph import index_maps as maps
from ..graph.index_maps import IndexMap
from ..graph.nodes import STOP, OpenArgument, OwnGradient, TensorNode, constant_of, differentiated, make, walk
from ..graph.own_kernels import siblings
from ..graph.primitives import cast, const, reduce, view
from ..graph.source_lines import at
from ..ops.elementwise import choose, exp, log
from ..partition.heads import is_contraction, varies
from .checkpoint import CheckpointRegion, again
from .loop_gradient import loop_gradients
from .rules import RULES
from .transposes import spread, without

# softmax --------------------------------------------------------------------------------------------------------------
#
# Softmax as one step of the backward pass, and attention's backward pass in the shape its kernels have.
#
# A quotient e / Σ e with e = exp(s − m) has the gradient p · (dp − Σ dp · p) with respect to s, whatever m is that
# does not vary along the sum. Taken as one step, nothing of m, e and the sum gets a gradient of its own.
#
# Where the scores s come from a contraction they had better not reach memory. Two rewrites see to that
# (FlashAttention's backward pass: Dao et al., "FlashAttention", 2022):
#
# * p is computed again as exp(s − lse), with lse = m + log Σ e a number a row; * where y = Σ_j p_j v_j is all that
# reads p (through dropout's factors, casts and movement), the row's sum Σ_j dp_j · p_j is Σ_d dy_d · y_d, so that no
# sum over the scores is needed before the gradients' own sums.


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


# reverse --------------------------------------------------------------------------------------------------------------


# reverse ----------------------------------------------------------------------------------------------------
def gradients(outs: Sequence[TensorNode], given: Sequence[TensorNode], wrt: Sequence[TensorNode]) -> list[TensorNode]:
    """Σ over `outs` of their gradients times `given` (of the same shapes and types), with respect to each of `wrt`: nodes
    of their shapes and types; zeros where an output does not depend on one. Nodes behind one of `wrt` are not looked at.
    Raises UsageError for what has no gradient."""
    found = Backward(outs, wrt).run(outs, given)
    return [found.get(id(n)) or const(0, n.dtype, n.shape) for n in wrt]


class Backward:
    """One backward pass over the nodes between `wrt` and `outs`."""

    def __init__(self, outs: Sequence[TensorNode], wrt: Sequence[TensorNode]) -> None:
        self.ends = {id(n) for n in wrt}
        for n in wrt:
            if not n.dtype.is_float:
                raise UsageError(f"a gradient with respect to {n.dtype}{list(n.shape)}{at(n.line)}: only floats have gradients")
        self.order = list(walk(outs, lambda n: id(n) in self.ends, differentiated))
        self.active: set[int] = set(self.ends)
        for n in self.order:
            if n.dtype.is_float and n.arg is not STOP and any(id(s) in self.active for s in _followed(n)):
                self.active.add(id(n))
        self.softmaxes: Mapping[int, Softmax] = softmaxes(self.order, outs)
        self.values: dict[int, TensorNode] = {}
        if any(s.weights is not None for s in self.softmaxes.values()):
            self._rewrite()
        self.found: dict[int, TensorNode] = {}
        self.gifts: dict[int, int] = {}
        self.regions: dict[int, list[TensorNode]] = {}

    def _rewrite(self) -> None:
        """Nodes whose value in the backward pass follows from other nodes than in the forward pass."""
        for n in self.order:
            softmax = self.softmaxes.get(id(n))
            if softmax is not None and softmax.weights is not None:
                self.values[id(n)] = softmax.weights
            elif (
                n.op in ("view", "cast", "elementwise", "after")
                and not isinstance(n.arg, CheckpointRegion)
                and any(id(s) in self.values for s in n.src)
            ):
                self.values[id(n)] = make(n.op, tuple(map(self.value, n.src)), n.arg, n.shape, n.dtype)

    def value(self, n: TensorNode) -> TensorNode:
        """What computes the value of `n` in the backward pass."""
        return self.values.get(id(n), n)

    def alone(self, dy: TensorNode) -> bool:
        """Whether a gradient was given to one node only."""
        return self.gifts.get(id(dy), 0) == 1

    def give(self, n: TensorNode, dy: TensorNode) -> None:
        """Add to a node's gradient."""
        if id(n) in self.active:
            known = self.found.get(id(n))
            self.gifts[id(dy)] = self.gifts.get(id(dy), 0) + 1
            self.found[id(n)] = dy if known is None else known + dy

    def run(self, outs: Sequence[TensorNode], given: Sequence[TensorNode]) -> dict[int, TensorNode]:
        """Gradients by id."""
        for n, dy in zip(outs, given, strict=True):
            self.give(n, dy)
        together: dict[object, list[TensorNode]] = {}
        for n in self.order:
            if n.op in _TOGETHER and id(n) not in self.ends:
                together.setdefault(_TOGETHER[n.op](n), []).append(n)
        for n in reversed(self.order):
            if n.op in _TOGETHER and id(n) not in self.ends:
                members = together[_TOGETHER[n.op](n)]
                if n is members[0]:  # all that reads one of them was visited
                    (self._loop if n.op == "loop" else self._kernel)(members)
                continue
            if id(n) in self.ends or id(n) not in self.found:
                continue
            dy = self.found[id(n)]
            softmax = self.softmaxes.get(id(n))
            if softmax is not None:
                self.give(*softmax.gradient(self.value(n), dy, self.found))
            elif isinstance(n.arg, CheckpointRegion):
                self._again(n, dy)
            elif isinstance(n.arg, OwnGradient):
                for x, g in zip(n.arg.of, n.arg.rule(dy, self.value(n), *map(self.value, n.arg.of)), strict=True):
                    if g is not None:
                        self.give(x, g)
            else:
                wanted = tuple(id(s) in self.active for s in n.src)
                for i, g in RULES[n.op](n, dy, wanted, self):
                    if wanted[i]:
                        self.give(n.src[i], g)
        return self.found

    def _loop(self, members: Sequence[TensorNode]) -> None:
        """All outputs of a loop."""
        dys = {(n.arg.kind, n.arg.at): self.found[id(n)] for n in members if id(n) in self.found}
        if dys:
            wanted = [id(s) in self.active for s in members[0].src]
            for i, g in loop_gradients(members[0], dys, wanted, gradients):
                self.give(members[0].src[i], g)

    def _kernel(self, members: Sequence[TensorNode]) -> None:
        """All outputs of a kernel of the user's."""
        n = members[0]
        dys = {m.arg.at: self.found[id(m)] for m in members if id(m) in self.found}
        if dys:
            outs = siblings(n)
            given = [dys.get(i) or const(0, o.dtype, o.shape) for i, o in enumerate(outs)]
            for s, g in zip(n.src, n.arg.own.by.pull(n, [self.value(s) for s in n.src], outs, given), strict=True):
                if g is not None:
                    self.give(s, g)

    def _again(self, n: TensorNode, dy: TensorNode) -> None:
        """A checkpoint's output: its region is computed again, and its gradients follow from that."""
        out, inner, outer = again(n, dy, self.regions, self.active)
        for target, g in zip(outer, gradients([out], [dy], inner), strict=True):
            self.give(target, g)


_TOGETHER: dict[str, Callable[[TensorNode], object]] = {
    "loop": lambda n: (n.arg.loop, n.src),
    "kernel": lambda n: (n.arg.own, n.src),
}
"""By operation with several outputs: what these have in common. Their gradients are taken together."""


def _followed(n: TensorNode) -> Sequence[TensorNode]:
    return n.src[:1] if n.op in ("after", "gather", "scatter") else differentiated(n)


TRACKED: weakref.WeakKeyDictionary[TensorNode, weakref.ref[Any]] = weakref.WeakKeyDictionary()
"""The tensors with requires_grad, by their nodes."""


def tracked_behind(node: TensorNode) -> list[tuple[TensorNode, Any]]:
    """The live tensors with requires_grad that a node was made from, each with the node that it had then."""
    held = [(n, TRACKED[n]()) for n in walk([node], lambda n: not n.tracked) if n in TRACKED]
    return [(n, t) for n, t in held if t is not None]


def has_gradient(node: TensorNode) -> bool:
    """Whether a gradient may still be asked for through a node: of a tensor with requires_grad, or of an argument of a
    function that is being differentiated."""
    return node.tracked and id(node) in with_gradients([node])


def with_gradients(nodes: Iterable[TensorNode]) -> set[int]:
    """The ids of all nodes behind some nodes (and of these) of which `has_gradient` is true, in one pass."""
    found: set[int] = set()
    for n in walk((n for n in nodes if n.tracked), lambda n: not n.tracked):
        own = (isinstance(n.arg, OpenArgument) and n.arg.open) or (n in TRACKED and TRACKED[n]() is not None)
        if own or any(id(s) in found for s in n.src):
            found.add(id(n))
    return found
