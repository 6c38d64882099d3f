"""Arrays made of nothing but a shape: constants and comparisons of index ranges, never memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import ceil
from operator import and_
from typing import TypeAlias

from ...ir.dtypes import DTypeLike, bool_, float64, int64
from ...ir.errors import UsageError
from ..graph.index_maps import Shape
from ..graph.nodes import TensorNode
from ..graph.primitives import cast, const, expand, iota, reshape, rounded
from ..graph.promotion import Scalar, default_float, default_of, dtype_of
from ..graph.symbolic_sizes import SymbolicSize, int_size, size
from .elementwise import broadcast_shape, choose

Kind: TypeAlias = "DTypeLike | None"


def shape_of(shape: int | Sequence[int], name: str = "shape") -> Shape:
    """A shape of one number or several. Raises UsageError for negative extents."""
    found = tuple(size(n) for n in (shape if isinstance(shape, Iterable) else (shape,)))
    if any(n < 0 for n in found):
        raise UsageError(f"{name}: extents are at least 0, not {list(found)}")
    return found


def full(shape: int | Sequence[int], fill_value: Scalar | TensorNode, *, dtype: Kind = None) -> TensorNode:
    """Every element the same number."""
    if isinstance(fill_value, TensorNode):
        return expand(fill_value if dtype is None else rounded(fill_value, dtype_of(dtype)), shape_of(shape))
    return const(fill_value, default_of(fill_value) if dtype is None else dtype_of(dtype), shape_of(shape))


def full_like(x: TensorNode, /, fill_value: Scalar, *, dtype: Kind = None) -> TensorNode:
    """Every element the same number, in the shape of `x`."""
    return const(fill_value, x.dtype if dtype is None else dtype_of(dtype), x.shape)


def zeros(shape: int | Sequence[int], *, dtype: Kind = None) -> TensorNode:
    """Zeros."""
    return full(shape, 0, dtype=dtype or default_float())


def ones(shape: int | Sequence[int], *, dtype: Kind = None) -> TensorNode:
    """Ones."""
    return full(shape, 1, dtype=dtype or default_float())


def empty(shape: int | Sequence[int], *, dtype: Kind = None) -> TensorNode:
    """Zeros (nothing is left undefined)."""
    return zeros(shape, dtype=dtype)


def zeros_like(x: TensorNode, /, *, dtype: Kind = None) -> TensorNode:
    """Zeros in the shape of `x`."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: TensorNode, /, *, dtype: Kind = None) -> TensorNode:
    """Ones in the shape of `x`."""
    return full_like(x, 1, dtype=dtype)


empty_like = zeros_like


def arange(start: int | float, /, stop: int | float | None = None, step: int | float = 1, *, dtype: Kind = None) -> TensorNode:
    """start, start + step, … below stop."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise UsageError("arange: the step must not be 0")
    if isinstance(start, SymbolicSize) or isinstance(stop, SymbolicSize):
        return _counted(start, stop, step, dtype)
    whole = all(isinstance(v, int) for v in (start, stop, step))
    kind = dtype_of(dtype) if dtype is not None else int64 if whole else default_float()
    n = max(0, -((start - stop) // step) if whole else ceil((stop - start) / step))
    if not kind.is_float and whole:
        at = iota(int(n)) * int(step) + int(start)
        return cast(at, kind)
    at = cast(iota(int(n)), float64)
    return rounded(at * step + start, kind)


def _counted(start: int | float, stop: int | float, step: int | float, dtype: Kind) -> TensorNode:
    """`arange` with symbolic bounds."""
    if step != 1 or isinstance(start, float) or isinstance(stop, float):
        raise UsageError(f"arange({start!r}, {stop!r}, {step!r}): with a symbolic size the step is 1 and bounds are whole")
    at = iota(int_size("arange", stop - start))
    return rounded(at + start, dtype_of(dtype) if dtype is not None else int64)


def linspace(start: float, stop: float, /, num: int, *, dtype: Kind = None, endpoint: bool = True) -> TensorNode:
    """`num` equally spaced numbers from start to stop, which is one of them if `endpoint`."""
    num = size(num)
    if num < 0:
        raise UsageError(f"linspace: {num} numbers")
    kind = dtype_of(dtype) if dtype is not None else default_float()
    parts = num - 1 if endpoint else num
    at = iota(num)
    place = cast(at, float64)
    step = (stop - start) / parts if parts > 0 else 0.0
    out = place * step + start
    if endpoint and num > 1:
        out = choose(at.eq(num - 1), stop, out)
    return rounded(out, kind)


def along(n: int, shape: Shape, dim: int) -> TensorNode:
    """0, 1, … n − 1 along dimension `dim` of a shape, the same along the others."""
    return expand(reshape(iota(n), tuple(n if d == dim else 1 for d in range(len(shape)))), shape)


def bound_tests(at: TensorNode, low: int, high: int, n: int) -> list[TensorNode]:
    """What must hold of indices of a dimension of `n` elements that lie in low ≤ index < high: comparisons that a kernel computes."""
    return [*([low <= at] if low != 0 else []), *([at < high] if high != n else [])]


def all_of(tests: Sequence[TensorNode]) -> TensorNode | None:
    """Where all tests hold; None for no tests: everywhere."""
    return reduce(and_, tests) if tests else None


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Kind = None) -> TensorNode:
    """Ones where column = row + k."""
    row, column = _rows_and_columns(*shape_of((n_rows, n_rows if n_cols is None else n_cols), "eye"))
    return cast(column.eq(row + k), dtype_of(dtype) if dtype is not None else default_float())


def tril(x: TensorNode, /, k: int = 0) -> TensorNode:
    """`x` where column ≤ row + k, else 0 (of the last two dimensions)."""
    row, column = _rows_and_columns(*_matrix(x))
    return _selected(x, column <= row + k)


def triu(x: TensorNode, /, k: int = 0) -> TensorNode:
    """`x` where column ≥ row + k, else 0 (of the last two dimensions)."""
    row, column = _rows_and_columns(*_matrix(x))
    return _selected(x, row + (k - 1) < column)


def _rows_and_columns(rows: int, columns: int) -> tuple[TensorNode, TensorNode]:
    """The row and the column of each element of a matrix."""
    return along(rows, (rows, columns), 0), along(columns, (rows, columns), 1)


def _matrix(x: TensorNode) -> tuple[int, int]:
    if len(x.shape) < 2:
        raise UsageError(f"a triangle of {list(x.shape)}: it needs two dimensions")
    return x.shape[-2], x.shape[-1]


def _selected(x: TensorNode, mask: TensorNode) -> TensorNode:
    return choose(expand(mask, x.shape), x, False if x.dtype is bool_ else 0)


def meshgrid(*arrays: TensorNode, indexing: str = "xy") -> list[TensorNode]:
    """Each vector along a dimension of its own; with "xy" the first two dimensions change places."""
    if indexing not in ("xy", "ij"):
        raise UsageError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    sizes = [a.count for a in arrays]
    order = list(range(len(arrays)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    shape = [0] * len(order)
    for n, d in zip(sizes, order):
        shape[d] = n
    full_shape = tuple(shape)
    return [expand(reshape(a, tuple(a.count if d == o else 1 for d in range(len(order)))), full_shape) for a, o in zip(arrays, order)]


def broadcast_arrays(*arrays: TensorNode) -> list[TensorNode]:
    """All in their common shape."""
    shape = broadcast_shape("broadcast_arrays", *(a.shape for a in arrays)) if arrays else ()
    return [expand(a, shape) for a in arrays]
