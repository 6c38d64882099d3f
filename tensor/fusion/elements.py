"""What each elementwise operator of the graph is in a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import functions as F
from ...ir import operators as O
from ...ir.dtypes import bool_, index
from ...ir.errors import KernelError
from ...ir.node import COMPARE, UNARY, Node, walk

_ARITH = frozenset({"add", "sub", "mul", "div", "max", "min", *COMPARE})
_DIVISION = frozenset({"floordiv", "remainder"})
_BITS = frozenset({"and", "or", "xor", "shl", "shr"})
_FUNCTIONS = {"pow": "power"}


def element(op: str, src: Sequence[Node]) -> Node:
    """The operator `op` on elements."""
    if op == "where":
        return F.where(src[0], _under(src[0], src[1], 1), _under(src[0], src[2], 2))
    if all(s.dtype is bool_ for s in src):
        src, op = list(src), _BOOL.get(op, op)
    if op in ("and", "or") and src[0].dtype is bool_:
        return O.logical(op, src[0], src[1])
    if op in _ARITH:
        return O.arith(op, src[0], src[1])
    if op == "neg":
        return -src[0]
    if op == "abs" and src[0].dtype is index:
        return O.arith("max", src[0], -src[0])  # an index has no other absolute value
    if op in UNARY:
        return O.unary(op, src[0])
    if op in _DIVISION:
        return O.divide(op, src[0], src[1])
    if op in _BITS:
        return O.integer(op, src[0], src[1])
    found: Callable[..., Node] | None = getattr(F, _FUNCTIONS.get(op, op), None)
    if found is None:
        raise KernelError(f"no kernel can compute {op} of {src[0].dtype} yet")
    return found(*src)


def _under(cond: Node, x: Node, side: int) -> Node:
    """`x`, which counts only where `cond` holds (side 1) or fails (side 2), with selections by the same condition decided.
    (The scores of attention are masked before exp, and its weights after.)"""
    table = {n: n.src[side] for n in walk(x) if n.op == "where" and n.src[0] is cond}
    return O.substitute(x, table) if table else x


_BOOL = {"xor": "ne", "max": "or", "min": "and", "mul": "and", "add": "or"}
"""Operators on bool by others: a sum of bools is their `or`, as in NumPy."""


def known(op: str) -> bool:
    """Whether kernels can compute the operator."""
    return op == "where" or op in _ARITH | UNARY | _DIVISION | _BITS or hasattr(F, _FUNCTIONS.get(op, op))


def is_load(e: Node) -> bool:
    """Whether an element is a load, converted or not: where its mask fails it is 0."""
    while e.op == "cast":
        e = e.src[0]
    return e.op == "load"
