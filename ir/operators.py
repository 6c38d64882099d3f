"""Operators of expressions: promotion, constants folded, index arithmetic kept in normal form; and rebuilding through them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from . import index as ix
from .buffer import load
from .checks.misuse import condition, number, types_differ
from .dtypes import DType, DTypeLike, bool_, dtype, float32, index, rounded
from .errors import KernelError
from .index import Interval
from .literals import adapted, matched, remember
from .node import COMPARE, COUNTS, INTEGER, UNARY, Expr, Node, Number, as_node, const, make, pending

_ARITH: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}
Line = tuple[int, int]
"""(slope, value where the place is 0)."""


def as_border(cond: Node, a: Node, b: Node) -> Node | None:
    """`a` where `cond` compares places and holds, else `b`, as the remainder, the minimum or the maximum that this is; None where it is
    none of them.

    Both have to be numbers or to move with the place, which is the difference of what is compared. Then either is a line over an interval of
    places, and ends of intervals say all. A number that is chosen at one place is on lines of any slope."""
    sets = _chosen(cond)
    if sets is None:
        return None
    place = ix.add(cond.src[0], cond.src[1], -1)
    for first in _lines(a, place, sets[0]):
        for second in _lines(b, place, sets[1]):
            n = abs(first[1] - second[1])
            if first[0] == second[0] and n and all(0 <= v < n for line, at in zip((first, second), sets) for v in _values(line, at)):
                return ix.mod(_written(first, place), n)
            above = [
                v - w for line, other, at in ((first, second, sets[0]), (second, first, sets[1])) for v, w in _both_lines(line, other, at)
            ]
            if all(v >= 0 for v in above) or all(v <= 0 for v in above):
                return ix.minmax("max" if max(above) > 0 else "min", _written(first, place), _written(second, place))
    return None


def _chosen(cond: Node) -> tuple[Interval, Interval] | None:
    """The intervals of places for which a comparison holds, and does not; None where one of them is none, or not known."""
    if cond.op not in COMPARE or cond.src[0].dtype is not index:
        return None
    lo, hi = ix.bounds(ix.add(cond.src[0], cond.src[1], -1))
    if lo <= -ix.BIG or hi >= ix.BIG:
        return None
    if cond.op in ("lt", "le"):
        last = -1 if cond.op == "lt" else 0
        return (lo, last), (last + 1, hi)
    if lo != 0 and hi != 0:
        return None
    sets = (0, 0), ((1, hi) if lo == 0 else (lo, -1))
    return sets if cond.op == "eq" else (sets[1], sets[0])


def _lines(x: Node, place: Node, at: Interval) -> Iterator[Line]:
    """The lines on which an index is for all places of an interval."""
    for slope in (0, 1, -1):
        terms, c = ix.parts(ix.add(x, place, -slope))
        if not terms:
            yield slope, c
        elif slope and x.op == "const" and at[0] == at[1]:
            yield slope, x.arg - slope * at[0]


def _values(line: Line, at: Interval) -> Iterator[int]:
    """The least and the largest of a line, in some order."""
    return (line[0] * d + line[1] for d in at)


def _both_lines(line: Line, other: Line, at: Interval) -> Iterator[tuple[int, int]]:
    return zip(_values(line, at), _values(other, at), strict=True)


def _written(line: Line, place: Node) -> Node:
    return ix.add(ix.mul(place, const(line[0])), const(line[1]))


def arith(op: str, a: Expr, b: Expr) -> Node:
    """A binary operator after promotion: numbers take the other's type, 16-bit floats widen to float32. Integers have no `div`.
    The larger of a float x and −x is |x|."""
    a, b = _promoted(a, b)
    if a.dtype is index and b.dtype is index:
        return ix.binary(op, a, b)
    a, b = cast(a, a.dtype.compute), cast(b, b.dtype.compute)
    if a.dtype is not b.dtype:
        types_differ(op, a, b)
    if op == "div" and not a.dtype.is_float:
        raise KernelError(f"/ of {a.dtype}: cast it to a float type, or divide with // (which rounds down)")
    if op in ("max", "min") and a.dtype.is_float:
        for x, y in ((a, b), (b, a)):
            if y.op == "neg" and y.src[0] is x:  # one operation, and one read of what NaN would be noted for
                return unary("abs", x) if op == "max" else unary("neg", unary("abs", x))
    return make(op, bool_ if op in COMPARE else a.dtype, (a, b))


def _promoted(a: Expr, b: Expr) -> tuple[Node, Node]:
    """Two operands as nodes; a number takes the other's type, and so does a choice between numbers (`ir.literals`)."""
    if not isinstance(a, Node):
        return _number(a, as_node(b))
    return matched(a, b) if isinstance(b, Node) else _number(b, a)[::-1]


