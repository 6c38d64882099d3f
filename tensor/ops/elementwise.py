"""Elementwise functions with NumPy's broadcasting and the array API's promotion."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import DType, bool_
from ...ir.errors import UsageError
from ..graph.maps import Shape
from ..graph.node import TensorNode
from ..graph.primitives import as_typed, cast, const, elementwise, expand, number
from ..graph.promotion import Scalar, default_of, of_scalar, promote, to_float

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
    """Operands of one shape and one type. A Python number takes the type of the arrays beside it, and is rounded to it."""
    nodes = [o for o in operands if isinstance(o, TensorNode)]
    if dtype is None:
        dtype = _common(operands, nodes)
    shape = broadcast_shape(name, *(n.shape for n in nodes)) if nodes else ()
    for o in operands:
        if not isinstance(o, TensorNode):
            _fits(name, o, dtype)
    return [expand(cast(o, dtype), shape) if isinstance(o, TensorNode) else const(o, dtype, shape) for o in operands]


def _common(operands: Sequence[Operand], nodes: list[TensorNode]) -> DType:
    """The type of an operation: that of the arrays, then of the numbers, if need be."""
    numbers: list[Scalar] = [o for o in operands if not isinstance(o, TensorNode)]
    dtype = nodes[0].dtype if nodes else default_of(numbers[0])
    for n in nodes[1:]:
        dtype = promote(dtype, n.dtype)
    for v in numbers:
        dtype = of_scalar(v, dtype) if nodes else promote(dtype, default_of(v))
    return dtype


def _fits(name: str, value: Scalar, dtype: DType) -> None:
    if dtype.is_int and isinstance(value, int) and not isinstance(value, bool):
        lo, hi = dtype.limits
        if not lo <= value <= hi:
            raise UsageError(f"{name}: {value} is no {dtype} ({lo} to {hi}): cast the tensor to a wider type")


def binary(op: str, a: Operand, b: Operand) -> TensorNode:
    """An operator after broadcasting and promotion."""
    x, y = together(op, a, b)
    return elementwise(op, x, y)


def floating(op: str, x: TensorNode) -> TensorNode:
    """A unary function whose results are floats."""
    return elementwise(op, cast(x, to_float(x.dtype)))


def floats(name: str, *operands: Operand) -> list[TensorNode]:
    """Operands of one shape and one float type: integers become the default float."""
    nodes = together(name, *operands)
    kind = to_float(nodes[0].dtype)
    return [cast(n, kind) for n in nodes]


def divide(x1: Operand, x2: Operand, /) -> TensorNode:
    """True division: integers become the default float."""
    x, y = floats("divide", x1, x2)
    return elementwise("div", x, y)


def like(x: TensorNode, value: Scalar) -> TensorNode:
    """A number of a function's definition, in the shape and type of `x`."""
    return number(value, x.dtype, x.shape)


def truth(x: TensorNode) -> TensorNode:
    """Whether elements are not 0."""
    return x if x.dtype is bool_ else elementwise("ne", as_typed(x), like(x, 0))


def choose(cond: TensorNode, a: TensorNode | Scalar, b: TensorNode | Scalar) -> TensorNode:
    """`where` of operands of one shape and type; numbers become them."""
    model = a if isinstance(a, TensorNode) else b
    assert isinstance(model, TensorNode)
    x, y = (o if isinstance(o, TensorNode) else like(model, o) for o in (a, b))
    return elementwise("where", cond, x, y)


def where(condition: Operand, x1: Operand, x2: Operand, /) -> TensorNode:
    """`x1` where `condition` holds, else `x2`."""
    x, y = together("where", x1, x2)
    c = truth(condition) if isinstance(condition, TensorNode) else const(condition, bool_)
    shape = broadcast_shape("where", c.shape, x.shape)
    return elementwise("where", expand(c, shape), expand(x, shape), expand(y, shape))
