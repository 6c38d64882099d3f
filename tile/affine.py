"""An expression as scale · x + terms, for one of its parts x."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.node import Node, const
from ..ir.operators import where

Affine = tuple[Node, list[Node]]
"""The scale of x, and what is added."""


class NotAffineError(Exception):
    """The expression is no such form; the text names the operation."""


def affine(n: Node, x: Node, holds: Callable[[Node], bool]) -> Affine:
    """`n` as (scale, terms). `holds`: whether x is in an expression. Raises NotAffineError."""
    zero, one = const(0, x.dtype), const(1, x.dtype)
    if n is x:
        return one, []
    if not holds(n):
        return zero, [n]
    if n.op in ("add", "sub"):
        (p, left), (q, right) = (affine(s, x, holds) for s in n.src)
        sign = 1 if n.op == "add" else -1
        return _added(p, q, sign), [*left, *(t if sign > 0 else -t for t in right)]
    if n.op == "neg":
        p, terms = affine(n.src[0], x, holds)
        return -p if p is not zero else p, [-t for t in terms]
    if n.op in ("mul", "div"):
        return _scaled(n, x, holds)
    if n.op == "where" and not holds(n.src[0]):
        cond, a, b = n.src
        (p, left), (q, right) = affine(a, x, holds), affine(b, x, holds)
        terms = [where(cond, t, zero) for t in left] + [where(cond, zero, t) for t in right]
        return (p if p is q else where(cond, p, q)), terms
    names = {"ref": "a sum over its own elements", "exp": "exp()", "max": "max()", "min": "min()", "where": "a condition on itself"}
    raise NotAffineError(names.get(n.op, f"{n.op}"))


def _scaled(n: Node, x: Node, holds: Callable[[Node], bool]) -> Affine:
    a, b = n.src
    if holds(a) and holds(b):
        raise NotAffineError(f"{n.op} of itself with itself")
    if n.op == "div":
        if holds(b):
            raise NotAffineError("division by itself")
        p, terms = affine(a, x, holds)
        return _times(p, 1.0 / b), [t / b for t in terms]
    inside, factor = (a, b) if holds(a) else (b, a)
    p, terms = affine(inside, x, holds)
    return _times(p, factor), [t * factor for t in terms]


def _times(p: Node, factor: Node) -> Node:
    if p.op == "const" and p.arg in (0, 1):
        return factor if p.arg == 1 else p
    return p * factor


def _added(p: Node, q: Node, sign: int) -> Node:
    if q.op == "const" and q.arg == 0:
        return p
    if p.op == "const" and p.arg == 0:
        return q if sign > 0 else -q
    return p + q if sign > 0 else p - q
