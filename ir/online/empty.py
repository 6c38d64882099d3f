"""Rows that see nothing: a mask hides all their elements, their maximum is −∞, and NumPy's e^(s − m) is NaN for each.

In a fold such weights are 0, so that tiles which see nothing change nothing, and a row that sees nothing at all has
sums of 0. Divided by one of them a result is NaN, as attention's is. Where it would be a number, as log-sum-exp would
be −∞, the sum is read as l + (m − m), which is l where m is finite and NaN where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..node import Node, ref, walk
from ..normal_form.masked_weights import sees_one
from ..operators import substitute
from ..skippable import conjuncts
from .anchors import INF, FoldState
from .terms import Factor

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
