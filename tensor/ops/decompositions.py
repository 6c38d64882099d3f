"""Linear algebra by NumPy's own code, on whole arrays: solving, inverses and decompositions of stacks of matrices.

A decomposition of several results is one call: its results lie one behind the other in one array, and are views of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...ir.dtypes import int64
from ...ir.errors import UsageError
from ..graph.maps import Shape
from ..graph.node import HostCall, TensorNode
from ..graph.primitives import cast, elementwise, host, reshape, with_gradient
from ..graph.promotion import promote, to_float
from .arithmetic import absolute
from .creation import eye
from .elementary import length
from .elementwise import broadcast_shape, choose, like, truth
from .linalg import matmul
from .movement import broadcast_to, dims, kept, part
from .powers import power
from .reduction import reduced

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


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


def _matrices(name: str, x: TensorNode, square: bool = False) -> TensorNode:
    if len(x.shape) < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise UsageError(f"{name} of {list(x.shape)}: it needs {'square ' if square else ''}matrices")
    return cast(x, to_float(x.dtype))


def _call(
    name: str, function: Callable[..., Any], src: Sequence[TensorNode], shapes: Sequence[Shape], key: tuple[Any, ...] = ()
) -> list[TensorNode]:
    """NumPy's results, of these shapes, of the type of the first source. NumPy computes 16-bit types in float32."""
    kind = src[0].dtype

    def call(*arrays: Array) -> Array:
        import numpy as np

        try:
            out = function(*(a.astype(kind.compute.np, copy=False) for a in arrays))
        except np.linalg.LinAlgError as e:
            raise UsageError(f"{name}: {e}") from e
        return np.concatenate([np.ravel(o) for o in (out if isinstance(out, tuple) else (out,))])

    sizes = [prod(s) for s in shapes]
    flat = host(HostCall(f"linalg.{name}", call, key), tuple(src), (sum(sizes),), kind)
    start, parts = 0, []
    for shape, size in zip(shapes, sizes):
        parts.append(reshape(part(flat, 0, start, size), shape))
        start += size
    return parts


def cholesky(x: TensorNode, /, *, upper: bool = False) -> TensorNode:
    """The triangle L with L · Lᵀ = x (upper: U with Uᵀ · U = x). Raises UsageError where x is not positive definite."""
    import numpy as np

    x = _matrices("cholesky", x, True)
    return _call("cholesky", lambda a: np.linalg.cholesky(a, upper=upper), (x,), (x.shape,), (upper,))[0]


def det(x: TensorNode, /) -> TensorNode:
    """The determinant."""
    import numpy as np

    x = _matrices("det", x, True)
    return _call("det", np.linalg.det, (x,), (x.shape[:-2],))[0]


def inv(x: TensorNode, /) -> TensorNode:
    """The inverse. Raises UsageError where there is none."""
    import numpy as np

    x = _matrices("inv", x, True)
    return _call("inv", np.linalg.inv, (x,), (x.shape,))[0]


def eigh(x: TensorNode, /) -> EighResult:
    """Eigenvalues and vectors of symmetric matrices (the lower triangle is read)."""
    import numpy as np

    x = _matrices("eigh", x, True)
    return EighResult(*_call("eigh", lambda a: tuple(np.linalg.eigh(a)), (x,), (x.shape[:-1], x.shape)))


def eigvalsh(x: TensorNode, /) -> TensorNode:
    """Eigenvalues of symmetric matrices, ascending."""
    import numpy as np

    x = _matrices("eigvalsh", x, True)
    return _call("eigvalsh", np.linalg.eigvalsh, (x,), (x.shape[:-1],))[0]


def qr(x: TensorNode, /, *, mode: str = "reduced") -> QRResult:
    """x = Q · R; mode "reduced": Q has as many columns as the smaller dimension; "complete": Q is square."""
    import numpy as np

    x = _matrices("qr", x)
    if mode not in ("reduced", "complete"):
        raise UsageError(f"qr: mode is 'reduced' or 'complete', not {mode!r}")
    m, n = x.shape[-2:]
    k = min(m, n) if mode == "reduced" else m
    lead = x.shape[:-2]
    return QRResult(*_call("qr", lambda a: tuple(np.linalg.qr(a, mode)), (x,), ((*lead, m, k), (*lead, k, n)), (mode,)))  # type: ignore[call-overload]


