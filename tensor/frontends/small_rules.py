"""What small operations are: each row of `RULES` is a function of `ops` with the function of NumPy's arrays that gives the same. It answers None
for operands with which the two may differ (mixed kinds, 16-bit floats) and for what NumPy refuses, and then the graph is built as ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from operator import index
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from ...ir.dtypes import DType, DTypeLike, float64, int32, int64
from ...ir.dtypes import dtype as type_named
from ..graph.promotion import default_float, default_of, dtype_of, promote
from ..ops import complex_numbers as Z
from ..ops import convolution as V
from ..ops import creation as C
from ..ops import elementwise as E
from ..ops import fft as F
from ..ops import indexing as I
from ..ops import joining as J
from ..ops import linalg as L
from ..ops import movement as M
from ..ops import reduction as R
from ..ops import sorting as S
from ..ops.einsum import einsum, extents
from ..running.numpy_evaluation import OPERATORS, SMALL_ARRAY
from . import deferred as D
from . import quick_arrays as Q

Array = np.ndarray[Any, Any]
Rule = Callable[..., Any]

_INDICES = "?bBhHiIlq"
PLAIN = "?bBhHiIlLqQfd"
"""NumPy's letters of the types whose arithmetic is ours."""


# types ------------------------------------------------------------------------------------------------------------
@cache
def _agree(a: np.dtype[Any], b: np.dtype[Any], floats: DType) -> bool:
    """Whether NumPy's operations on two types have our type, where floats without a type are `floats`."""
    return promote(type_named(a), type_named(b)).np == np.result_type(a, b)


def fits(kind: np.dtype[Any], x: Any) -> bool:
    """Whether a Python number takes an array's type, as NumPy has it too."""
    if type(x) is int:
        return kind.kind == "f" or (kind.kind in "iu" and (limits := _limits(kind))[0] <= x <= limits[1])
    return (type(x) is float and kind.kind == "f") or type(x) is bool


