"""Linear algebra: products of matrices, and decompositions of stacks of matrices by NumPy's own code.

A product is broadcast, multiplied and summed, which the partition sees as a contraction. A decomposition of several results is one
call: its results lie one behind the other in one array, and are views of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...ir.dtypes import DTypeLike, int64
from ...ir.errors import UsageError
from ..graph.index_maps import Shape
from ..graph.nodes import HostCall, TensorNode
from ..graph.primitives import cast, expand, host, reduce, reshape, with_gradient
from ..graph.promotion import promote, to_float
from .creation import eye
from .elementwise import absolute, binary, broadcast_shape, choose, length, like, power, to_floats, together, truth
from .joining import joined
from .movement import broadcast_to, diagonal, dims, keep_dims, part, permute, transposed
from .reduction import reduced
from .reduction import sum as sum_

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@cache
def _linalg_error() -> type[UsageError]:
    """The class of errors of decompositions, which are NumPy's too. (NumPy takes long to import.)"""
    import numpy as np

    return type("LinAlgError", (UsageError, np.linalg.LinAlgError), {})


def matmul(a: TensorNode, b: TensorNode, /) -> TensorNode:
    """a (…, m, k) · b (…, k, n) → (…, m, n), batches broadcast; vectors as in NumPy. Raises UsageError."""
    shapes = [list(getattr(x, "shape", ())) for x in (a, b)]  # (a number has none)
    if not all(shapes):
        raise UsageError(f"matmul of {shapes[0]} and {shapes[1]}: both need at least one dimension")
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
    out = reduce("add", left * right, (len(batch) + 2,))
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
    return reduce("add", a * b, (len(a.shape) + axis,))


def outer(x1: TensorNode, x2: TensorNode, /) -> TensorNode:
    """Every element of one vector times every element of another."""
    if len(x1.shape) != 1 or len(x2.shape) != 1:
        raise UsageError(f"outer of {list(x1.shape)} and {list(x2.shape)}: both are vectors")
    a, b = together("outer", reshape(x1, (x1.count, 1)), reshape(x2, (1, x2.count)))
    return a * b


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
        rows.append(p[j] * q[k] - p[k] * q[j])
    return joined(rows, d)


def linear(x: TensorNode, weight: TensorNode, bias: TensorNode | None = None, /) -> TensorNode:
    """x · weightᵀ + bias, with weight (out, in), as neural networks keep it."""
    y = matmul(x, transposed(weight))
    return y if bias is None else binary("add", y, bias)


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and the vectors in columns."""

    eigenvalues: TensorNode
    eigenvectors: TensorNode


class QRResult(NamedTuple):
    """An orthonormal Q and an upper triangle R."""

    Q: TensorNode
    R: TensorNode


class SlogdetResult(NamedTuple):
    """The determinant's sign and the logarithm of its size."""

    sign: TensorNode
    logabsdet: TensorNode


class SVDResult(NamedTuple):
    """x = U · diag(S) · Vh."""

    U: TensorNode
    S: TensorNode
    Vh: TensorNode


# decompositions, by NumPy -----------------------------------------------------------------------------------------
def _matrices(name: str, x: TensorNode, square: bool = False) -> TensorNode:
    if len(x.shape) < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise _linalg_error()(f"{name} of {list(x.shape)}: it needs {'square ' if square else ''}matrices")
    return to_floats(x)


def _computed(name: str, src: Sequence[TensorNode], *shapes: Shape, **options: Any) -> list[TensorNode]:
    """The results of `numpy.linalg`'s function `name`, of these shapes and the type of the first source. NumPy computes 16-bit types in
    float32."""
    kind = src[0].dtype

    def call(*arrays: Array) -> Array:
        import numpy as np

        try:
            out = getattr(np.linalg, name)(*(a.astype(kind.compute.np, copy=False) for a in arrays), **options)
        except np.linalg.LinAlgError as e:
            raise _linalg_error()(f"{name}: {e}") from e
        return np.concatenate([np.ravel(o) for o in (out if isinstance(out, tuple) else (out,))])

    sizes = [prod(s) for s in shapes]
    flat = host(HostCall(f"linalg.{name}", call, tuple(options.values())), tuple(src), (sum(sizes),), kind)
    return [reshape(part(flat, 0, sum(sizes[:i]), size), shape) for i, (shape, size) in enumerate(zip(shapes, sizes))]