def _number(value: Number, like: Node) -> tuple[Node, Node]:
    """A number, and what it meets. A fraction makes floats of whole numbers that are written in the kernel."""
    value = number(value)
    if isinstance(value, float) and like.dtype is index:
        floats = adapted(like, float32)
        if floats is None:
            raise KernelError(f"{value} meets an index: cast the index to a float type first")
        like = floats
    return const(value, like.dtype.compute), like


def logical(op: str, a: Expr, b: Expr) -> Node:
    """`and` / `or` of bools with constants folded, or of the bits of two integers. Raises KernelError for a Python bool."""
    for n in (a, b):
        if isinstance(n, bool):
            condition(n, "&" if op == "and" else "|")
    if any(isinstance(n, Node) and n.dtype is not bool_ for n in (a, b)):
        return integer(op, a, b)
    x, y = as_node(a, bool_), as_node(b, bool_)
    for p, q in ((x, y), (y, x)):
        if p.op == "const":
            return (q if p.arg else p) if op == "and" else (p if p.arg else q)
    return x if x is y else make(op, bool_, (x, y))


def integer(op: str, a: Expr, b: Expr) -> Node:
    """`and`, `or`, `xor` of two integers or bools bit by bit; `shl`, `shr`, `floordiv`, `remainder` of two integers.

    A shift by a negative amount, or by as many bits as the type has or more, gives 0 (`shr` of a negative number −1). `shr`
    keeps the sign of signed types. Division rounds down, the remainder has the divisor's sign, and both are 0 where the divisor
    is 0, as in NumPy; the least number divided by −1 wraps to itself."""
    x, y = _promoted(a, b)
    if x.dtype is not y.dtype:
        types_differ(op, x, y)
    if not (x.dtype.is_int or (x.dtype is bool_ and op in ("and", "or", "xor"))):
        raise KernelError(f"{op} of {x.dtype}: cast it to an integer type")
    return make(op, x.dtype, (x, y))


def divide(op: str, a: Expr, b: Expr) -> Node:
    """`//` ("floordiv") and `%` ("remainder"): of an index by a number in normal form, of integers and floats by a value.

    Of floats they are NumPy's, special values included, while |x / y| < 2⁵³. KernelError for an index that is divided by the number 0, and for bools."""
    x, y = _promoted(a, b)
    if x.dtype is index and y.op == "const" and y.arg >= 0:
        return ix.floordiv(x, y.arg) if op == "floordiv" else ix.mod(x, y.arg)
    return of_floats({"floordiv": "floor_div", "remainder": "floor_mod"}[op], x, y) if x.dtype.is_float else integer(op, x, y)


def of_floats(op: str, x: Node, y: Node) -> Node:
    """A function of two floats (`op_names.PAIRED`) in the type that they are computed in."""
    x, y = cast(x, x.dtype.compute), cast(y, y.dtype.compute)
    if x.dtype is not y.dtype:
        types_differ(op, x, y)
    return make(op, x.dtype, (x, y))


def unary(op: str, a: Node) -> Node:
    """A unary operator; float16 and bfloat16 widen first."""
    if op not in UNARY:
        raise KernelError(f"unknown operator {op}")
    if op == "not":
        if a.dtype.is_float:
            raise KernelError(f"~ of {a.dtype}: cast it to an integer type")
        if a.op == "const":
            return const(~a.arg if a.dtype.is_int else not a.arg, a.dtype)
        return make("not", a.dtype, (a,))
    if op in COUNTS:
        if not a.dtype.is_int:
            raise KernelError(f"{op} of {a.dtype}: cast it to an integer type")
        return make(op, a.dtype, (a,))
    if op == "abs" and a.dtype is index:  # indices have no such term of their own
        return arith("max", a, a * -1)
    a = cast(a, a.dtype.compute)
    if op not in ("neg", "abs") and not a.dtype.is_float:
        raise KernelError(f"{op} of {a.dtype}: cast it to a float type")
    return make(op, a.dtype, (a,))


def cast(a: Node, to: DTypeLike) -> Node:
    """Conversion; the identity when the type is already right, or was so before a conversion that loses nothing."""
    kind = to if isinstance(to, DType) else dtype(to)
    if not isinstance(a, Node):
        if isinstance(a, bool):
            condition(a, "cast()")
        a = const(number(a), kind if kind.is_float else None)
    if a.dtype is kind:
        return a
    if a.op == "const":
        held = rounded(a.arg, a.dtype)
        return const(int(held) if kind.is_int else rounded(held, kind) if kind.narrow else held, kind)
    if a.op == "cast" and a.src[0].dtype is kind and kind.is_float and a.dtype.is_float and a.dtype.size > kind.size:
        return a.src[0]
    return make("cast", kind, (a,))


