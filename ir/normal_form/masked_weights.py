"""The normal form of masked weights: exp(s − M), where s is −∞ under a mask and M is the maximum of s, becomes 0 under that mask.

Attention is mostly written with one mask: scores of −∞ for keys that a query does not see, their maximum M, weights P
= exp(s − M), and sums of P and P·v. For lowering and for the integer twin (which has no −∞) the weights are 0 there
only if they say so, and only then a tile of masked keys is seen to do nothing (`skip_conditions`). So such weights get the
mask as well, which changes no value, special ones included:

* M is a number or +∞: exp(−∞ − M) is 0.
* M is NaN: then some score that is not masked is NaN, so its weight is NaN, and so is every sum over the keys that P
  is a factor of, whatever the masked weights are. Nothing but such sums may read P.
* M is −∞: the weights are NaN. Either M is kept finite by max(M, finite number), so that this is the first case, or
  every query sees some key for certain; then that key's score is −∞ too, its weight NaN, and the sums are NaN as
  above.

Only conditions on indices count: what a loaded mask hides cannot be skipped, and reading it twice costs more than it
gives. A product of a weight with an infinity or NaN stays in its sum and is NaN as before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from .. import index as ix
from ..body import Fold, Reduce, Value
from ..dtypes import index
from ..functions import where
from ..kernel import Kernel
from ..node import Node, as_node, axes_of, const, walk
from ..operators import substitute
from ..skipped_tiles import conjuncts, threshold


def mask_weights(kernel: Kernel) -> Kernel:
    """An equal kernel whose folds have such weights masked; `kernel` itself where there are none."""
    body = tuple(_fold(item) if isinstance(item, Fold) else item for item in kernel.body)
    if all(a is b for a, b in zip(body, kernel.body, strict=True)):
        return kernel
    return replace(kernel, body=body)


def _fold(fold: Fold) -> Fold:
    turned = tuple(_condition_first(v) for v in fold.block)
    values = {v.name: v for v in turned}
    block = tuple(_masked(fold, values, v) for v in turned)
    return fold if all(a is b for a, b in zip(block, turned, strict=True)) else replace(fold, block=block)


def _condition_first(v: Value) -> Value:
    """`v` with where(c, −∞, x) written as where(not c, x, −∞)."""
    table: dict[Node, Node] = {}
    for n in walk(v.body):
        cond = n.src[0] if n.op == "where" else n
        if n.op == "where" and _is_least(n.src[1]) and cond.op in ("lt", "le") and cond.src[0].dtype is index:
            x, y = cond.src
            table[n] = where(y <= x if cond.op == "lt" else y < x, n.src[2], n.src[1])
    if not table:
        return v
    body = substitute(v.body, table)
    expr = replace(v.expr, expr=body) if not isinstance(v.expr, Node) else body
    return Value(v.name, v.axes, expr, v.dtype)


def _masked(fold: Fold, values: dict[str, Value], v: Value) -> Value:
    """`v` under its score's mask where it is such a weight, else `v`."""
    found = _weight(values, v)
    if found is None or v.name in fold.components:
        return v
    sites = [a for a in v.axes if a.arg.family == fold.axis.arg.family]
    if len(sites) != 1 or not _is_maximum(values, found, sites[0]):
        return v
    seen = _visible_where(found.score, values)
    if (
        seen is None
        or any(n.op in ("load", "ref") for n in walk(seen))
        or not (found.clamped or sees_one(seen, sites[0]))
        or not _only_in_sums(fold, v)
    ):
        return v
    return Value(v.name, v.axes, where(seen, v.body, 0.0), v.dtype)


class _Weight(NamedTuple):
    """exp(score − maximum); `clamped`: the maximum is kept above a finite number."""

    score: Node
    maximum: Node
    clamped: bool


def _weight(values: dict[str, Value], v: Value) -> _Weight | None:
    """The parts of `v` where it is a weight."""
    if not isinstance(v.expr, Node) or v.expr.op != "exp" or v.expr.src[0].op != "sub":
        return None
    score, maximum = v.expr.src[0].src
    for x, least in (maximum.src, maximum.src[::-1]) if maximum.op == "max" else ():
        if least.op == "const" and math.isfinite(least.arg):
            return _Weight(score, x, True) if x.op == "ref" and x.arg in values else None
    return _Weight(score, maximum, False) if maximum.op == "ref" and maximum.arg in values else None


def _is_maximum(values: dict[str, Value], w: _Weight, site: Node) -> bool:
    """Whether w.maximum is that of w.score over `site`, the axis of the weight in the folded family."""
    m = values[w.maximum.arg]
    if (
        not isinstance(m.expr, Reduce)
        or m.expr.combine != "max"
        or len(m.reduce_axes) != 1
        or m.reduce_axes[0].arg.family != site.arg.family
    ):
        return False
    at = dict(zip(m.axes, w.maximum.src, strict=True)) | {m.reduce_axes[0]: site}
    return site not in axes_of(*w.maximum.src) and substitute(m.body, at) is w.score


def _visible_where(score: Node, values: dict[str, Value]) -> Node | None:
    """The condition outside of which a score is −∞; None where there is none."""
    if score.op == "ref" and score.arg in values:
        v = values[score.arg]
        return _visible_where(substitute(v.expr, dict(zip(v.axes, score.src, strict=True))), {}) if isinstance(v.expr, Node) else None
    return score.src[0] if score.op == "where" and _is_least(score.src[2]) else None


def _is_least(n: Node) -> bool:
    return n.op == "const" and n.dtype.is_float and n.arg == float("-inf")


def sees_one(seen: Node, site: Node) -> bool:
    """Whether for all values of the other axes some value of `site` is seen for certain."""
    extent = as_node(site.arg.extent)
    for at in _candidates(seen, site):
        inside = (ix.compare("le", const(0), at), ix.compare("lt", at, extent))
        if all(c is const(True) for c in (*inside, *conjuncts(substitute(seen, {site: at})))):
            return True
    return False


def _candidates(seen: Node, site: Node) -> Iterator[Node]:
    """The first value of an axis, and those at which one of the conditions begins or ceases to hold."""
    yield const(0)
    for c in conjuncts(seen):
        found = threshold(c, site) if c.op in ("lt", "le") and c.src[0].dtype is index else None
        if found is not None and abs(found[0]) == 1:
            yield ix.mul(found[1], const(-found[0]))


def _only_in_sums(fold: Fold, v: Value) -> bool:
    """Whether all that reads `v` is sums over its axis of the folded family, of products that it is a factor of."""
    readers = [r for r in fold.block if any(n.op == "ref" and n.arg == v.name for n in walk(r.body))]
    for r in readers:
        if not isinstance(r.expr, Reduce) or r.expr.combine != "add":
            return False
        found = [n for n in walk(r.body) if n.op == "ref" and n.arg == v.name]
        family = fold.axis.arg.family
        summed = [i for a, i in zip(v.axes, found[0].src, strict=True) if a.arg.family == family]
        if len(found) != 1 or summed != [a for a in r.reduce_axes if a.arg.family == family] or found[0] not in _factors(r.body):
            return False
    return True


def _factors(n: Node) -> list[Node]:
    """What a product multiplies, through conversions between types of float."""
    if n.op == "mul":
        return [f for s in n.src for f in _factors(s)]
    if n.op == "cast" and n.dtype.is_float and n.src[0].dtype.is_float:
        return _factors(n.src[0])
    return [n]
