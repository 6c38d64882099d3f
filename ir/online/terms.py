"""An element of a sum, written as a sum of products in which what depends on earlier results stands apart.

A term is ± coefficient · factors. The coefficient is the same for every element of the sum, so it leaves it. A factor
is one of

* plain: it depends on no earlier result;
* a weight exp(s − a): s is free of earlier results, and a of the summed axis;
* a shift x − a, likewise;
* a choice where(x = a, ·, 0), a being the maximum or minimum of x itself;
* a group where(c, factors, 0) under a condition that no earlier result is in.

So e^(s − m)/l · v is the coefficient 1/l and two factors, and (x − μ)² is two shifts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isfinite

from .. import functions as F
from ..dtypes import DType
from ..node import Node, as_node, const, ref, walk
from ..node_text import show
from ..normal_form.masked_weights import sees_one
from ..operators import cast, substitute
from ..skipped_tiles import conjuncts
from .anchors import INF, Anchor, FoldState, Mean, product


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a term; `node` is how the block computes it.

    `anchors` of a weight or shift; `exponent` of a weight, as it was written, and `cond` its mask; `mean` of a shift
    from a mean, with what was shifted in `plain`; `inner` of a group under `cond`; a choice under `cond` has the state
    that it compares with as `chosen`, and x in `node`."""

    kind: str
    node: Node
    anchors: tuple[Anchor, ...] = ()
    exponent: Node | None = None
    mean: Mean | None = None
    plain: Node | None = None
    inner: tuple[Factor, ...] = ()
    cond: Node | None = None
    chosen: FoldState | None = None

    def leaves(self) -> Iterator[Factor]:
        """The factors in a group, else this one."""
        if self.inner:
            for f in self.inner:
                yield from f.leaves()
        yield self


@dataclass(frozen=True, slots=True)
class Term:
    """± coefficient · factors; `rough` where differences of earlier results were multiplied out. `guarded`: further parts of the
    coefficient, each with the condition that it is read under: where no element has that, it does not count, and may be anything.
    `rows`: conditions that are the same for all elements of the sum; where one does not hold, the whole term is 0."""

    negative: bool = False
    coefficient: tuple[Node, ...] = ()
    factors: tuple[Factor, ...] = ()
    rough: bool = False
    guarded: tuple[tuple[Node, Node], ...] = ()
    rows: tuple[Node, ...] = ()

    def times(self, other: Term) -> Term:
        """The product of two terms."""
        coefficient, fs = self.coefficient + other.coefficient, self.factors + other.factors
        guarded, rows = self.guarded + other.guarded, self.rows + other.rows
        return Term(self.negative != other.negative, coefficient, fs, self.rough or other.rough, guarded, rows)

    def under(self, cond: Node) -> Term:
        """where(cond, this term, 0)."""
        known = tuple(c for c in self.coefficient if c.op == "const" and isfinite(c.arg))
        read = joined([cond, *_hidden(self.factors)])
        assert read is not None
        guarded = tuple((c, read) for c in self.coefficient if c not in known) + tuple((c, read & g) for c, g in self.guarded)
        return replace(self, coefficient=known, guarded=guarded, factors=(Factor("group", cond, inner=self.factors, cond=cond),))

    @property
    def conditional(self) -> bool:
        """Whether a part of it counts only under a condition."""
        return bool(self.guarded or self.rows)

    def leaves(self) -> list[Factor]:
        """All factors, those in groups as well, and the groups."""
        return [g for f in self.factors for g in f.leaves()]


def conditions(fs: Iterable[Factor]) -> Node | None:
    """What must hold for a product not to be 0 by its groups, and by masks on indices; None where it has no group."""
    leaves = [leaf for f in fs for leaf in f.leaves()]
    groups = [f.cond for f in leaves if f.kind == "group" and f.cond is not None]
    return joined([*groups, *_hidden(fs)]) if groups else None


def joined(conditions: Iterable[Node]) -> Node | None:
    """All of some conditions, each once; None of none."""
    found: Node | None = None
    for c in dict.fromkeys(part for whole in conditions for part in conjuncts(whole)):
        found = c if found is None else found & c
    return found


def _hidden(fs: Iterable[Factor]) -> list[Node]:
    """The masks on indices alone outside of which weights are 0. What they hide is not read: tiles of it need not run (`skip_conditions`)."""
    masks = (leaf.cond for f in fs for leaf in f.leaves() if leaf.kind == "weight" and leaf.cond is not None)
    return [m for m in masks if not any(n.op in ("load", "ref") for n in walk(m))]


def body_of(fs: Iterable[Factor], dtype: DType) -> Node:
    """The product of factors as the block computes it."""
    nodes = []
    for f in fs:
        if f.kind in ("group", "choice"):
            assert f.cond is not None
            inner = body_of(f.inner, dtype)
            nodes.append(F.where(f.cond, inner, const(0, inner.dtype)))
        else:
            nodes.append(cast(f.node, dtype))
    out = product(nodes)
    return const(1, dtype) if out is None else out


def fewer_shifts(fs: tuple[Factor, ...], left: Counter[Factor]) -> Iterator[Factor]:
    """The factors with as many of each shift as `left` says, which is used up."""
    for f in fs:
        if f.kind == "shift":
            left[f] -= 1
            if left[f] >= 0:
                yield f
        elif f.inner:
            yield replace(f, inner=tuple(fewer_shifts(f.inner, left)))
        else:
            yield f


def unshifted(fs: tuple[Factor, ...]) -> Iterator[Factor]:
    """The factors with what was shifted in place of shifts."""
    for f in fs:
        if f.kind == "shift":
            assert f.plain is not None
            yield Factor("plain", f.plain)
        else:
            yield replace(f, inner=tuple(unshifted(f.inner))) if f.inner else f