def cholesky(x: TensorNode, /, *, upper: bool = False) -> TensorNode:
    """The triangle L with L · Lᵀ = x (upper: U with Uᵀ · U = x). Raises UsageError where x is not positive definite."""
    x = _matrices("cholesky", x, True)
    return _computed("cholesky", [x], x.shape, upper=upper)[0]


def det(x: TensorNode, /) -> TensorNode:
    """The determinant."""
    x = _matrices("det", x, True)
    return _computed("det", [x], x.shape[:-2])[0]


def inv(x: TensorNode, /) -> TensorNode:
    """The inverse. Raises UsageError where there is none."""
    x = _matrices("inv", x, True)
    return _computed("inv", [x], x.shape)[0]


def eigh(x: TensorNode, /) -> EighResult:
    """Eigenvalues and vectors of symmetric matrices (the lower triangle is read)."""
    x = _matrices("eigh", x, True)
    return EighResult(*_computed("eigh", [x], x.shape[:-1], x.shape))


def eigvalsh(x: TensorNode, /) -> TensorNode:
    """Eigenvalues of symmetric matrices, ascending."""
    x = _matrices("eigvalsh", x, True)
    return _computed("eigvalsh", [x], x.shape[:-1])[0]


def qr(x: TensorNode, /, *, mode: str = "reduced") -> QRResult:
    """x = Q · R; mode "reduced": Q has as many columns as the smaller dimension; "complete": Q is square."""
    x = _matrices("qr", x)
    if mode not in ("reduced", "complete"):
        raise UsageError(f"qr: mode is 'reduced' or 'complete', not {mode!r}")
    *lead, m, n = x.shape
    k = min(m, n) if mode == "reduced" else m
    return QRResult(*_computed("qr", [x], (*lead, m, k), (*lead, k, n), mode=mode))


def svd(x: TensorNode, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values, descending, and vectors."""
    x = _matrices("svd", x)
    *lead, m, n = x.shape
    k = min(m, n)
    shapes = (*lead, m, m if full_matrices else k), (*lead, k), (*lead, n if full_matrices else k, n)
    return SVDResult(*_computed("svd", [x], *shapes, full_matrices=full_matrices))


def svdvals(x: TensorNode, /) -> TensorNode:
    """Singular values, descending."""
    x = _matrices("svdvals", x)
    return _computed("svdvals", [x], (*x.shape[:-2], min(x.shape[-2:])))[0]


def slogdet(x: TensorNode, /) -> SlogdetResult:
    """The determinant's sign and the logarithm of its size."""
    x = _matrices("slogdet", x, True)
    return SlogdetResult(*_computed("slogdet", [x], x.shape[:-2], x.shape[:-2]))


def solve(x1: TensorNode, x2: TensorNode, /) -> TensorNode:
    """y with x1 · y = x2. Raises UsageError where there is no one solution."""
    a = _matrices("solve", x1, True)
    kind = promote(a.dtype, to_float(x2.dtype))
    a, b = cast(a, kind), cast(x2, kind)
    vector = len(b.shape) == 1
    n = b.shape[0] if vector else b.shape[-2] if b.shape else -1
    if n != a.shape[-1]:
        raise UsageError(f"solve of {list(x1.shape)} and {list(x2.shape)}: {a.shape[-1]} unknowns and {max(n, 0)} right sides")
    lead = broadcast_shape("solve", a.shape[:-2], () if vector else b.shape[:-2])
    a = broadcast_to(a, (*lead, *a.shape[-2:]))
    b = broadcast_to(reshape(b, (n, 1)), (*lead, n, 1)) if vector else broadcast_to(b, (*lead, *b.shape[-2:]))
    (out,) = _computed("solve", [a, b], b.shape)
    return reshape(out, (*lead, n)) if vector else out


def pinv(x: TensorNode, /, *, rtol: float | TensorNode | None = None) -> TensorNode:
    """The pseudo-inverse; singular values below rtol times the largest count as 0."""
    x = _matrices("pinv", x)
    *lead, m, n = x.shape
    if isinstance(rtol, TensorNode):
        return _computed("pinv", [x, cast(rtol, x.dtype)], (*lead, n, m))[0]
    return _computed("pinv", [x], (*lead, n, m), rtol=max(m, n) * x.dtype.compute.eps if rtol is None else rtol)[0]


def matrix_rank(x: TensorNode, /, *, rtol: float | TensorNode | None = None) -> TensorNode:
    """How many singular values are above rtol times the largest."""
    values = svdvals(x)
    if 0 in x.shape[-2:]:
        return reduced("add", cast(values, int64), -1, False, "matrix_rank")
    largest = reduced("max", values, -1, False, "matrix_rank")
    factor = max(x.shape[-2:]) * values.dtype.compute.eps if rtol is None else rtol
    scale = cast(broadcast_to(factor, largest.shape), values.dtype) if isinstance(factor, TensorNode) else like(largest, factor)
    limit = largest * scale
    wide = broadcast_to(reshape(limit, (*limit.shape, 1)), values.shape)
    return reduced("add", cast(wide < values, int64), -1, False, "matrix_rank")


def matrix_power(x: TensorNode, n: int, /) -> TensorNode:
    """The matrix n times multiplied by itself, by squaring; negative powers are the inverse's."""
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise _linalg_error()(f"matrix_power of {list(x.shape)}: it needs square matrices")
    if n < 0:
        return matrix_power(inv(x), -n)

    out, base = None, x
    while n:
        if n & 1:
            out = base if out is None else matmul(out, base)
        n >>= 1
        if n:
            base = matmul(base, base)
    return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape) if out is None else out


