"""What other frameworks write around a product, in the one form that the rewrite starts from.

* A softmax that is 0 where a row is hidden wholly counts its scores above −∞, or asks whether any is. Their maximum says the same, and the
  fold has it anyway.
* Operands that are scaled before their product, and scores that are divided: a number leaves the sum, and what multiplies a product is one
  number, so that all ways of scaling are one kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from math import isfinite

from ..body import Value
from ..dtypes import rounded
from ..node import Node, const, ref, walk
from ..operators import substitute
from .anchors import INF, ChainNest, factors, product

SCALES = (2.0**-60, 2.0**60)
"""Numbers that leave a sum: with these, a scaled operand is as far from the ends of float32 as its product is."""


def seen_by_maximum(nests: list[ChainNest]) -> list[ChainNest]:
    """The nests with `count != 0`, of a count of elements that are not −∞, as `maximum != −∞` of the maximum of the same elements. (A NaN
    is counted, and makes the maximum NaN.) A count that nothing else reads is left out."""
    maxima = {(n.over, n.axes, n.exprs[0]): n for n in nests if n.combine == "max" and n.exprs[0].dtype.is_float}
    by_count: dict[str, ChainNest] = {}
    for n in nests:
        score = _counted(n)
        found = None if score is None else maxima.get((n.over, n.axes, score))
        if found is not None:
            by_count[n.name] = found
    if not by_count:
        return nests

    def read(e: Node) -> Node | None:
        if e.op in ("eq", "ne") and e.src[0].op == "ref" and e.src[0].arg in by_count and e.src[1].op == "const" and e.src[1].arg == 0:
            top = by_count[e.src[0].arg]
            least = ref(top.name, e.src[0].src, top.exprs[0].dtype)
            return least.eq(-INF) if e.op == "eq" else least.ne(-INF)
        return None

    nests = [_rewritten(n, read) for n in nests]
    unread = set(by_count) - {name for n in nests for name in n.reads}
    return _after([n for n in nests if n.name not in unread], by_count)


def _counted(n: ChainNest) -> Node | None:
    """x, of a nest that counts the elements in which x is not −∞."""
    if n.combine != "add" or n.exprs[0].op != "cast" or not n.exprs[0].dtype.is_int:
        return None
    cond, wanted = n.exprs[0].src[0], "ne"
    while cond.op == "not":
        cond, wanted = cond.src[0], "eq" if wanted == "ne" else "ne"
    if cond.op != wanted:
        return None
    for x, least in (cond.src, cond.src[::-1]):
        if least.op == "const" and least.arg == -INF:
            return x
    return None


def _after(nests: list[ChainNest], by_count: dict[str, ChainNest]) -> list[ChainNest]:
    """The nests in an order in which each follows what it reads: a maximum may come later than the count did."""
    values = {n.name: n for n in nests if isinstance(n.item, Value)}
    done: dict[str, None] = {}

    def place(n: ChainNest) -> None:
        for name in sorted(n.reads - set(done), key=list(values).index):
            place(values[name])
        done.setdefault(n.name)

    for n in values.values():
        place(n)
    return [*(values[name] for name in done), *(n for n in nests if not isinstance(n.item, Value))]


def numbers_outside(nests: list[ChainNest], products: Collection[str]) -> list[ChainNest]:
    """The nests with Σ c·f, of a number c, as c·Σ f, for the sums named in `products`; what multiplies or divides one is one number."""
    scale = dict.fromkeys(products, 1.0)
    out = []
    for n in nests:
        e = n.exprs[0]
        above, below = factors(e) if n.name in scale and e.dtype.is_float else ([], [])
        whole = 1.0
        for f in filter(_number, above):
            whole *= f.arg
        for f in filter(_number, below):
            whole /= f.arg
        rest, under = (product([f for f in fs if not _number(f)]) for fs in (above, below))
        if whole != 1 and rest is not None and SCALES[0] <= abs(whole) <= SCALES[1]:
            scale[n.name] = whole
            n = replace(n, exprs=(rest if under is None else rest / under,))
        out.append(n)

    def read(e: Node) -> Node | None:
        """A product with such a sum, all numbers in it taken as one."""
        above, below = factors(e) if e.op in ("mul", "div", "ref") and e.dtype.is_float else ([], [])
        hit = [f for f in above if f.op == "ref" and f.arg in scale]
        if len(hit) != 1 or any(not _number(f) for f in (*above, *below) if f is not hit[0]):
            return None
        whole = scale[hit[0].arg]
        for f in above:
            whole *= 1.0 if f is hit[0] else f.arg
        for f in below:
            whole /= f.arg
        if not SCALES[0] ** 2 <= abs(whole) <= SCALES[1] ** 2:
            return None
        whole = rounded(whole, e.dtype)
        return hit[0] if whole == 1 else hit[0] * const(whole, e.dtype)

    return [_rewritten(n, read) for n in out]


def _number(e: Node) -> bool:
    """Whether it is a number that products may be taken apart by."""
    return e.op == "const" and e.dtype.is_float and isfinite(e.arg) and SCALES[0] <= abs(e.arg) <= SCALES[1]


def _rewritten(n: ChainNest, by: Callable[[Node], Node | None]) -> ChainNest:
    """A nest with what `by` says in place of expressions, the largest first."""
    table = {e: new for e in walk(*n.exprs) if (new := by(e)) is not None}
    return replace(n, exprs=tuple(substitute(e, table) for e in n.exprs)) if table else n
