"""Products of matrices: broadcast, multiplied, summed; the partition sees the contraction."""

from __future__ import annotations

from ...ir.errors import UsageError
from ..node import TensorNode
from ..primitives import cast, elementwise, expand, reduce, reshape
from ..promotion import promote
from .elementwise import broadcast_shape
from .movement import transposed


def matmul(a: TensorNode, b: TensorNode) -> TensorNode:
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
