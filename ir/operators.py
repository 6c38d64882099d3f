"""Operators of expressions: promotion, constants folded, index arithmetic kept in normal form; and rebuilding through them."""

from __future__ import annotations

from . import index as ix
from .buffer import load
from .dtypes import DType, bool_, index
from .errors import KernelError
from .node import COMPARE, UNARY, Expr, Node, Number, as_node, const, install, make
from .text import show


def arith(op: str, a: Expr, b: Expr) -> Node:
    """A binary operator after promotion: numbers take the other's type, 16-bit floats widen to float32."""
    if not isinstance(a, Node):
        a, b = _number(a, as_node(b)), as_node(b)
    elif not isinstance(b, Node):
        b = _number(b, a)
    if a.dtype is index and b.dtype is index:
        return ix.binary(op, a, b)
    a, b = cast(a, a.dtype.compute), cast(b, b.dtype.compute)
    if a.dtype is not b.dtype:
        raise KernelError(f"{op} of {a.dtype} and {b.dtype}: cast one of them")
    return make(op, bool_ if op in COMPARE else a.dtype, (a, b))


def _number(value: Number, like: Node) -> Node:
    dtype = like.dtype.compute
    if isinstance(value, float) and dtype is index:
        raise KernelError(f"{value} meets an index: cast the index to a float type first")
    return const(value, dtype)


def logical(op: str, a: Expr, b: Expr) -> Node:
    """`and` / `or` with constants folded."""
    x, y = as_node(a, bool_), as_node(b, bool_)
    for p, q in ((x, y), (y, x)):
        if p.op == "const":
            return (q if p.arg else p) if op == "and" else (p if p.arg else q)
    return x if x is y else make(op, bool_, (x, y))


def unary(op: str, a: Node) -> Node:
    """A unary operator; float16 and bfloat16 widen first."""
    if op not in UNARY:
        raise KernelError(f"unknown operator {op}")
    if op == "not":
        return const(not a.arg) if a.op == "const" else make("not", bool_, (a,))
    a = cast(a, a.dtype.compute)
    if op not in ("neg", "abs") and not a.dtype.is_float:
        raise KernelError(f"{op} of {a.dtype}: cast it to a float type")
    return make(op, a.dtype, (a,))


def cast(a: Node, to: DType) -> Node:
    """Conversion; the identity when the type is already right."""
    if a.dtype is to:
        return a
    if a.op == "const":
        return const(int(a.arg) if to.is_int else a.arg, to)
    return make("cast", to, (a,))


def where(cond: Node, a: Expr, b: Expr) -> Node:
    """`a` where `cond` holds, else `b`; both sides are defined everywhere."""
    like = a if isinstance(a, Node) else b if isinstance(b, Node) else None
    dtype = like.dtype.compute if like is not None else None
    x, y = as_node(a, dtype), as_node(b, dtype)
    x, y = cast(x, x.dtype.compute), cast(y, y.dtype.compute)
    if x.dtype is not y.dtype:
        raise KernelError(f"where() of {x.dtype} and {y.dtype}: cast one of them")
    if cond.op == "const":
        return x if cond.arg else y
    return x if x is y else make("where", x.dtype, (cond, x, y))


def substitute(node: Node, table: dict[Node, Node]) -> Node:
    """`node` with the keys of `table` replaced, rebuilt through the simplifying constructors."""
    memo = dict(table)

    def go(n: Node) -> Node:
        found = memo.get(n)
        if found is None:
            found = memo[n] = rebuild(n, tuple(go(s) for s in n.src)) if n.src else n
        return found

    return go(node)


def rebuild(node: Node, src: tuple[Node, ...]) -> Node:
    """`node` with other operands, simplified again."""
    if all(a is b for a, b in zip(src, node.src, strict=True)):
        return node
    op = node.op
    if node.dtype is index and op in ("sum", "prod", "div", "mod", "min", "max"):
        return ix.rebuild(node, src)
    if op == "cast":
        return cast(src[0], node.dtype)
    if op in ("and", "or"):
        return logical(op, *src)
    if op == "where":
        return where(*src)
    if op in COMPARE:
        return arith(op, *src)
    if op == "not":
        return unary(op, src[0])
    if op == "load":
        buffer, masked = node.arg
        return load(buffer, src[:-1] if masked else src, src[-1] if masked else None)
    return make(op, node.dtype, src, node.arg)


class _Rules:
    """The operators of nodes, as this module has them."""

    arith = staticmethod(arith)
    logical = staticmethod(logical)
    unary = staticmethod(unary)
    cast = staticmethod(cast)
    floordiv = staticmethod(ix.floordiv)
    mod = staticmethod(ix.mod)
    text = staticmethod(show)


install(_Rules())