def where(cond: Node, a: Expr, b: Expr) -> Node:
    """`a` where `cond` holds, else `b`; both sides are defined everywhere. Raises KernelError for a Python bool."""
    condition(cond, "where()")
    if cond.dtype is not bool_:
        raise KernelError(f"where(): {cond!r} is {cond.dtype}, not a condition; write x.ne(0), x > 0 or the like")
    if isinstance(a, Node) or isinstance(b, Node):
        x, y = _promoted(a, b)
    else:
        if isinstance(a, float) is not isinstance(b, float):  # 1 beside 0.5 is 1.0
            a, b = float(a), float(b)
        x, y = as_node(a), as_node(b)
    x, y = cast(x, x.dtype.compute), cast(y, y.dtype.compute)
    if x.dtype is not y.dtype:
        types_differ("where()", x, y)
    if cond.op == "const":
        return x if cond.arg else y
    border = as_border(cond, x, y) if x.dtype is index else None
    if border is not None:
        remember(border, cond, x, y)
        return border
    return x if x is y else make("where", x.dtype, (cond, x, y))


def fold_constants(n: Node) -> Node:
    """`n` evaluated where its operands are constants; x·1, x / 1 and x − 0 are x (x + 0 is not: −0 + 0 is +0)."""
    if len(n.src) == 1 and n.op in ("neg", "abs") and n.src[0].op == "const":
        value = n.src[0].arg
        return const(rounded(-value if n.op == "neg" else abs(value), n.dtype), n.dtype)
    if len(n.src) != 2 or n.op not in _ARITH or n.src[0].dtype is index:
        return n
    a, b = n.src
    if a.op == "const" and b.op == "const":
        if n.op == "div" and (b.arg == 0 or not n.dtype.is_float):
            return n
        x, y = rounded(a.arg, a.dtype), rounded(b.arg, b.dtype)
        value = _ARITH[n.op](x, y)
        return const(bool(value), bool_) if n.op in COMPARE else const(rounded(value, n.dtype), n.dtype)
    if b.op == "const" and ((n.op in ("mul", "div") and b.arg == 1) or (n.op == "sub" and b.arg == 0 and str(b.arg)[0] != "-")):
        return a
    if a.op == "const" and n.op == "mul" and a.arg == 1:
        return b
    return n


def substitute(node: Node, table: dict[Node, Node]) -> Node:
    """`node` with the keys of `table` replaced, rebuilt through the simplifying constructors."""
    return substitute_on(node, dict(table))


def substitute_on(node: Node, memo: dict[Node, Node], ref: Callable[[Node, tuple[Node, ...]], Node] | None = None) -> Node:
    """The same for one of many nodes that share operands: `memo`, at first the table, gets what was rebuilt. `ref` makes a reference to a
    value over new indices."""
    for n in pending(node, memo.__contains__):
        src = tuple(memo[s] for s in n.src)
        memo[n] = ref(n, src) if ref is not None and n.op == "ref" else rebuild(n, src) if src else n
    return memo[node]


def depth(node: Node) -> int:
    """How many operators lie one inside the other (memoised)."""
    found: int | None = node._memo.get("depth")
    if found is not None:
        return found
    for n in pending(node, lambda n: "depth" in n._memo):
        n._memo["depth"] = 1 + max((s._memo["depth"] for s in n.src), default=0)
    return int(node._memo["depth"])


def rebuild(node: Node, src: tuple[Node, ...]) -> Node:
    """`node` with other operands, simplified again."""
    if src == node.src:
        return node
    op = node.op
    if node.dtype is index and op in ("sum", "prod", "div", "mod", "min", "max"):
        return ix.rebuild(node, src)
    if op == "cast":
        return cast(src[0], node.dtype)
    if op in ("and", "or"):
        return logical(op, *src)
    if op in INTEGER and len(src) == 2:
        return integer(op, *src)
    if op == "where":
        return where(*src)
    if op in COMPARE:
        return fold_constants(arith(op, *src))
    if op == "not" or op in COUNTS:
        return unary(op, src[0])
    if op == "load":
        buffer, masked = node.arg
        return load(buffer, src[:-1] if masked else src, src[-1] if masked else None)
    return make(op, node.dtype, src, node.arg)
