"""Anchors: the earlier results from which a fold's block takes its differences.

exp(s − m) over a tile is computed with the tile's own m, and x − mean with the tile's own mean. An anchor must be
finite whatever a tile holds: a maximum that may be −∞ is bounded by the least finite number, and a sum divided by the
number of all elements becomes the tile's sum divided by the tile's number. When tiles are merged, what was taken from
one anchor is moved to another by the `drift` between the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite, prod

from .. import functions as F
from .. import node as N
from ..dtypes import DType, float64
from ..node import Node, axes_of, const, walk
from ..operators import substitute

Table = Mapping[Node, Node]
INF = float("inf")


class Inseparable(Exception):
    """The rule does not apply; the text says which expression stands against it."""


@dataclass(frozen=True, slots=True)
class FoldState:
    """A component of the fold, in family form: `combine` over the axes `over` of `body`, for each of `axes`."""

    name: str
    combine: str
    over: tuple[Node, ...]
    body: Node
    axes: tuple[Node, ...]
    dtype: DType

    @property
    def ref(self) -> Node:
        """The state at its own axes."""
        return N.ref(self.name, self.axes, self.dtype)


@dataclass(frozen=True, slots=True)
class Anchor:
    """−scale·centre where `negative`, else +scale·centre, as part of a sum. `centre` is finite for every state;
    `empty` holds where the state has seen nothing, so that no drift from it means anything. `kept`: the kernel itself keeps
    it finite, so that e^(s − centre) is 0 in a row that sees nothing, and not NaN."""

    centre: Node
    scale: Node | None
    negative: bool
    empty: Node | None
    kept: bool = False

    def drift(self, old: Table, new: Table) -> Node:
        """The anchor in state `new` less that in state `old`."""
        a, b = substitute(self.centre, dict(old)), substitute(self.centre, dict(new))
        out = a - b if self.negative else b - a
        if self.scale is not None:
            out = out * self.scale
        return out if self.empty is None else F.where(substitute(self.empty, dict(old)), 0.0, out)


@dataclass(frozen=True, slots=True)
class Mean:
    """An anchor that is total / weight: the sums over both, by which a first moment is seen to be zero."""

    total: FoldState
    weight: FoldState


def bounded(ref: Node, combine: str) -> Node:
    """A maximum (minimum), or the least (greatest) finite number where it is infinite."""
    limit = 1.7976931348623157e308 if ref.dtype is float64 else 3.4028234663852886e38
    return F.maximum(ref, -limit) if combine == "max" else F.minimum(ref, limit)


def factors(node: Node) -> tuple[list[Node], list[Node]]:
    """(numerators, denominators) of a product, through divisions and negations of none."""
    if node.op == "mul":
        (a, b), (c, d) = factors(node.src[0]), factors(node.src[1])
        return a + c, b + d
    if node.op == "div":
        (a, b), (c, d) = factors(node.src[0]), factors(node.src[1])
        return a + d, b + c
    return [node], []


def product(nodes: list[Node]) -> Node | None:
    """The product from left to right; None of nothing."""
    out: Node | None = None
    for n in nodes:
        out = n if out is None else out * n
    return out


_Signed = tuple[bool, Node | None]
Found = tuple[Anchor, Node, Mean | None]
"""An anchor, what stands for it in the block, and the sums behind it where it is a mean."""


class Anchors:
    """Finds anchors among the states so far. `count` makes (or finds) the state that counts a tile's elements."""

    def __init__(self, states: Mapping[str, FoldState], count: Callable[[FoldState], FoldState]) -> None:
        self.states, self.count = states, count

    def state(self, node: Node) -> FoldState | None:
        """The state that `node` is a reference to."""
        return self.states.get(node.arg) if node.op == "ref" else None

    def bounds(self, node: Node) -> bool:
        """Whether a maximum or minimum is in `node`, as what keeps a difference from it small."""
        return any(n.op == "ref" and n.arg in self.states and self.states[n.arg].combine in ("max", "min") for n in walk(node))

    def held(self, node: Node) -> bool:
        """Whether `node` depends on a state."""
        return any(n.op == "ref" and n.arg in self.states for n in walk(node))

    def find(self, leaf: Node, negative: bool, scale: Node | None, select: bool) -> Found | None:
        """The anchor of one term ±leaf·scale of a sum, and what stands for `leaf` in the block; None where it can be
        none. `select`: drifts are multiplied, not only exponentiated, so that those of empty states are 0."""
        above, below = factors(leaf)
        held = [n for n in above if self.held(n)]
        extreme = self._kept_finite(held[0]) if len(held) == 1 else None
        state = extreme[0] if extreme is not None else self.state(held[0]) if len(held) == 1 else None
        if state is None or not state.dtype.is_float:
            return None
        rest = [n for n in above if n is not held[0] and not (n.op == "const" and n.arg == 1)]
        low = [n for n in below if self.held(n)]
        if state.combine in ("max", "min") and not low:
            guard = bounded(state.ref, state.combine) if extreme is None else extreme[1]
            found = self._extreme(state, guard, (negative, scale), _quotient(rest, below), select)
            if found is None:
                return None
            return replace(found, kept=extreme is not None), substitute(leaf, {held[0]: guard}), None
        if state.combine == "add":
            return self._mean(state, (negative, scale), rest, below)
        return None

    def _kept_finite(self, node: Node) -> tuple[FoldState, Node] | None:
        """(the maximum or minimum behind what keeps it from being infinite, that as an anchor's centre): of max(m, c), of
        where(m = −∞, c, m), and of where(−∞ < m, m, c), which e^(s − …) cannot tell from the least finite number."""
        if node.op in ("max", "min"):
            for x, limit in (node.src, node.src[::-1]):
                state = self.state(x)
                if state is not None and state.combine == node.op and not self.held(limit):
                    return state, node if limit.op == "const" and isfinite(limit.arg) else bounded(node, node.op)
        if node.op == "where":
            cond, a, b = node.src
            for x, other, op in ((b, a, "eq"), (a, b, "ne"), (a, b, "lt")):
                state = self.state(x)
                if state is None or state.combine not in ("max", "min") or other.op != "const" or not isfinite(other.arg):
                    continue
                none = const(-INF if state.combine == "max" else INF, state.dtype)
                either = cond.src if state.combine == "max" or op != "lt" else cond.src[::-1]
                if cond.op == op and (either == (none, x) or (op != "lt" and either == (x, none))):
                    return state, bounded(x, state.combine)
        return None

    def _extreme(self, state: FoldState, guard: Node, term: _Signed, inner: Node | None, select: bool) -> Anchor | None:
        negative, scale = term
        whole = inner if scale is None else scale if inner is None else inner * scale
        known = whole is None or self.nonnegative(whole)
        if not select and known and negative != (state.combine == "max"):
            return None  # exp(s + max): nothing bounds it, and an empty state's would be infinite
        empty = None if known and not select else state.ref.eq(-INF if state.combine == "max" else INF)
        return Anchor(guard, whole, negative, empty)

    def _mean(self, state: FoldState, term: _Signed, rest: list[Node], below: list[Node]) -> Found | None:
        """A sum divided by a sum, or by the number of elements: each with what the tile has of it."""
        low = [n for n in below if self.held(n)]
        if len(low) > 1 or (low and self.state(low[0]) is None):
            return None
        if low:
            weight = self.states[low[0].arg]
            if weight.combine != "add":
                return None
            others = [n for n in below if n is not low[0]]
        else:
            found = _without_number(state, rest, below)
            if found is None:
                return None
            rest, others = found
            weight = self.count(state)
        part = weight.ref
        centre = state.ref / F.where(part.eq(const(0, part.dtype)), 1.0, part)
        inner, (negative, scale) = _quotient(rest, others), term
        whole = inner if scale is None else scale if inner is None else inner * scale
        return Anchor(centre, whole, negative, None), centre if inner is None else centre * inner, Mean(state, weight)

    def nonnegative(self, node: Node) -> bool:
        """Whether `node` is at least 0 for certain (or NaN)."""
        op = node.op
        if op == "const":
            return bool(node.arg >= 0)
        if op in ("exp", "abs", "sqrt"):
            return True
        if op in ("mul", "div", "add", "min"):
            return (op == "mul" and node.src[0] is node.src[1]) or all(map(self.nonnegative, node.src))
        if op == "max":
            return any(map(self.nonnegative, node.src))
        if op == "where":
            return all(map(self.nonnegative, node.src[1:]))
        if op == "cast":
            return node.src[0].dtype.kind in "ub" or self.nonnegative(node.src[0])
        if op == "sym":
            return True
        state = self.state(node)
        return state is not None and self.nonnegative(state.body)


def _quotient(above: list[Node], below: list[Node]) -> Node | None:
    up, down = product(above), product(below)
    return up if down is None else 1.0 / down if up is None else up / down


def _without_number(state: FoldState, above: list[Node], below: list[Node]) -> tuple[list[Node], list[Node]] | None:
    """The factors without the division by the number of elements that `state` sums; None where there is none."""
    extents = [a.arg.extent for a in state.over]
    if all(isinstance(e, int) for e in extents):
        n = prod(extents)
        for side, want in ((above, 1.0 / n if n else 0.0), (below, float(n))):
            for k, f in enumerate(side):
                if f.op == "const" and f.dtype.is_float and abs(f.arg - want) <= 1e-6 * abs(want):
                    rest = side[:k] + side[k + 1 :]
                    return (rest, below) if side is above else (above, rest)
    whole = N.as_node(extents[0])
    for e in extents[1:]:
        whole = whole * e
    for k, f in enumerate(below):
        if f.op == "cast" and f.src[0] is whole:
            return above, below[:k] + below[k + 1 :]
    return None


def free(node: Node, over: tuple[Node, ...]) -> bool:
    """Whether `node` is the same for every element of the reduced axes."""
    return not axes_of(node) & set(over)
