"""Products of matrices: broadcast, multiplied, summed; the partition sees the contraction."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.dtypes import DTypeLike
from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import cast, elementwise, expand, reduce, reshape
from ..graph.promotion import promote
from .elementwise import binary, broadcast_shape, together
from .joining import joined
from .movement import diagonal, dims, part, permute, transposed
from .reduction import sum as sum_


def matmul(a: TensorNode, b: TensorNode, /) -> TensorNode:
    """a (…, m, k) · b (…, k, n) → (…, m, n), batches broadcast; vectors as in NumPy. Raises UsageError."""
    if not a.shape or not b.shape:
        raise UsageError(f"matmul of {list(a.shape)} and {list(b.shape)}: both need at least one dimension")
    first, last = len(a.shape) == 1, len(b.shape) == 1
    x = reshape(a, (1, *a.shape)) if first else a
    y = reshape(b, (*b.shape, 1)) if last else b
    if x.shape[-1] != y.shape[-2]:
        raise UsageError(f"matmul of {list(a.shape)} and {list(b.shape)}: {x.shape[-1]} columns do not meet {y.shape[-2]} rows")
    kind = promote(x.dtype, y.dtype)
    batch = broadcast_shape("matmul", x.shape[:-2], y.shape[:-2])
    m, k, n = x.shape[-2], x.shape[-1], y.shape[-1]
    y = transposed(y)
    left = expand(reshape(cast(x, kind), (*x.shape[:-2], m, 1, k)), (*batch, m, n, k))
    right = expand(reshape(cast(y, kind), (*y.shape[:-2], 1, n, k)), (*batch, m, n, k))
    out = reduce("add", elementwise("mul", left, right), (len(batch) + 2,))
    shape = out.shape[: len(batch)] + (() if first else (m,)) + (() if last else (n,))
    return reshape(out, shape)


def vecdot(x1: TensorNode, x2: TensorNode, /, *, axis: int = -1) -> TensorNode:
    """Σ x1·x2 along a dimension, counted from the end; the others broadcast."""
    if axis >= 0 or axis < -min(len(x1.shape), len(x2.shape)):
        raise UsageError(f"vecdot of {list(x1.shape)} and {list(x2.shape)}: axis {axis} must be negative and one that both have")
    if x1.shape[axis] != x2.shape[axis]:
        raise UsageError(
            f"vecdot of {list(x1.shape)} and {list(x2.shape)}: {x1.shape[axis]} and {x2.shape[axis]} elements along axis {axis}"
        )
    a, b = together("vecdot", x1, x2)
    return reduce("add", elementwise("mul", a, b), (len(a.shape) + axis,))


def outer(x1: TensorNode, x2: TensorNode, /) -> TensorNode:
    """Every element of one vector times every element of another."""
    if len(x1.shape) != 1 or len(x2.shape) != 1:
        raise UsageError(f"outer of {list(x1.shape)} and {list(x2.shape)}: both are vectors")
    a, b = together("outer", reshape(x1, (x1.count, 1)), reshape(x2, (1, x2.count)))
    return elementwise("mul", a, b)


def tensordot(x1: TensorNode, x2: TensorNode, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> TensorNode:
    """Sums of products over dimensions of both: the last `axes` of x1 and the first of x2, or the ones named."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(len(x1.shape), len(x2.shape)):
            raise UsageError(f"tensordot of {list(x1.shape)} and {list(x2.shape)} over {axes} dimensions")
        first, second = tuple(range(len(x1.shape) - axes, len(x1.shape))), tuple(range(axes))
    else:
        first, second = dims(x1, axes[0], "tensordot"), dims(x2, axes[1], "tensordot")
    if len(first) != len(second) or any(x1.shape[a] != x2.shape[b] for a, b in zip(first, second)):
        raise UsageError(f"tensordot of {list(x1.shape)} and {list(x2.shape)} over {list(first)} and {list(second)}: extents differ")
    left = [d for d in range(len(x1.shape)) if d not in first]
    right = [d for d in range(len(x2.shape)) if d not in second]
    shape = tuple(x1.shape[d] for d in left) + tuple(x2.shape[d] for d in right)
    inner = prod(x1.shape[d] for d in first)
    a = reshape(permute(x1, (*left, *first)), (prod(x1.shape[d] for d in left), inner))
    b = reshape(permute(x2, (*second, *right)), (inner, prod(x2.shape[d] for d in right)))
    return reshape(matmul(a, b), shape)


def trace(x: TensorNode, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> TensorNode:
    """The sum of the diagonals of the last two dimensions."""
    return sum_(diagonal(x, offset=offset), -1, False, dtype)


def cross(x1: TensorNode, x2: TensorNode, /, *, axis: int = -1) -> TensorNode:
    """The vector product along a dimension of 3 elements."""
    if axis >= 0 or any(len(x.shape) < -axis or x.shape[axis] != 3 for x in (x1, x2)):
        raise UsageError(f"cross of {list(x1.shape)} and {list(x2.shape)}: axis {axis} must be negative and have 3 elements in both")
    a, b = together("cross", x1, x2)
    d = len(a.shape) + axis
    p, q = ([part(v, d, i, 1) for i in range(3)] for v in (a, b))
    rows = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        rows.append(elementwise("sub", elementwise("mul", p[j], q[k]), elementwise("mul", p[k], q[j])))
    return joined(rows, d)


def linear(x: TensorNode, weight: TensorNode, bias: TensorNode | None = None, /) -> TensorNode:
    """x · weightᵀ + bias, with weight (out, in), as neural networks keep it."""
    y = matmul(x, transposed(weight))
    return y if bias is None else binary("add", y, bias)