@cache
def _limits(kind: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    return type_named(kind.name).limits


def _paired(a: Any, b: Any) -> Any:
    """The type in which NumPy computes with two operands; None where ours is another."""
    if isinstance(a, np.ndarray):
        if isinstance(b, np.ndarray):
            x, y = a.dtype, b.dtype
            if a.shape != b.shape and a.size * b.size > SMALL_ARRAY and np.broadcast(a, b).size > SMALL_ARRAY:
                return None
            return x if x is y else np.result_type(x, y) if x.char in PLAIN and y.char in PLAIN and _agree(x, y, default_float()) else None
        return _beside(a.dtype, b)
    return _beside(b.dtype, a) if isinstance(b, np.ndarray) else None


def _beside(kind: np.dtype[Any], x: Any) -> Any:
    """The type in which an array and a Python number are computed; None where NumPy's is another, or there is none."""
    if fits(kind, x):
        return kind
    if type(x) is float and kind.kind in "biu":
        return _FLOAT if default_float() is float64 or kind.itemsize == 8 else None
    return _INTEGER if type(x) is int and kind.kind == "b" and fits(_INTEGER, x) else None


_FLOAT, _INTEGER = np.dtype(np.float64), np.dtype(np.int64)


def _floats(x: Array) -> Array:
    """An array in the type in which functions with float results compute with it."""
    return x if x.dtype.kind == "f" else Q.converted(x, default_float().np)


# elementwise ------------------------------------------------------------------------------------------------------
def _float(function: Rule) -> Rule:
    def rule(x: Any) -> Any:
        return Q.unary(function, _floats(x)) if x.dtype.kind in "biuf" else None

    UNARY[rule] = function, "f"
    return rule


def _any(function: Rule, kinds: str = "biuf") -> Rule:
    def rule(x: Any) -> Any:
        return Q.unary(function, x) if x.dtype.kind in kinds else None

    UNARY[rule] = function, kinds
    return rule


UNARY: dict[Rule, tuple[Any, str]] = {}
"""Of rules that are NumPy's function of one operand: it, and the kinds of types for which it is all of the rule."""
UFUNCS: dict[Rule, tuple[Any, str]] = {}
"""Of rules that are NumPy's function of the same two operands: it, and the kinds of types that it is for."""


def _binary(function: Rule, kinds: str = "biuf") -> Rule:
    def rule(a: Any, b: Any) -> Any:
        kind = _paired(a, b)
        return Q.binary(function, a, b, kind) if kind is not None and kind.kind in kinds else None

    UFUNCS[rule] = function, kinds
    return rule


def _plain_binary(function: Rule, kinds: str) -> Rule:
    def rule(a: Any, b: Any) -> Any:
        kind = _paired(a, b)
        if kind is None or kind.kind not in kinds:
            return None
        return function(*[x.astype(kind, copy=False) if isinstance(x, np.ndarray) else x for x in (a, b)])

    return rule


def _divide(a: Any, b: Any) -> Any:
    kind = _paired(a, b)
    if kind is not None and kind.kind != "f":
        a, b = (_floats(x) if isinstance(x, np.ndarray) else x for x in (a, b))
        kind = default_float().np
    return None if kind is None else Q.binary(np.true_divide, a, b, kind)


UFUNCS[_divide] = np.true_divide, "f"


def _power(a: Any, b: Any) -> Any:
    if type(a) in (int, float) and isinstance(b, np.ndarray) and b.dtype.kind == "f":
        return np.power(b.dtype.type(a), b)
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f" or _paired(a, b) is None:
        return None
    if type(b) in (int, float) and abs(b) <= 64 and b % 1 == 0:
        return np.ones_like(a) if not b else Q.power(a, int(b)) if b > 0 else np.true_divide(1.0, Q.power(a, -int(b)))
    if type(b) is float and b == 0.5 and not (a == -np.inf).any():
        return np.add(out := np.asarray(np.sqrt(a)), 0.0, out=out)  # (a power has no negative zero)
    return OPERATORS["pow"](a, b)


def _where(c: Any, a: Any, b: Any) -> Any:
    known = isinstance(c, np.ndarray) and c.dtype.char == "?"
    kind = _paired(a, b) if known else None
    if kind is None:
        return None
    out = np.where(c, a, b)
    return out if out.dtype is kind else out.astype(kind, copy=False)


def _clip(x: Any, min: Any = None, max: Any = None) -> Any:
    kind = x.dtype
    if kind.kind not in "iuf" or (min is None and max is None):
        return None
    if (min is not None and _paired(x, min) is not kind) or (max is not None and _paired(x, max) is not kind):
        return None
    if type(min) in (int, float) and type(max) in (int, float):
        return Q.clipped(x, min, max)
    out = x if min is None else np.asarray(Q.binary(np.maximum, x, min, x.dtype))
    return out if max is None else Q.binary(np.minimum, out, max, x.dtype)


def _astype(x: Any, dtype: DTypeLike) -> Any:
    to = dtype_of(dtype)
    return None if to.narrow or (x.dtype.kind == "c" and to.kind != "c") else Q.converted(x, to.np)


# reductions -------------------------------------------------------------------------------------------------------
def _axes(axis: Any) -> Any:
    return axis if axis is None or type(axis) is int else tuple(axis)


def _sum(function: Any) -> Rule:
    def rule(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        if dtype is not None:
            to = dtype_of(dtype)
            if to.narrow or to.kind in "bc" or (x.dtype.kind == "f" and not to.is_float):
                return None
            x = Q.converted(x, to.np)
            if to.kind != "f":
                return function.reduce(x, axis=_axes(axis), keepdims=keepdims, dtype=to.np)
        if axis is None and function is np.add and x.dtype.kind == "b":
            return np.count_nonzero(x, keepdims=keepdims)
        return Q.reduced(function, x, _axes(axis), keepdims)

    return rule


def _extreme(function: Any) -> Rule:
    return lambda x, axis=None, keepdims=False: Q.reduced(function, x, _axes(axis), keepdims)


def _place(name: str) -> Rule:
    return lambda x, axis=None, keepdims=False: getattr(x, name)(axis=axis, keepdims=keepdims)


def _mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if not x.size:
        return None
    x = _floats(x)
    total = Q.reduced(np.add, x, _axes(axis), keepdims)
    return np.true_divide(total, x.size // total.size) if total.size else None


def _var(x: Any, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    return Q.variance(_floats(x), _axes(axis), correction, keepdims) if x.size else None


def _std(x: Any, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    found = _var(x, axis, correction, keepdims)
    return None if found is None else np.sqrt(found)


def _running(name: str) -> Rule:
    def rule(x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
        if (dtype is not None and dtype_of(dtype).np is not x.dtype) or not x.ndim or (axis is None and x.ndim != 1):
            return None
        out = getattr(x, name)(axis=axis)
        if not include_initial:
            return out
        first = np.full_like(out.take([0], axis) if out.size else out, name == "cumprod")
        return np.concatenate([first, out], axis=axis or 0) if out.size else None

    return rule


# movement ---------------------------------------------------------------------------------------------------------
def _reshape(x: Any, *sizes: Any, shape: Any = None, copy: Any = None) -> Any:
    return x.reshape(shape if not sizes else sizes[0] if len(sizes) == 1 else sizes)


def _permute(x: Any, *order: Any, axes: Any = None) -> Any:
    return x.transpose(*(order if axes is None else (axes,)))


def _squeeze(x: Any, axis: Any = None) -> Any:
    return x.squeeze(axis=_axes(axis))


def _small_of_one_type(arrays: Any) -> bool:
    """Whether arrays have one type, and so few elements together that memory for the result may come from anywhere."""
    kind, count = arrays[0].dtype, 0
    for a in arrays:
        if a.dtype is not kind:
            return False
        count += a.size
    return count < Q.FROM


def _concat(arrays: Any, axis: Any = 0) -> Any:
    first = arrays[0]
    if _small_of_one_type(arrays):
        return np.concatenate(arrays, axis)
    if any(a.dtype is not first.dtype for a in arrays):
        return None
    shape = list(first.shape)
    if axis is None or not -len(shape) <= axis < len(shape):
        return np.concatenate(arrays, axis=axis)
    shape[axis] = sum(a.shape[axis] for a in arrays)
    return Q.joined(np.concatenate, arrays, axis, tuple(shape))


def _stack(arrays: Any, axis: int = 0) -> Any:
    first = arrays[0]
    if _small_of_one_type(arrays):
        return np.stack(arrays, axis)
    if any(a.dtype is not first.dtype for a in arrays):
        return None
    rank = first.ndim + 1
    at = axis % rank if -rank <= axis < rank else None
    return Q.joined(np.stack, arrays, axis, None if at is None else (*first.shape[:at], len(arrays), *first.shape[at:]))


def _broadcast(x: Any, *sizes: Any, shape: Any = None) -> Any:
    to = _shape(shape if not sizes else sizes[0] if len(sizes) == 1 else sizes)
    return None if to is None else _expanded(x, to)


def _expanded(x: Array, shape: tuple[int, ...]) -> Array:
    return x.view() if x.shape == shape else np.broadcast_to(x, shape)


def _together(*arrays: Any) -> Any:
    both = np.broadcast(*arrays)
    return [_expanded(a, both.shape) for a in arrays] if both.size <= SMALL_ARRAY else None


# indexing, products, creation -------------------------------------------------------------------------------------
BASIC = (int, slice, NoneType, EllipsisType)


def _getitem(x: Any, key: Any) -> Any:
    for i in key if type(key) is tuple else (key,):
        if x.size > SMALL_ARRAY and isinstance(i, np.ndarray):
            return None
        if type(i) not in BASIC and not (isinstance(i, np.ndarray) and i.dtype.char in _INDICES):
            return None
    first, rest = (key[0], key[1:]) if type(key) is tuple and key else (key, ())
    rows = isinstance(first, np.ndarray) and first.dtype.kind == "b" and first.ndim == 1 and len(rest) < x.ndim
    if rows and all(type(i) is slice and i == slice(None) for i in rest):
        return Q.selected(x, first)
    return x[key]


def _take(x: Any, indices: Any, axis: Any = None, mode: Any = "raise") -> Any:
    return x.take(indices, axis=axis, mode=mode) if isinstance(indices, np.ndarray) and indices.dtype.kind == "i" else None


def _matmul(a: Any, b: Any) -> Any:
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.ndim and b.ndim and a.dtype.char + b.dtype.char != "??"):
        return None
    if a.dtype != b.dtype:
        if not _agree(a.dtype, b.dtype, default_float()):
            return None
        kind = np.result_type(a, b)
        a, b = Q.converted(a, kind), Q.converted(b, kind)
    return np.matmul(a, b) if 0 < a.size * b.size <= SMALL_ARRAY or _product_size(a, b) <= SMALL_ARRAY else None


def _product_size(a: Array, b: Array) -> int:
    lead = a.shape[:-2] if a.shape[:-2] == b.shape[:-2] else np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return prod(lead) * (a.shape[-2] if a.ndim > 1 else 1) * (b.shape[-1] if b.ndim > 1 else 1)


def _shape(shape: Any) -> tuple[int, ...] | None:
    to = (shape,) if type(shape) is int else tuple(map(index, shape))
    return to if all(type(n) is int and n >= 0 for n in to) and prod(to) <= SMALL_ARRAY else None


def _norm(x: Any, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    return np.sqrt(Q.squares(_floats(x), _axes(axis), keepdims)) if ord == 2 else None


def _tuple(kind: Any, parts: Any) -> Any:
    return kind(*parts)


def _matrix(function: Rule, result: type | None = None) -> Rule:
    """A decomposition of NumPy's of floats of one type."""

    def rule(*arrays: Any, **options: Any) -> Any:
        first = arrays[0]
        if first.ndim < 2 or any(a.dtype.kind != "f" or a.dtype != first.dtype or not a.ndim or not a.size for a in arrays):
            return None
        found = function(*arrays, **options)
        return found if result is None else result(*found)

    return rule


def _complex_product(a: Any, b: Any) -> Any:
    return np.matmul(a, b) if a.ndim and b.ndim and _product_size(a, b) <= SMALL_ARRAY else None


def _vecdot(a: Any, b: Any, axis: int = -1) -> Any:
    if _paired(a, b) is None or a.dtype.kind == "b" or axis >= 0 or axis < -min(a.ndim, b.ndim) or a.shape[axis] != b.shape[axis]:
        return None
    return np.vecdot(np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1))


def _numpys(function: Rule, kinds: str = "biuf") -> Rule:
    """NumPy's function of arrays of one type, and of other arguments."""

    def rule(*args: Any, **options: Any) -> Any:
        kind = args[0].dtype
        if kind.kind not in kinds or any(isinstance(a, np.ndarray) and a.dtype is not kind for a in (*args[1:], *options.values())):
            return None
        return function(*args, **options)

    return rule


def _diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [p for p in (prepend, x, append) if p is not None]
    if n < 1 or any(p.dtype is not x.dtype or p.ndim != x.ndim for p in parts):
        return None
    return np.diff(np.concatenate(parts, axis=axis) if len(parts) > 1 else x, n, axis)


def _repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    if (repeats.dtype.kind not in "iu" or repeats.ndim != 1) if isinstance(repeats, np.ndarray) else not isinstance(repeats, int):
        return None
    return x.repeat(repeats, axis) if (x.ndim or axis is None) and x.size * int(np.max(repeats, initial=0)) <= SMALL_ARRAY else None


def _of_matrix(function: Rule) -> Rule:
    return lambda x, k=0: function(x, k) if x.ndim > 1 and type(k) is int else None


def _tile(x: Any, times: Any) -> Any:
    return np.tile(x, times) if x.size * abs(prod(times)) <= SMALL_ARRAY else None


def _outer(a: Any, b: Any) -> Any:
    return np.multiply.outer(a, b) if a.ndim == b.ndim == 1 and a.dtype is b.dtype and a.size * b.size <= SMALL_ARRAY else None


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if a.dtype is not b.dtype or a.dtype.kind == "b" or (type(axes) is int and not 0 <= axes <= min(a.ndim, b.ndim)):
        return None
    summed = a.shape[a.ndim - axes :] if type(axes) is int else [a.shape[d] for d in _several(axes[0])]
    each = prod(summed) ** 2
    return np.tensordot(a, b, axes) if a.size and b.size and a.size * b.size // each <= SMALL_ARRAY else None


def _several(axis: Any) -> tuple[int, ...]:
    return (axis,) if type(axis) is int else tuple(axis)


def _cross(a: Any, b: Any, axis: int = -1) -> Any:
    if a.dtype is not b.dtype or a.dtype.kind == "b" or axis >= 0 or a.shape[axis] != 3 or b.shape[axis] != 3:
        return None
    return np.cross(a, b, axis=axis)


def _pad(x: Any, widths: Any, value: Any = 0, mode: str = "constant", constant_values: Any = None) -> Any:
    value = value if constant_values is None else constant_values
    pairs = [(widths, widths)] * x.ndim if type(widths) is int else widths
    shape = _shape([before + n + after for n, (before, after) in zip(x.shape, pairs, strict=True)])
    if (
        mode != "constant"
        or shape is None
        or not fits(x.dtype, value)
        or str(value) == "-0.0"
        or any(n < 0 for pair in pairs for n in pair)
    ):
        return None
    out = Q.filled(shape, value, x.dtype)
    out[tuple([slice(before, before + n) for n, (before, _) in zip(x.shape, pairs, strict=True)])] = x
    return out


def _isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    kind = _paired(a, b)
    return np.isclose(a, b, rtol, atol, equal_nan) if kind is not None and kind.kind == "f" else None


def _einsum(subscripts: str, *arrays: Any) -> Any:
    """Sums of few products, or of pairs that are products of matrices: of more, the order of operands and the kernel matter."""
    kind = arrays[0].dtype
    if kind.kind != "f" or any(a.dtype is not kind for a in arrays):
        return None
    work = _products(subscripts, tuple([a.shape for a in arrays]))
    if work > SMALL_ARRAY:
        return None
    return np.einsum(subscripts, *arrays, optimize=False if work <= Q.FROM else ["einsum_path", (0, 1)] if len(arrays) == 2 else True)


@cache
def _products(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> int:
    """How many products are summed, one for each place of each label. Raises UsageError."""
    return prod(max(n, 1) for n in extents(subscripts, shapes).values())


def _along(x: Any, indices: Any, axis: int = -1) -> Any:
    return np.take_along_axis(x, indices, axis) if indices.dtype.kind == "i" and x.shape[:axis] == indices.shape[:axis] else None


def _search(x1: Any, x2: Any, side: Any = "left", sorter: Any = None) -> Any:
    if not isinstance(x2, np.ndarray) or x1.dtype is not x2.dtype or x1.ndim != 1 or side not in ("left", "right"):
        return None
    return S._searched(x1 if sorter is None else x1[sorter], x2, side)


def _linspace(start: Any, stop: Any, num: int, dtype: Any = None, endpoint: bool = True) -> Any:
    kind = default_float() if dtype is None else dtype_of(dtype)
    fits = type(start) in (int, float) and type(stop) in (int, float) and type(num) is int and kind.kind == "f" and not kind.narrow
    return np.linspace(start, stop, num, endpoint).astype(kind.np, copy=False) if fits and num <= SMALL_ARRAY else None


def _transform(name: str) -> Rule:
    """NumPy's Fourier transform of numbers of 32 or 64 bits, or pairs of them, along one dimension."""
    function = getattr(np.fft, name)

    def rule(x: Any, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        real = name in ("rfft", "ihfft")
        return function(x, n, axis, norm) if x.dtype.char in ("fd" if real else "fdFD") and (n or 0) <= SMALL_ARRAY else None

    return rule


def _transforms(name: str) -> Rule:
    function = getattr(np.fft, name)

    def rule(x: Any, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        if x.dtype.char not in ("fd" if name == "rfftn" else "fdFD") or (s is not None and (axes is None or prod(s) > SMALL_ARRAY)):
            return None
        return function(x, s, axes, norm)

    return rule


def _same(names: str, rule: Callable[..., Rule], *kinds: str) -> dict[Callable[..., Any], Rule]:
    """Rules of the functions that are NumPy's of the same name, for some kinds of types."""
    return {getattr(E, name): rule(getattr(np, name), *kinds) for name in names.split()}


def _full(shape: Any, value: Any, dtype: Any = None) -> Any:
    kind = (default_of(value) if type(value) in (bool, int, float) else type_named(value.dtype)) if dtype is None else dtype_of(dtype)
    if kind.narrow or (to := _shape(shape)) is None:
        return None
    if isinstance(value, np.ndarray):
        return np.full(to, value, kind.np) if value.shape == () and value.astype(kind.np) == value else None
    fits = type(value) is int or (type(value) is float and kind.kind in "fc") or (type(value) is bool and kind.kind == "b")
    return Q.filled(to, value, kind.np) if fits and str(value) != "-0.0" else None


def _filled(value: int) -> Rule:
    return lambda shape, dtype=None: _full(shape, value, dtype or default_float())


def _eye(rows: Any, columns: Any = None, k: int = 0, dtype: Any = None) -> Any:
    kind = dtype_of(dtype) if dtype is not None else default_float()
    to = _shape((rows, rows if columns is None else columns))
    return None if kind.narrow or kind.kind == "c" or to is None else np.eye(to[0], to[1], k, kind.np)


def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    if stop is None:
        start, stop = 0, start
    kind = dtype_of(dtype) if dtype is not None else int64
    whole = type(start) is type(stop) is type(step) is int and kind in (int32, int64, float64)
    return np.arange(start, stop, step).astype(kind.np, copy=False) if whole and step and (stop - start) // step <= SMALL_ARRAY else None


RULES: dict[Callable[..., Any], Rule] = {
    **_same("exp expm1 log log1p log2 log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp2", _float),
    **_same("isnan isinf isfinite logical_not absolute positive", _any), **_same("floor ceil trunc", _any, "f"),
    **_same("negative square sign", _any, "iuf"), **_same("bitwise_invert", _any, "biu"),
    **_same("add multiply maximum minimum equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor", _binary),
    **_same("bitwise_and bitwise_or bitwise_xor", _binary, "biu"), **_same("hypot logaddexp atan2", _binary, "f"),
    E.round: _any(np.rint, "f"), E.reciprocal: lambda x: Q.binary(np.true_divide, 1.0, x, x.dtype) if x.dtype.kind == "f" else None,
    E.subtract: _binary(np.subtract, "iuf"), E.floor_divide: _plain_binary(OPERATORS["floordiv"], "iuf"),
    E.remainder: _binary(np.remainder, "iuf"), E.divide: _divide, E.power: _power, E.where: _where, E.clip: _clip,
    R.sum: _sum(np.add), R.prod: _sum(np.multiply), R.max: _extreme(np.maximum), R.min: _extreme(np.minimum), R.any: _extreme(np.logical_or),
    R.all: _extreme(np.logical_and), R.mean: _mean, R.var: _var, R.std: _std, R.argmax: _place("argmax"), R.argmin: _place("argmin"),
    R.count_nonzero: lambda x, axis=None, keepdims=False: np.count_nonzero(x, axis=_axes(axis), keepdims=keepdims),
    R.cumulative_sum: _running("cumsum"), R.cumulative_prod: _running("cumprod"),
    M.reshape_to: _reshape, M.permute_dims: _permute, M.squeeze: _squeeze,
    M.expand_dims: lambda x, axis: np.expand_dims(x, axis), M.broadcast_to: _broadcast,
    M.flip: lambda x, axis=None: np.flip(x, _axes(axis)), M.moveaxis: np.moveaxis, M.swapaxes: np.swapaxes,
    M.matrix_transpose: lambda x: x.swapaxes(-1, -2), M.transposed: lambda x: x.swapaxes(-1, -2),
    M.two_transposed: lambda x: x.T if x.ndim == 2 else None, J.concat: _concat, J.stack: _stack,
    I.getitem: _getitem, I.take: _take, S.sort: lambda x, axis=-1, descending=False, stable=True: S._sorted(x, axis, descending),
    S.argsort: lambda x, axis=-1, descending=False, stable=True: S._order(x, axis, descending) if x.ndim else None,
    L.matmul: _matmul, L.vecdot: _vecdot, L.vector_norm: _norm, L.cholesky: _matrix(np.linalg.cholesky), L.inv: _matrix(np.linalg.inv),
    L.det: _matrix(np.linalg.det), L.solve: _matrix(np.linalg.solve), L.eigh: _matrix(np.linalg.eigh, L.EighResult),
    L.svd: _matrix(np.linalg.svd, L.SVDResult), L.qr: _matrix(np.linalg.qr, L.QRResult), L.eigvalsh: _matrix(np.linalg.eigvalsh),
    L.svdvals: _matrix(lambda x: np.linalg.svd(x, compute_uv=False)), L.slogdet: _matrix(np.linalg.slogdet, L.SlogdetResult),
    L.outer: _outer, L.trace: _numpys(lambda x, offset=0: np.trace(x, offset, -2, -1), "f"), J.diff: _diff, J.gradient: _numpys(np.gradient, "f"), V.sliding_window_view: np.lib.stride_tricks.sliding_window_view, J.repeat: _repeat, J.tile: _tile,
    J.roll: _numpys(np.roll), C.tril: _numpys(_of_matrix(np.tril)), C.triu: _numpys(_of_matrix(np.triu)), C.linspace: _linspace,
    C.meshgrid: _numpys(lambda *arrays, indexing="xy": list(np.meshgrid(*arrays, indexing=indexing))), I.take_along_axis: _along,
    S.searchsorted: _search, S.isin: _numpys(np.isin), S.nextafter: _numpys(np.nextafter, "f"), E.signbit: _numpys(np.signbit, "f"),
    E.copysign: _binary(np.copysign, "f"), Z.real: _numpys(np.positive, "iuf"), Z.conj: _numpys(np.positive, "iuf"), Z.imag: _numpys(np.zeros_like, "iuf"),
    M.unstack: lambda x, axis=0: tuple(np.moveaxis(x, axis, 0)), L.tensordot: _tensordot, L.cross: _cross, J.pad: _pad, J.diag: _numpys(lambda x, k=0: np.diag(x, k)), E.isclose: _isclose,
    L.pinv: _matrix(lambda x, rtol=None: np.linalg.pinv(x, max(x.shape[-2:]) * np.finfo(x.dtype).eps if rtol is None else rtol)),
    L.matrix_rank: _matrix(lambda x, rtol=None: np.linalg.matrix_rank(x, rtol=rtol)), L.matrix_norm: _matrix(np.linalg.matrix_norm),
    F.fftshift: lambda x, axes=None: np.fft.fftshift(x, _axes(axes)), F.ifftshift: lambda x, axes=None: np.fft.ifftshift(x, _axes(axes)),
    einsum: _einsum,
    S.nonzero: lambda x: np.nonzero(x) if x.ndim else None, R.cumsum: _running("cumsum"), R.cumprod: _running("cumprod"),
    S.unique_counts: lambda x: _tuple(S.UniqueCounts, np.unique_counts(x)),
    S.unique_inverse: lambda x: _tuple(S.UniqueInverse, np.unique_inverse(x)), S.unique_all: lambda x: _tuple(S.UniqueAll, np.unique_all(x)),
    **{getattr(F, name): _transform(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{getattr(F, name): _transforms(name) for name in ("fftn", "ifftn", "rfftn", "irfftn")}, M.flatten: lambda x, start=0, stop=-1: x.reshape(-1) if (start, stop) == (0, -1) else None,
    M.diagonal: lambda x, offset=0: np.diagonal(x, offset, -2, -1),
    C.broadcast_arrays: _together, E.astype: _astype, C.full: _full, C.zeros: _filled(0), C.ones: _filled(1), C.empty: _filled(0),
    C.eye: _eye, C.arange: _arange, S.unique_values: Q.unique,
}  # fmt: skip
"""By function of nodes, the function of arrays that is the same where it answers."""
WEIGHTS = {RULES[f]: weight for f, weight in D.WEIGHTS.items()}


def _whole(function: Rule) -> Rule:
    """A function of complex arrays and floats of one precision, and of numbers."""

    def rule(*args: Any, **options: Any) -> Any:
        sizes = {a.dtype.itemsize // (1 + (a.dtype.kind == "c")) for a in args if isinstance(a, np.ndarray) and a.dtype.kind in "fc"}
        alike = len(sizes) == 1 and all(a.dtype.kind in "fc" for a in args if isinstance(a, np.ndarray))
        return function(*args, **options) if alike else None

    return rule


COMPLEX_RULES: dict[Rule, Rule] = {
    **{RULES[getattr(E, name)]: _whole(getattr(np, name)) for name in (
        "add", "subtract", "multiply", "divide", "negative", "absolute", "square", "exp", "log", "sqrt", "equal", "not_equal", "isfinite", "isnan",
    )},
    RULES[Z.real]: lambda x: x.real, RULES[Z.imag]: lambda x: x.imag, RULES[Z.conj]: np.conjugate,
    RULES[L.matmul]: _whole(_complex_product), RULES[R.sum]: lambda x, axis=None, keepdims=False: x.sum(axis=_axes(axis), keepdims=keepdims),
    RULES[R.mean]: lambda x, axis=None, keepdims=False: x.mean(axis=_axes(axis), keepdims=keepdims) if x.size else None,
    **{RULES[f]: RULES[f] for f in (
        M.reshape_to, M.permute_dims, M.squeeze, M.expand_dims, M.broadcast_to, M.flip, M.moveaxis, M.swapaxes, M.matrix_transpose, M.transposed,
        M.two_transposed, M.diagonal, M.unstack, J.concat, J.stack, I.getitem, M.flatten, F.fftshift, F.ifftshift, E.astype, F.fft, F.ifft, F.irfft, F.hfft, F.fftn, F.ifftn, F.irfftn,
    )},
}  # fmt: skip
"""By rule, the one of complex arrays."""
