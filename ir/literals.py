"""Numbers that are written in a kernel take the type of what they meet, also where a `where` chooses between them.

`where(c, 17, 1)` alone is int64 and `where(c, 0.5, 2.0)` float32, as 17 and 0.5 are. Beside an int32 either number is an
int32, so the choice is one too. What is computed of such numbers alone (`where(c, 17, 1) + 1`) is a choice of numbers as
well: each of its cases is computed here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from .dtypes import DType, bool_, float32, index
from .node import Node, Number, const, make

MOST = 256
"""Cases and choices that arithmetic of choices is worked out for; what has more keeps its type."""
_WORD = 1 << 64


def matched(a: Node, b: Node) -> tuple[Node, Node]:
    """Two operands of a type that they are computed in, if one of them is made of numbers alone which the other's type has; else as they
    are."""
    if a.dtype.compute is b.dtype.compute:
        return a, b
    x = adapted(a, b.dtype.compute)
    if x is not None:
        return x, b
    y = adapted(b, a.dtype.compute)
    return (a, b) if y is None else (a, y)


def adapted(n: Node, to: DType) -> Node | None:
    """A choice between numbers in another type; None for all else, and where that type lacks one of them.

    A number itself stays as it is: one that is a node has been given its type."""
    if n.dtype not in (index, float32) or to is bool_ or (n.dtype is float32 and not to.is_float) or n.op == "const":
        return None
    choice = _choice(n)
    return None if choice is None else _typed(choice, to)


def together(parts: Sequence[Node]) -> list[Node]:
    """Parts of one tuple: numbers and choices between them in the type of the others, where these have one that has them."""
    written = [n.op == "const" or adapted(n, n.dtype) is not None for n in parts]
    types = {n.dtype for n, w in zip(parts, written, strict=True) if not w}
    if len(types) != 1:
        return list(parts)
    to = types.pop()
    found = [_typed(n, to) if n.op == "const" and to.is_float else adapted(n, to) for n in parts]
    return [n if new is None else new for n, new in zip(parts, found, strict=True)]


def remember(border: Node, cond: Node, a: Node, b: Node) -> None:
    """Keep what an index was before `ir.operators` wrote it as a remainder or an extreme, where it is a choice between numbers."""
    if border.op not in ("const", "where") and all(x.op in ("const", "where") or "choice" in x._memo for x in (a, b)):
        border._memo.setdefault("choice", make("where", index, (cond, a, b)))


def _written(n: Node) -> Node:
    found: Node = n._memo.get("choice", n)
    return found


def _choice(n: Node) -> Node | None:
    """What is made of numbers as nested choices with numbers at their ends, each exact; None for what is not."""
    done: dict[Node, Node] = {}
    left = [MOST]
    stack, begun = [n], set[Node]()
    while stack:
        top = stack[-1]
        m = _written(top)
        parts = m.src[1:] if m.op == "where" else m.src
        if m.op != "const" and (not parts or (m.op != "where" and m.op not in _SUM and m.op not in _OF)):
            return None
        todo = [s for s in parts if s not in done]
        if todo:
            begun.add(top)
            if not begun.isdisjoint(todo):  # it was remembered as a choice with itself at an end
                return None
            stack += todo
            continue
        stack.pop()
        if top in done:
            continue
        if m.op == "const":
            done[top] = m
        elif m.op == "where":
            done[top] = make("where", m.dtype, (m.src[0], *(done[s] for s in parts)))
        else:
            found = _spread(m, [done[s] for s in parts], left)
            if found is None:
                return None
            done[top] = found
    return done[n]


def _spread(n: Node, operands: Sequence[Node], left: list[int]) -> Node | None:
    """An operator of choices as a choice between its results; None where it has too many, or one has no value."""
    left[0] -= 1
    if left[0] < 0:
        return None
    for k, x in enumerate(operands):
        if x.op == "where":
            a, b = (_spread(n, [*operands[:k], s, *operands[k + 1 :]], left) for s in x.src[1:])
            return None if a is None or b is None else make("where", n.dtype, (x.src[0], a, b))
    try:
        value = _value(n, [x.arg for x in operands])
    except (ArithmeticError, ValueError):
        return None
    return const((value + _WORD // 2) % _WORD - _WORD // 2 if n.dtype is index else value, n.dtype)


def _value(n: Node, x: Sequence[Number]) -> Number:
    if n.op == "sum":
        terms, constant = n.arg
        total: Number = sum((k * v for k, v in zip(terms, x, strict=True)), constant)
        return total
    if n.op in ("div", "mod") and n.dtype is index:
        by: int = n.arg
        return x[0] // by if n.op == "div" else x[0] % by
    return _OF[n.op](*x)


def _product(*x: Number) -> Number:
    out: Number = 1
    for v in x:
        out *= v
    return out


def _shift(x: int, by: int) -> int:
    return x << by if 0 <= by < 64 else 0


_SUM = ("sum", "div", "mod")
_OF: dict[str, Callable[..., Number]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg, "abs": abs,
    "prod": _product, "min": min, "max": max, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": operator.invert,
    "shl": _shift, "shr": lambda x, by: x >> min(by, 63) if by >= 0 else -(x < 0),
}  # fmt: skip
"""What operators do to numbers. (Functions, and `//` of two choices, are computed in the type that they have.)"""


def _typed(choice: Node, to: DType) -> Node | None:
    """Nested choices with their numbers in another type; None where it lacks one."""
    done: dict[Node, Node] = {}
    stack = [choice]
    while stack:
        n = stack[-1]
        if n.op == "const":
            if to.is_int and not _has(to, n.arg):
                return None
            done[n] = const(n.arg, to)
        todo = [s for s in n.src[1:] if s not in done] if n.op == "where" else []
        stack += todo
        if not todo:
            stack.pop()
            if n.op == "where":
                a, b = (done[s] for s in n.src[1:])
                done[n] = a if a is b else make("where", to, (n.src[0], a, b))
    return done[choice]


def _has(to: DType, value: int) -> bool:
    bits = 8 * to.size
    return 0 <= value < 1 << bits if to.kind == "u" else -(1 << (bits - 1)) <= value < 1 << (bits - 1)
