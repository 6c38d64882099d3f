"""Movement: every function is an index map, and none copies."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.errors import UsageError
from .. import maps
from ..maps import Shape
from ..node import TensorNode
from ..primitives import reshape as _reshape
from ..primitives import view


def dims(x: TensorNode, axis: int | Sequence[int] | None, name: str) -> tuple[int, ...]:
    """Dimensions counted from the front; None means all. Raises UsageError."""
    rank = len(x.shape)
    given = range(rank) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for a in given:
        if not -rank <= a < rank:
            raise UsageError(f"{name}: axis {a} of an array with {rank} dimensions {list(x.shape)}")
    found = tuple(a % rank for a in given)
    if len(set(found)) < len(found):
        raise UsageError(f"{name}: axis {axis} names a dimension twice")
    return found


def reshape(x: TensorNode, shape: Sequence[int]) -> TensorNode:
    """Row-major reshape; one dimension may be −1."""
    new = tuple(shape)
    if new.count(-1) > 1:
        raise UsageError(f"reshape of {list(x.shape)} to {list(new)}: only one dimension may be -1")
    if -1 in new:
        rest = prod(n for n in new if n != -1)
        if rest == 0 or x.size % rest:
            raise UsageError(f"reshape of {list(x.shape)} to {list(new)}: {x.size} elements are no multiple of {rest}")
        new = tuple(x.size // rest if n == -1 else n for n in new)
    if prod(new) != x.size or min(new, default=0) < 0:
        raise UsageError(f"reshape of {list(x.shape)} ({x.size} elements) to {list(new)} ({prod(new)})")
    return _reshape(x, new)


def permute(x: TensorNode, order: Sequence[int]) -> TensorNode:
    """Dimension d of the result is dimension `order[d]`."""
    found = dims(x, order, "permute_dims")
    if len(found) != len(x.shape):
        raise UsageError(f"permute_dims of {list(x.shape)}: {list(order)} must name every dimension once")
    return view(x, maps.permute(x.shape, found))


def transposed(x: TensorNode) -> TensorNode:
    """The last two dimensions change places."""
    if len(x.shape) < 2:
        raise UsageError(f"the transpose of {list(x.shape)} needs two dimensions")
    r = range(len(x.shape))
    return permute(x, (*r[:-2], r[-1], r[-2]))


def expand_dims(x: TensorNode, axis: int) -> TensorNode:
    """A dimension of size 1 before dimension `axis` of the result."""
    rank = len(x.shape) + 1
    if not -rank <= axis < rank:
        raise UsageError(f"expand_dims: axis {axis} of a result with {rank} dimensions")
    at = axis % rank
    return _reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


def kept(x: TensorNode, shape: Shape, over: Sequence[int]) -> TensorNode:
    """A reduction's result with its reduced dimensions back as 1; `shape` is the source's."""
    return _reshape(x, tuple(1 if d in over else n for d, n in enumerate(shape)))
