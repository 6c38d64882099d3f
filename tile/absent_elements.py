"""What an expression is where nothing exists: past the end of a dimension, where masks do not hold and loads give 0.

Numbers are taken as finite there: 0 · x is 0, and −∞ − x is −∞. (What is not finite comes from elements that exist, and reaches the
result by them.)"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.buffer import load_parts
from ..ir.checks.access_bounds import Access, proved
from ..ir.node import Node, axes_of, const, make, pending, ref, walk
from ..ir.operators import fold_constants, rebuild, substitute, substitute_on
from .trace import Trace


def vanished(root: Node, table: dict[Node, Node], of_ref: Callable[[Node], Node | None]) -> Node:
    """`root` with the keys of `table` replaced (conditions by False, places by others), and simplified. `of_ref`: what a reference
    to a reduction is, where it is a number."""
    memo = dict(table)
    for n in pending(root, memo.__contains__):
        src = tuple(memo[s] for s in n.src)
        found = rebuild(n, src) if src else n
        if found.op == "ref":
            known = of_ref(found)
            found = found if known is None else known
        memo[n] = _simple(fold_constants(found))
    return memo[root]


def _simple(n: Node) -> Node:
    """One operator with operands some of which are numbers."""
    values = [s.arg if s.op == "const" else None for s in n.src]
    if n.op == "mul" and 0 in values:
        return const(0, n.dtype)
    if n.op in ("add", "sub", "max", "min") and len(values) == 2:
        return _of_two(n, *values)
    if n.op == "div" and values[0] == 0:
        return n.src[0]
    if n.op == "exp" and values[0] is not None:
        return const(math.exp(min(values[0], 700.0)), n.dtype)
    if n.op == "where" and n.src[1] is n.src[2]:
        return n.src[1]
    if n.op == "cast" and values[0] is not None and n.dtype.is_float:
        return const(float(values[0]), n.dtype)
    return n


def _of_two(n: Node, a: float | None, b: float | None) -> Node:
    low, high = -math.inf, math.inf
    if n.op in ("max", "min"):
        idle, wins = (low, high) if n.op == "max" else (high, low)
        for x, y in (n.src, n.src[::-1]):
            if x.op == "const" and x.arg in (idle, wins):
                return y if x.arg == idle else x
        return n
    if a in (low, high) and b not in (low, high):
        return n.src[0]
    if b in (low, high) and a not in (low, high):
        return n.src[1] if n.op == "add" else make("const", n.dtype, (), -b)
    if b == 0:
        return n.src[0]
    if a == 0 and n.op == "add":
        return n.src[1]
    return n


def identity_of(combine: str, n: Node) -> Node:
    """The neutral element of a combine, in a node's type."""
    if combine in ("add", "mul"):
        return const(int(combine == "mul"), n.dtype)
    if n.dtype.is_float:
        return const(-math.inf if combine == "max" else math.inf, n.dtype)
    bits = 8 * n.dtype.size - (n.dtype.kind == "i")
    top = (1 << bits) - 1
    bottom = -top - 1 if n.dtype.kind == "i" else 0
    return const(bottom if combine == "max" else top, n.dtype)


def without_end(trace: Trace, n: Node, end: Node) -> Node:
    """`n` without the conditions that a place is below `end`, in the reductions that it refers to as well."""

    def below(root: Node) -> dict[Node, Node]:
        return {m: const(True) for m in walk(root) if m.op == "lt" and m.src[1] is end}

    def again(r: Node, src: tuple[Node, ...]) -> Node:
        found = trace.solved.get(r.arg)
        if found is None:
            return ref(r.arg, src, r.dtype)
        body = substitute_on(found.body, below(found.body), again)
        if body is found.body:
            return ref(r.arg, src, r.dtype)
        made = trace.opened.get((r.arg, end))
        if made is None:
            made = trace.opened[r.arg, end] = trace.add_solved(found.combine, body, found.over, found.dtype, found.name)
        return substitute(made, dict(zip(found.axes, src, strict=True)))

    return substitute_on(n, below(n), again)


def all_inside(trace: Trace, n: Node) -> bool:
    """Whether every load of an expression, and of the reductions that it refers to, is proved to stay inside its array."""
    loads: list[Node] = []
    trace.deep(n, lambda m: loads.append(m) if m.op == "load" else None)
    for m in loads:
        buffer, indices, mask = load_parts(m)
        axes = tuple(axes_of(m))
        for d, (i, size) in enumerate(zip(indices, buffer.shape, strict=True)):
            if not proved(Access("", buffer.name, d, i, size, axes, mask)):
                return False
    return True
