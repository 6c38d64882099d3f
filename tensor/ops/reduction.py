"""Reductions, running reductions, and where extremes lie."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product_of
from typing import TypeAlias

from ...ir.dtypes import DTypeLike, bool_, int32, int64
from ...ir.errors import UsageError
from ..graph import index_maps as maps
from ..graph.index_checks import RangeMark
from ..graph.index_maps import Shape
from ..graph.nodes import TensorNode
from ..graph.primitives import as_typed, cast, elementwise, expand, marked, reduce, reshape, rounded, scan, stop_gradient, view
from ..graph.promotion import dtype_of, sum_type
from ..graph.symbolic_sizes import SymbolicSize, below, concrete, most, symbolic
from ..running.current_capture import current
from .creation import along
from .elementwise import choose, exp, length, like, log, to_floats, truth
from .movement import dims, keep_dims

Axis = int | Sequence[int] | None
Kind: TypeAlias = "DTypeLike | None"
NO_INDEX = 2**31 - 1
"""The place of no element, as a 32-bit integer: larger than all places."""


def reduced(combine: str, x: TensorNode, axis: Axis, keepdims: bool, name: str) -> TensorNode:
    """`combine` over dimensions (None: all)."""
    over = dims(x, axis, name)
    if combine in ("max", "min"):
        _some(name, x.shape, over, axis)
        if x.dtype is bool_:
            combine = "add" if combine == "max" else "mul"
    out = reduce(combine, x, over)
    return keep_dims(out, x.shape, over) if keepdims else out


def _some(name: str, shape: Shape, over: Sequence[int], axis: Axis) -> None:
    """Raise UsageError where an extreme of no elements is wanted; of symbolic sizes at the calls that do."""
    capture = current()
    if capture is not None and symbolic(shape):
        if [d for d in over if not below(0, shape[d])]:  # (`any` and `all` are functions of tensors here)
            capture.checks.append(lambda values: _some(name, concrete(shape, values), over, axis))
        return
    if 0 in [shape[d] for d in over] and 0 not in [n for d, n in enumerate(shape) if d not in over]:
        raise UsageError(f"{name} of {list(shape)}: no elements along axis {axis}, and {name} has no neutral element")


def sum(x: TensorNode, /, axis: Axis = None, keepdims: bool = False, dtype: Kind = None) -> TensorNode:
    """Σ over dimensions (None: all). Integers of fewer than 64 bits and bools are summed as 64-bit integers."""
    return reduced("add", _typed(x, dtype), axis, keepdims, "sum")


def prod(x: TensorNode, /, axis: Axis = None, keepdims: bool = False, dtype: Kind = None) -> TensorNode:
    """Π over dimensions (None: all). Integers of fewer than 64 bits and bools are multiplied as 64-bit integers."""
    return reduced("mul", _typed(x, dtype), axis, keepdims, "prod")


def _typed(x: TensorNode, dtype: Kind) -> TensorNode:
    to = sum_type(x.dtype) if dtype is None else dtype_of(dtype)
    return cast(x, to) if to is x.dtype else rounded(x, to)


def max(x: TensorNode, /, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """The largest element over dimensions (None: all); NaN where any is NaN. Raises UsageError where there is none."""
    return reduced("max", x, axis, keepdims, "max")


def min(x: TensorNode, /, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """The smallest element over dimensions (None: all); NaN where any is NaN. Raises UsageError where there is none."""
    return reduced("min", x, axis, keepdims, "min")


def any(x: TensorNode, /, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """Whether any element is not 0."""
    return reduced("add", truth(x), axis, keepdims, "any")


def all(x: TensorNode, /, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """Whether no element is 0."""
    return reduced("mul", truth(x), axis, keepdims, "all")


def count_nonzero(x: TensorNode, /, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """How many elements are not 0."""
    return reduced("add", cast(truth(x), int64), axis, keepdims, "count_nonzero")


def mean(x: TensorNode, /, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """The average over dimensions (None: all); integers become the default float."""
    x = to_floats(x)
    over = dims(x, axis, "mean")
    total = reduced("add", x, over, keepdims, "mean")
    count = product_of(x.shape[d] for d in over)
    return total / count


def var(x: TensorNode, /, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> TensorNode:
    """Σ (x − mean)² / (count − correction) over dimensions (None: all)."""
    x = to_floats(x)
    over = dims(x, axis, "var")
    away = x - expand(mean(x, over, True), x.shape)
    total = reduced("add", away * away, over, keepdims, "var")
    count = product_of(x.shape[d] for d in over)
    return total / _less_correction(total, count, correction)


def _less_correction(x: TensorNode, count: int, by: float) -> TensorNode:
    """count − by, at least 0, of the shape and type of `x`."""
    if isinstance(count, SymbolicSize):
        value = like(x, count)
        return value if by == 0 else elementwise("max", value - by, 0.0)
    return like(x, count - by if count > by else 0)


def std(x: TensorNode, /, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> TensorNode:
    """The square root of the variance."""
    return length(var(x, axis, correction, keepdims))


def logsumexp(x: TensorNode, /, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """ln Σ eˣ, by the largest element."""
    x = to_floats(x)
    over = dims(x, axis, "logsumexp")
    top = stop_gradient(reduced("max", x, over, True, "logsumexp"))  # the result does not depend on it
    far = exp(x - expand(top, x.shape))
    out = log(reduced("add", far, over, True, "logsumexp")) + top
    out = choose(abs(top).eq(float("inf")), top, out)
    return out if keepdims else reshape(out, tuple(n for d, n in enumerate(x.shape) if d not in over))


# where extremes lie -----------------------------------------------------------------------------------------------
def argmax(x: TensorNode, /, axis: int | None = None, keepdims: bool = False) -> TensorNode:
    """The index (int64) of the first largest element along a dimension (None: of the flat array); a NaN is larger than all."""
    return _arg("max", x, axis, keepdims)


def argmin(x: TensorNode, /, axis: int | None = None, keepdims: bool = False) -> TensorNode:
    """The index (int64) of the first smallest element along a dimension (None: of the flat array); a NaN is smaller than all."""
    return _arg("min", x, axis, keepdims)


def _arg(combine: str, x: TensorNode, axis: int | None, keepdims: bool) -> TensorNode:
    rank = len(x.shape)
    flat = reshape(x, (x.count,)) if axis is None else x
    (d,) = dims(flat, 0 if axis is None else axis, f"arg{combine}")
    n = flat.shape[d]
    if flat.dtype is bool_:
        flat = cast(flat, int64)
    flat = as_typed(flat)
    best = reduced(combine, flat, d, True, f"arg{combine}")
    hit = flat.eq(expand(best, flat.shape))
    if flat.dtype.is_float:
        hit = hit | flat.ne(flat)
    kind = int32 if n <= NO_INDEX else int64
    places = choose(hit, cast(along(n, flat.shape, d), kind), NO_INDEX if kind is int32 else n)
    out = cast(marked(reduce("min", places, (d,)), RangeMark("place", 0, most(n) - 1)), int64)
    if not keepdims:
        return out
    return reshape(out, (1,) * rank) if axis is None else keep_dims(out, x.shape, (d,))


# running ----------------------------------------------------------------------------------------------------------
def cumulative_sum(x: TensorNode, /, *, axis: int | None = None, dtype: Kind = None, include_initial: bool = False) -> TensorNode:
    """Sums of the elements up to each one; with `include_initial` a 0 in front."""
    return _running("add", _typed(x, dtype), axis, include_initial, "cumulative_sum")


def cumulative_prod(x: TensorNode, /, *, axis: int | None = None, dtype: Kind = None, include_initial: bool = False) -> TensorNode:
    """Products of the elements up to each one; with `include_initial` a 1 in front."""
    return _running("mul", _typed(x, dtype), axis, include_initial, "cumulative_prod")


def cumulative_max(x: TensorNode, /, *, axis: int | None = None) -> TensorNode:
    """The largest element up to each one."""
    return _running("max", x, axis, False, "cumulative_max")


def cumulative_min(x: TensorNode, /, *, axis: int | None = None) -> TensorNode:
    """The smallest element up to each one."""
    return _running("min", x, axis, False, "cumulative_min")


def cumsum(x: TensorNode, axis: int | None = None) -> TensorNode:
    """NumPy's name of `cumulative_sum`; None: of the flat array."""
    return cumulative_sum(reshape(x, (x.count,)) if axis is None else x, axis=0 if axis is None else axis)


def cumprod(x: TensorNode, axis: int | None = None) -> TensorNode:
    """NumPy's name of `cumulative_prod`; None: of the flat array."""
    return cumulative_prod(reshape(x, (x.count,)) if axis is None else x, axis=0 if axis is None else axis)


def _running(combine: str, x: TensorNode, axis: int | None, initial: bool, name: str) -> TensorNode:
    if axis is None:
        if len(x.shape) != 1:
            raise UsageError(f"{name} of {list(x.shape)}: an array of more than one dimension needs an axis")
        axis = 0
    (d,) = dims(x, axis, name)
    out = scan(combine, x, d)
    if not initial:
        return out
    rank = range(len(x.shape))
    padded = view(out, maps.padded(out.shape, [1 if i == d else 0 for i in rank], [0 for _ in rank]))
    if combine == "add":
        return padded
    return choose(along(padded.shape[d], padded.shape, d).eq(0), 1, padded)