def vector_norm(x: TensorNode, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2) -> TensorNode:
    """(Σ |x|^ord)^(1/ord); ±∞: the largest and smallest |x|; 0: how many are not 0."""
    x = to_floats(x)
    over = dims(x, axis, "vector_norm")
    size = absolute(x)
    if ord in (float("inf"), float("-inf")):
        return reduced("max" if ord > 0 else "min", size, over, keepdims, "vector_norm")
    if ord == 0:
        return reduced("add", cast(truth(x), x.dtype), over, keepdims, "vector_norm")
    if ord == 1:
        return reduced("add", size, over, keepdims, "vector_norm")
    if ord == 2:
        return length(reduced("add", x * x, over, keepdims, "vector_norm"))
    total = reduced("add", _flat_at_zero(size, 1.0 * ord), over, keepdims, "vector_norm")
    return _flat_at_zero(total, 1.0 / ord)


def _flat_at_zero(x: TensorNode, exponent: float) -> TensorNode:
    """A power whose gradient is 0 where x is."""

    def power_of_a_norm(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
        zero = x.eq(0.0)
        slope = _to(choose(zero, 1.0, x), exponent - 1.0) * exponent
        return (choose(zero, 0.0, dy * slope),)

    return with_gradient(_to(x, exponent), (x,), power_of_a_norm)


def _to(x: TensorNode, exponent: float) -> TensorNode:
    """A power by a function's own number, which the type of `x` need not have."""
    return power(x, exponent if exponent % 0.5 == 0 and abs(exponent) < 64 else like(x, exponent))


def matrix_norm(x: TensorNode, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> TensorNode:
    """A norm of matrices: "fro" (Frobenius), "nuc" (sum of singular values), ±1 (columns), ±2 (singular values), ±∞ (rows)."""
    x = _matrices("matrix_norm", x)
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc" or ord in (2, -2):
        values = svdvals(x)
        out = reduced("add" if ord == "nuc" else "max" if ord == 2 else "min", values, -1, False, "matrix_norm")
    elif ord in (1, -1, float("inf"), float("-inf")):
        inner, outer = (-2, -1) if abs(ord) == 1 else (-1, -1)
        sums = reduced("add", absolute(x), inner, False, "matrix_norm")
        out = reduced("max" if ord > 0 else "min", sums, outer, False, "matrix_norm")
    else:
        raise UsageError(f"matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}")
    return keep_dims(out, x.shape, (len(x.shape) - 2, len(x.shape) - 1)) if keepdims else out
