"""Comparisons, logic, bits, and questions about single elements."""

from __future__ import annotations

from ...ir.dtypes import bool_, float64
from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import as_typed, elementwise, expand
from .elementwise import Operand, broadcast_shape, like, together, truth


def equal(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 = x2."""
    return elementwise("eq", *_typed("equal", x1, x2))


def not_equal(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 ≠ x2."""
    return elementwise("ne", *_typed("not_equal", x1, x2))


def less(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 < x2."""
    return _ordered("lt", x1, x2)


def less_equal(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 ≤ x2."""
    return _ordered("le", x1, x2)


def greater(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 > x2."""
    return _ordered("lt", x2, x1)


def greater_equal(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 ≥ x2."""
    return _ordered("le", x2, x1)


def _ordered(op: str, a: Operand, b: Operand) -> TensorNode:
    x, y = _typed("comparison", a, b)
    if x.dtype is bool_:  # False < True
        no = elementwise("not", x)
        return elementwise("and" if op == "lt" else "or", no, y)
    return elementwise(op, x, y)


def _typed(name: str, *operands: Operand) -> list[TensorNode]:
    """Operands of one shape and type, as numbers of it: they compare as they are seen, however a kernel has them."""
    return [as_typed(n) for n in together(name, *operands)]


# logic ------------------------------------------------------------------------------------------------------------
def logical_and(x1: Operand, x2: Operand, /) -> TensorNode:
    """Whether both are true."""
    return elementwise("and", *_truths("logical_and", x1, x2))


def logical_or(x1: Operand, x2: Operand, /) -> TensorNode:
    """Whether either is true."""
    return elementwise("or", *_truths("logical_or", x1, x2))


def logical_xor(x1: Operand, x2: Operand, /) -> TensorNode:
    """Whether exactly one is true."""
    return elementwise("ne", *_truths("logical_xor", x1, x2))


def logical_not(x: TensorNode, /) -> TensorNode:
    """Whether x is false."""
    return elementwise("not", truth(x))


def _truths(name: str, a: Operand, b: Operand) -> list[TensorNode]:
    nodes = [o if isinstance(o, TensorNode) else together(name, o)[0] for o in (a, b)]
    shape = broadcast_shape(name, *(n.shape for n in nodes))
    return [expand(truth(n), shape) for n in nodes]


# bits -------------------------------------------------------------------------------------------------------------
def bitwise_and(x1: Operand, x2: Operand, /) -> TensorNode:
    """Bits that both have."""
    return elementwise("and", *_integers("bitwise_and", x1, x2))


def bitwise_or(x1: Operand, x2: Operand, /) -> TensorNode:
    """Bits that either has."""
    return elementwise("or", *_integers("bitwise_or", x1, x2))


def bitwise_xor(x1: Operand, x2: Operand, /) -> TensorNode:
    """Bits that exactly one has."""
    x, y = _integers("bitwise_xor", x1, x2)
    return elementwise("ne" if x.dtype is bool_ else "xor", x, y)


def bitwise_invert(x: TensorNode, /) -> TensorNode:
    """All bits changed; of bools the negation."""
    return elementwise("not", *_integers("bitwise_invert", x))


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> TensorNode:
    """Bits moved up; 0 where all leave."""
    return elementwise("shl", *_integers("bitwise_left_shift", x1, x2, bools=False))


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> TensorNode:
    """Bits moved down, the sign kept."""
    return elementwise("shr", *_integers("bitwise_right_shift", x1, x2, bools=False))


def _integers(name: str, *operands: Operand, bools: bool = True) -> list[TensorNode]:
    nodes = together(name, *operands)
    if not (nodes[0].dtype.is_int or (bools and nodes[0].dtype is bool_)):
        raise UsageError(f"{name} of {nodes[0].dtype}: cast it to an integer type")
    return nodes


# single elements --------------------------------------------------------------------------------------------------
def isnan(x: TensorNode, /) -> TensorNode:
    """Whether an element is NaN."""
    return elementwise("ne", x, x)


def isinf(x: TensorNode, /) -> TensorNode:
    """Whether an element is infinite."""
    if not x.dtype.is_float:
        return elementwise("ne", x, x)
    return elementwise("eq", elementwise("abs", as_typed(x)), like(x, float("inf")))


def isfinite(x: TensorNode, /) -> TensorNode:
    """Whether an element is neither infinite nor NaN."""
    if not x.dtype.is_float:
        return elementwise("eq", x, x)
    return elementwise("lt", elementwise("abs", as_typed(x)), like(x, float("inf")))


def isclose(x1: Operand, x2: Operand, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> TensorNode:
    """|x1 − x2| ≤ atol + rtol·|x2|, or equal infinities; NaNs are close to NaNs if `equal_nan`."""
    x, y = _typed("isclose", x1, x2)
    if x.dtype is bool_ or x.dtype.is_int:
        x, y = together("isclose", x, y, dtype=float64)
    near = elementwise("add", like(y, atol), elementwise("mul", like(y, rtol), elementwise("abs", y)))
    within = elementwise("le", elementwise("abs", elementwise("sub", x, y)), near)
    out = elementwise("or", elementwise("and", within, isfinite(y)), elementwise("eq", x, y))
    return elementwise("or", out, elementwise("and", isnan(x), isnan(y))) if equal_nan else out
