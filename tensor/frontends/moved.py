"""Functions that only move elements, as functions of tensors: their results are views (`views`), as NumPy's are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph.symbolic_sizes import SymbolicSize, size
from ..lift import lifted
from ..ops import complex_numbers as Z
from ..ops import movement as M
from ..views import parting, permuting, reshaping


def flat(given: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """`f(2, 3)` and `f((2, 3))` alike."""
    if len(given) == 1 and not isinstance(given[0], (int, SymbolicSize)):
        return tuple(size(g) for g in given[0])
    return tuple(size(g) for g in given)


def _reshape(x: Any, *shape: int | Sequence[int]) -> Any:
    """Row-major reshape; one dimension may be −1."""
    return M.reshape(x, flat(shape))


def _permute(x: Any, *order: int | Sequence[int]) -> Any:
    """Dimension d of the result is dimension `order[d]`; without an order they are reversed."""
    return M.permute(x, flat(order) or tuple(reversed(range(len(x.shape)))))


def _transpose(x: Any, /, axes: Sequence[int] | None = None) -> Any:
    """Dimension d of the result is dimension `axes[d]`; without axes they are reversed."""
    return _permute(x, *(axes or ()))


def _expand(x: Any, *shape: int | Sequence[int]) -> Any:
    """Repeated along new dimensions and those of size 1."""
    return M.broadcast_to(x, flat(shape))


def _ravel(x: Any) -> Any:
    """All elements in one dimension."""
    return M.reshape(x, (x.count,))


def _transposed(array: Any, *order: Any, axes: Any = None) -> Any:
    return array.transpose(*(order if axes is None else (axes,)))


def _moved(array: Any, source: Any, destination: Any) -> Any:
    import numpy as np

    return np.moveaxis(array, source, destination)


def _swapped(array: Any) -> Any:
    return array.swapaxes(-1, -2)


def _two_swapped(array: Any) -> Any:
    if array.ndim != 2:
        raise ValueError("no matrix")
    return array.T


def _reshaped(array: Any, *shape: Any) -> Any:
    return array.reshape(*shape)


def _squeezed(array: Any, axis: Any = None) -> Any:
    return array.squeeze(axis)


def _expanded(array: Any, /, axis: Any) -> Any:
    rank = array.ndim + 1
    if type(axis) is not int or not -rank <= axis < rank:
        raise IndexError
    return array[(*(slice(None),) * (axis % rank), None)]


def _backwards(x: Any, axis: int | Sequence[int] | None = None) -> tuple[slice, ...]:
    rank = x.ndim
    chosen = range(rank) if axis is None else [size(d) % rank for d in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    return tuple(slice(None, None, -1 if d in chosen else None) for d in range(rank))


reshape, ravel = reshaping(lifted(_reshape, M.reshape_to), _reshaped), reshaping(lifted(_ravel, M.flatten), rows=True)
reshape_to, squeeze = reshaping(lifted(M.reshape_to), _reshaped), reshaping(lifted(M.squeeze), _squeezed)
expand_dims = reshaping(lifted(M.expand_dims), _expanded)
permute, permute_dims = permuting(lifted(_permute, M.permute_dims), _transposed), permuting(lifted(M.permute_dims), _transposed)
swapaxes, moveaxis = permuting(lifted(M.swapaxes), lambda a, i, j: a.swapaxes(i, j)), permuting(lifted(M.moveaxis), _moved)
transposed, two_transposed = permuting(lifted(M.transposed), _swapped), permuting(lifted(M.two_transposed), _two_swapped)
transpose, matrix_transpose = permuting(lifted(_transpose, M.permute_dims), _transposed), permuting(lifted(M.matrix_transpose), _swapped)
expand = lifted(_expand, M.broadcast_to)
flip = parting(lifted(M.flip), _backwards)
real = parting(lifted(Z.real), lambda x: (..., 0) if x.complex_class else None)
imag = parting(lifted(Z.imag), lambda x: (..., 1) if x.complex_class else None)

VIEWS: dict[Callable[..., Any], Callable[..., Any]] = {
    M.reshape_to: reshape_to, M.squeeze: squeeze, M.expand_dims: expand_dims, M.permute_dims: permute_dims, M.swapaxes: swapaxes,
    M.moveaxis: moveaxis, M.matrix_transpose: matrix_transpose, M.flip: flip, Z.real: real, Z.imag: imag,
}  # fmt: skip
"""By function of nodes."""