@dataclass(frozen=True, slots=True)
class Leaf:
    """± node · scale, a term of a sum."""

    negative: bool
    node: Node
    scale: tuple[Node, ...] = ()

    @property
    def whole(self) -> Node:
        """The term without its sign."""
        out = product([self.node, *self.scale])
        assert out is not None
        return out


def converted(t: Term, dtype: DType) -> Term:
    """`t` with every factor and coefficient in `dtype`."""
    coefficient = tuple(cast(c, dtype) for c in t.coefficient)
    guarded = tuple((cast(c, dtype), g) for c, g in t.guarded)
    return replace(t, coefficient=coefficient, factors=tuple(_factor(f, dtype) for f in t.factors), guarded=guarded)


def _factor(f: Factor, dtype: DType) -> Factor:
    if f.inner:
        return replace(f, inner=tuple(_factor(g, dtype) for g in f.inner))
    return f if f.kind in ("group", "choice") else replace(f, node=cast(f.node, dtype))


def added(parts: list[tuple[bool, Node]]) -> Node:
    """The sum of signed nodes, beginning with a positive one where there is one."""
    parts = sorted(parts, key=lambda p: p[0])
    if not parts:
        return as_node(0.0)
    negative, out = parts[0]
    out = -out if negative else out
    for negative, p in parts[1:]:
        out = out - p if negative else out + p
    return out


def short(e: Node) -> str:
    """An expression as text, cut where it is long; its operator where it would be very long."""
    size: dict[Node, int] = {}
    for n in walk(e):  # what is shared is written out each time
        size[n] = 1 + sum(size[s] for s in n.src)
    if size[e] > 500:
        return f"an expression of {len(size)} operations ({e.op})"
    text = show(e)
    return text if len(text) <= 120 else text[:117] + "..."


Extremes = Mapping[str, FoldState]
"""By the name of a sum: the maximum (minimum) under whose mask its weights are."""


def hidden_by(weight: Factor, over: tuple[Node, ...], states: Mapping[str, FoldState]) -> FoldState | None:
    """The maximum (minimum) behind a weight whose mask may hide all elements; None where one is always seen."""
    if weight.cond is None or (len(over) == 1 and not _loads(weight.cond) and sees_one(weight.cond, over[0])):
        return None
    centres = walk(*(a.centre for a in weight.anchors if not a.kept))
    found = (states.get(n.arg) for n in centres if n.op == "ref")
    return next((s for s in found if s is not None and s.combine in ("max", "min")), None)


def unmasked_weights(fs: Iterable[Factor], known: frozenset[Node] = frozenset()) -> Iterator[Factor]:
    """The weights in a product, without those that the kernel itself masks as their scores are: where(c, e^(s − m), 0) is 0 in NumPy as
    well, whatever m is. `known`: conditions outside of which the factors do not count."""
    for f in fs:
        if f.inner:
            yield from unmasked_weights(f.inner, known | set(conjuncts(f.cond)) if f.kind == "group" and f.cond is not None else known)
        elif f.kind == "weight" and (f.cond is None or not known.issuperset(conjuncts(f.cond))):
            yield f


def as_numpy(e: Node, states: Mapping[str, FoldState], extremes: Extremes) -> Node:
    """`e`, which reads states after the fold, NaN for rows that saw nothing."""
    read = [n for n in walk(e) if n.op == "ref" and n.arg in extremes]
    if not read or math.isnan(_value(e, states)):
        return e
    table = {}
    for n in read:
        own, m = states[n.arg], extremes[n.arg]
        at = dict(zip(own.axes, n.src, strict=True))
        if set(m.axes) <= set(at):
            seen = ref(m.name, [at[a] for a in m.axes], m.dtype)
            table[n] = n + (seen - seen)
    return substitute(e, table)


def _loads(cond: Node) -> bool:
    return any(n.op in ("load", "ref") for n in walk(cond))


_EMPTY = {"add": 0.0, "mul": 1.0, "max": -INF, "min": INF}
_OTHER = 0.625
"""Stands for what does not come from the fold."""


def _value(root: Node, states: Mapping[str, FoldState]) -> float:
    """`root` where no state has seen anything, and everything else is some number; NaN only if it is NaN then."""
    known: dict[Node, float] = {}
    for n in walk(root):
        known[n] = _step(n, [known[s] for s in n.src], states)
    return known[root]


def _step(n: Node, x: list[float], states: Mapping[str, FoldState]) -> float:
    if n.op == "const":
        return float(n.arg)
    if n.op == "ref" and n.arg in states:
        return _EMPTY[states[n.arg].combine]
    if n.op == "where":
        return x[1] if not math.isnan(x[1]) else x[2]
    if n.op == "cast" and n.dtype.is_float:
        return x[0]
    known = _NUMBERS.get(n.op)
    if known is None or not n.dtype.is_float:
        return _OTHER
    try:
        return float(known(*x))
    except OverflowError:
        return INF


def _divided(a: float, b: float) -> float:
    return a / b if b else math.nan if a == 0 or math.isnan(a) else math.copysign(INF, a)


def _log(a: float) -> float:
    return math.nan if math.isnan(a) or a < 0 else -INF if a == 0 else math.log(a)


_NUMBERS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divided,
    "neg": lambda a: -a,
    "abs": abs,
    "exp": math.exp,
    "log": _log,
    "sqrt": lambda a: math.nan if a < 0 or math.isnan(a) else math.sqrt(a),
    "tanh": math.tanh,
    "max": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else max(a, b),
    "min": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else min(a, b),
}
