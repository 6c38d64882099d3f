"""Elementwise functions with NumPy's broadcasting and the array API's promotion."""

from __future__ import annotations

from ...ir.dtypes import DType, bool_
from ...ir.errors import UsageError
from ..maps import Shape
from ..node import TensorNode
from ..primitives import cast, const, elementwise, expand
from ..promotion import Scalar, default_of, of_scalar, promote, to_float

Operand = TensorNode | bool | int | float


def broadcast_shape(name: str, *shapes: Shape) -> Shape:
    """The shape NumPy broadcasts `shapes` to. Raises UsageError naming the operation and the shapes."""
    rank = max(map(len, shapes))
    out = []
    for d in range(rank):
        sizes = {s[len(s) - rank + d] for s in shapes if len(s) - rank + d >= 0} - {1}
        if len(sizes) > 1:
            raise UsageError(f"{name} of shapes {' and '.join(map(str, map(list, shapes)))}: dimension {d - rank} does not broadcast")
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def together(name: str, *operands: Operand, dtype: DType | None = None) -> list[TensorNode]:
    """Operands of one shape and one type. A Python number takes the type of the arrays beside it."""
    nodes = [o for o in operands if isinstance(o, TensorNode)]
    if dtype is None:
        dtype = nodes[0].dtype if nodes else default_of(_number(operands[0]))
        for n in nodes[1:]:
            dtype = promote(dtype, n.dtype)
        for o in operands:
            if not isinstance(o, TensorNode):
                dtype = of_scalar(o, dtype) if nodes else promote(dtype, default_of(o))
    shape = broadcast_shape(name, *(n.shape for n in nodes)) if nodes else ()
    return [expand(cast(o, dtype), shape) if isinstance(o, TensorNode) else const(o, dtype, shape) for o in operands]


def _number(x: Operand) -> Scalar:
    assert not isinstance(x, TensorNode)
    return x


def binary(op: str, a: Operand, b: Operand) -> TensorNode:
    """An operator after broadcasting and promotion."""
    x, y = together(op, a, b)
    return elementwise(op, x, y)


def divide(a: Operand, b: Operand) -> TensorNode:
    """True division: integers become the default float."""
    x, y = together("divide", a, b)
    kind = to_float(x.dtype)
    return elementwise("div", cast(x, kind), cast(y, kind))


def floating(op: str, x: TensorNode) -> TensorNode:
    """A unary function whose results are floats."""
    return elementwise(op, cast(x, to_float(x.dtype)))


def where(cond: Operand, a: Operand, b: Operand) -> TensorNode:
    """`a` where `cond` holds, else `b`."""
    x, y = together("where", a, b)
    c = cond if isinstance(cond, TensorNode) else const(bool(cond), bool_)
    if c.dtype is not bool_:
        c = elementwise("ne", c, const(0, c.dtype, c.shape))
    shape = broadcast_shape("where", c.shape, x.shape)
    return elementwise("where", expand(c, shape), expand(x, shape), expand(y, shape))