def svd(x: TensorNode, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values, descending, and vectors."""
    import numpy as np

    x = _matrices("svd", x)
    m, n = x.shape[-2:]
    k, lead = min(m, n), x.shape[:-2]
    shapes = ((*lead, m, m if full_matrices else k), (*lead, k), (*lead, n if full_matrices else k, n))
    return SVDResult(*_call("svd", lambda a: tuple(np.linalg.svd(a, full_matrices)), (x,), shapes, (full_matrices,)))


def svdvals(x: TensorNode, /) -> TensorNode:
    """Singular values, descending."""
    import numpy as np

    x = _matrices("svdvals", x)
    out = _call("svdvals", lambda a: np.linalg.svd(a, compute_uv=False), (x,), ((*x.shape[:-2], min(x.shape[-2:])),))
    return out[0]


def slogdet(x: TensorNode, /) -> SlogdetResult:
    """The determinant's sign and the logarithm of its size."""
    import numpy as np

    x = _matrices("slogdet", x, True)
    return SlogdetResult(*_call("slogdet", lambda a: tuple(np.linalg.slogdet(a)), (x,), (x.shape[:-2], x.shape[:-2])))


def solve(x1: TensorNode, x2: TensorNode, /) -> TensorNode:
    """y with x1 · y = x2. Raises UsageError where there is no one solution."""
    import numpy as np

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
    (out,) = _call("solve", np.linalg.solve, (a, b), (b.shape,))
    return reshape(out, (*lead, n)) if vector else out


def pinv(x: TensorNode, /, *, rtol: float | TensorNode | None = None) -> TensorNode:
    """The pseudo-inverse; singular values below rtol times the largest count as 0."""
    import numpy as np

    x = _matrices("pinv", x)
    m, n = x.shape[-2:]
    least = max(m, n) * x.dtype.compute.eps if rtol is None else rtol
    shape = (*x.shape[:-2], n, m)
    if isinstance(least, TensorNode):
        return _call("pinv", lambda a, r: np.linalg.pinv(a, rtol=r), (x, cast(least, x.dtype)), (shape,))[0]
    return _call("pinv", lambda a: np.linalg.pinv(a, rtol=least), (x,), (shape,), (least,))[0]


def matrix_rank(x: TensorNode, /, *, rtol: float | TensorNode | None = None) -> TensorNode:
    """How many singular values are above rtol times the largest."""
    values = svdvals(x)
    if 0 in x.shape[-2:]:
        return reduced("add", cast(values, int64), -1, False, "matrix_rank")
    largest = reduced("max", values, -1, False, "matrix_rank")
    factor = max(x.shape[-2:]) * values.dtype.compute.eps if rtol is None else rtol
    scale = cast(broadcast_to(factor, largest.shape), values.dtype) if isinstance(factor, TensorNode) else like(largest, factor)
    limit = elementwise("mul", largest, scale)
    wide = broadcast_to(reshape(limit, (*limit.shape, 1)), values.shape)
    return reduced("add", cast(elementwise("lt", wide, values), int64), -1, False, "matrix_rank")


def matrix_power(x: TensorNode, n: int, /) -> TensorNode:
    """The matrix n times multiplied by itself, by squaring; negative powers are the inverse's."""
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise UsageError(f"matrix_power of {list(x.shape)}: it needs square matrices")
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
    x = cast(x, to_float(x.dtype))
    over = dims(x, axis, "vector_norm")
    size = absolute(x)
    if ord in (float("inf"), float("-inf")):
        return reduced("max" if ord > 0 else "min", size, over, keepdims, "vector_norm")
    if ord == 0:
        return reduced("add", cast(truth(x), x.dtype), over, keepdims, "vector_norm")
    if ord == 1:
        return reduced("add", size, over, keepdims, "vector_norm")
    if ord == 2:
        return length(reduced("add", elementwise("mul", x, x), over, keepdims, "vector_norm"))
    total = reduced("add", _flat_at_zero(size, 1.0 * ord), over, keepdims, "vector_norm")
    return _flat_at_zero(total, 1.0 / ord)


def _flat_at_zero(x: TensorNode, exponent: float) -> TensorNode:
    """A power whose gradient is 0 where x is."""

    def power_of_a_norm(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
        zero = elementwise("eq", x, like(x, 0.0))
        slope = elementwise("mul", _to(x, exponent - 1.0), like(x, exponent))
        return (choose(zero, 0.0, elementwise("mul", dy, slope)),)

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
    return kept(out, x.shape, (len(x.shape) - 2, len(x.shape) - 1)) if keepdims else out
