"""Anchors: the earlier results from which a fold's block takes its differences.

exp(s − m) over a tile is computed with the tile's own m, and x − mean with the tile's own mean. An anchor must be
finite whatever a tile holds: a maximum that may be −∞ is bounded by the least finite number, and a sum divided by the
number of all elements becomes the tile's sum divided by the tile's number. When tiles are merged, what was taken from
one anchor is moved to another by the `drift` between the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, prod

from .. import functions as F
from .. import node as N
from ..body import Fold, Reduce, Scan, Store, Value
from ..buffer import Buffer, loads
from ..dtypes import DType, float64, index
from ..functions import where
from ..kernel import Kernel
from ..node import Node, axes_of, const, walk
from ..operators import logical, substitute, unary

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


@dataclass(frozen=True, eq=False)
class ChainNest:
    """A reduction, a scan or a store with its expressions: of a value its element; of a store what is stored, the
    indices and the mask."""

    item: Value | Store
    axes: tuple[Node, ...]
    over: tuple[Node, ...]
    exprs: tuple[Node, ...]

    @property
    def name(self) -> str:
        """The value's name, or the output's."""
        return self.item.name if isinstance(self.item, Value) else self.item.buffer.name

    @property
    def combine(self) -> str:
        """How a reduction or scan combines; empty for a store."""
        expr = self.item.expr
        return expr.combine if isinstance(expr, Reduce | Scan) else ""

    @cached_property
    def reads(self) -> set[str]:
        """The values that it refers to."""
        return {n.arg for n in walk(*self.exprs) if n.op == "ref"}


def inline(kernel: Kernel) -> list[ChainNest]:
    """The nests of `kernel`, which has no fold, with pointwise values written out where they are read."""
    pointwise: dict[str, Value] = {}
    found: list[ChainNest] = []
    for item in kernel.body:
        assert not isinstance(item, Fold)
        body = written_out(item.body, {n: (v.axes, v.body) for n, v in pointwise.items()})
        if isinstance(item.expr, Node):
            pointwise[item.name] = replace(item, expr=body)
        else:
            found.append(ChainNest(item, item.axes, item.reduce_axes, (body,)))
    known = {n: (v.axes, v.body) for n, v in pointwise.items()}
    for s in kernel.stores:
        roots = (s.expr, *s.indices) if s.mask is None else (s.expr, *s.indices, s.mask)
        found.append(ChainNest(s, s.axes, (), tuple(written_out(e, known) for e in roots)))
    return found


def written_out(e: Node, known: dict[str, tuple[tuple[Node, ...], Node]]) -> Node:
    """`e` with references to `known` values replaced by what those are; the replacements hold no such references."""
    table: dict[Node, Node] = {}
    for n in walk(e):
        if n.op == "ref" and n.arg in known:
            axes, body = known[n.arg]
            at = (substitute(i, table) for i in n.src)
            table[n] = substitute(body, dict(zip(axes, at, strict=True)))
    return substitute(e, table) if table else e


def negation(cond: Node) -> Node:
    """Where `cond` does not hold; comparisons of indices stay such, by which idle tiles are seen."""
    if cond.op in ("lt", "le") and cond.src[0].dtype is index:
        x, y = cond.src
        return y <= x if cond.op == "lt" else y < x
    if cond.op in ("and", "or"):
        return logical("or" if cond.op == "and" else "and", *map(negation, cond.src))
    return cond.src[0] if cond.op == "not" else unary("not", cond)


def masked_last(e: Node) -> Node:
    """`e` with where(c, −∞, x) written as where(not c, x, −∞), as masks are mostly written."""
    table: dict[Node, Node] = {}
    for n in walk(e):
        new = substitute(n, {s: table[s] for s in n.src if s in table}) if n.src else n
        if new.op == "where" and new.src[1].op == "const" and new.src[1].arg == float("-inf"):
            new = where(negation(new.src[0]), new.src[2], new.src[1])
        if new is not n:
            table[n] = new
    return table.get(e, e)


class _Groups:
    """Axes joined into families."""

    def __init__(self, nests: Iterable[ChainNest]) -> None:
        self.of: dict[Node, set[Node]] = {}
        self.nests = [{*n.axes, *n.over} for n in nests]
        for bound in self.nests:
            for a in bound:
                self.of.setdefault(a, {a})

    def join(self, a: Node, b: Node) -> None:
        """One family for both, unless their extents differ or one nest has both."""
        x, y = self.of[a], self.of[b]
        both = x | y
        if x is y or a.arg.extent != b.arg.extent or any(len(bound & both) > 1 for bound in self.nests):
            return
        for member in both:
            self.of[member] = both


def family_form(nests: list[ChainNest]) -> list[ChainNest]:
    """The nests with one axis node a family, named after its first axis, and masks as `masked_last` has them."""
    groups = _Groups(nests)
    by_name = {n.name: n for n in nests if isinstance(n.item, Value)}
    for a, b in (*_handed(nests, by_name), *_neighbouring_axes(nests)):
        groups.join(a, b)
    node: dict[Node, Node] = {}
    taken: set[str] = set()
    for n in nests:
        for a in (*n.axes, *n.over):
            if a not in node:
                name = a.arg.family
                while name in taken:
                    name += "_"
                taken.add(name)
                whole = N.axis(name, a.arg.extent)
                node.update(dict.fromkeys(groups.of[a], whole))
    return [
        replace(
            n,
            axes=tuple(node[a] for a in n.axes),
            over=tuple(node[a] for a in n.over),
            exprs=tuple(masked_last(substitute(e, {a: node[a] for a in (*n.axes, *n.over)})) for e in n.exprs),
        )
        for n in nests
    ]


def _handed(nests: list[ChainNest], by_name: dict[str, ChainNest]) -> Iterator[tuple[Node, Node]]:
    """Axes of values, and the axes at which others read them."""
    for n in nests:
        for r in walk(*n.exprs):
            if r.op == "ref":
                yield from ((a, i) for a, i in zip(by_name[r.arg].axes, r.src, strict=True) if i.op == "axis")


def _neighbouring_axes(nests: list[ChainNest]) -> Iterator[tuple[Node, Node]]:
    """Axes that index the same dimension of one buffer; then the axes of reductions of which one reads the other."""
    seen: dict[tuple[Buffer, int], list[Node]] = {}
    for n in nests:
        for buffer, indices, _ in loads(*n.exprs):
            for d, i in enumerate(indices):
                if i.op == "axis":
                    yield from ((other, i) for other in seen.setdefault((buffer, d), []))
                    seen[buffer, d].append(i)
    by_name = {n.name: n for n in nests}
    for n in nests:
        for name in sorted(n.reads):
            if len(n.over) == 1 and len(by_name[name].over) == 1:
                yield by_name[name].over[0], n.over[0]


class Sites:
    """Family form back to axes of nests: a family that some nest reduces or scans has one a nest."""

    def __init__(self, nests: Iterable[ChainNest]) -> None:
        self.reduced: set[Node] = set()
        for n in nests:
            self.reduced |= {*n.over}
            if isinstance(n.item, Value) and isinstance(n.item.expr, Scan):
                self.reduced |= {a for a, old in zip(n.axes, n.item.axes, strict=True) if old is n.item.expr.axis}

    def table(self, axes: Iterable[Node], site: str) -> dict[Node, Node]:
        """What stands for each family in the nest called `site`."""
        return {a: N.axis(f"{a.arg.name}@{site}", a.arg.extent) if a in self.reduced else a for a in axes}
