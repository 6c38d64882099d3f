"""The array API standard (2024.12): `from tilewright import xp`, or `x.__array_namespace__()`.

Every function is one of `tensor.ops`, taking and giving `Tensor`s; nothing is computed before a value is asked for.
docs/array-api.md says what is not there, and which functions compute at once."""

from __future__ import annotations

from math import e, inf, nan, pi
from types import SimpleNamespace as _Names
from typing import TYPE_CHECKING as _TYPE_CHECKING

from .. import tensor as _tensor  # noqa: F401
from ..ir.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ..ir.dtypes import bool_ as bool
from ..tensor.frontends import moved as _V
from ..tensor.frontends.habits import no_function
from ..tensor.frontends.numpy_functions import where
from ..tensor.lift import all_lifted as _all
from ..tensor.lift import lifted as _lifted
from ..tensor.ops import complex_numbers as _Z
from ..tensor.ops import convolution as _C
from ..tensor.ops import creation as _N
from ..tensor.ops import elementwise as _E
from ..tensor.ops import indexing as _I
from ..tensor.ops import joining as _J
from ..tensor.ops import linalg as _L
from ..tensor.ops import movement as _M
from ..tensor.ops import reduction as _R
from ..tensor.ops import sorting as _S
from ..tensor.ops.einsum import einsum as _einsum
from . import fft, linalg
from .creation import (
    arange,
    asarray,
    astype,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .types import NamespaceInfo as _NamespaceInfo
from .types import can_cast, finfo, iinfo, isdtype, result_type

__array_api_version__ = "2024.12"
newaxis = None

if not _TYPE_CHECKING:  # type checkers say themselves where a name is not here

    def __getattr__(name: str) -> object:
        raise no_function(name)


def __array_namespace_info__() -> _NamespaceInfo:
    """What the namespace can do."""
    return _NamespaceInfo()


# elementwise
add, subtract, multiply, divide = _all(_E.add, _E.subtract, _E.multiply, _E.divide)
floor_divide, remainder, pow = _lifted(_E.floor_divide), _lifted(_E.remainder), _lifted(_E.power)
negative, positive, abs, sign, square = _all(_E.negative, _E.positive, _E.absolute, _E.sign, _E.square)
reciprocal, maximum, minimum, clip = _all(_E.reciprocal, _E.maximum, _E.minimum, _E.clip)
floor, ceil, trunc, round = _all(_E.floor, _E.ceil, _E.trunc, _E.round)
real, conj, imag = _V.real, _lifted(_Z.conj), _V.imag
signbit, copysign, hypot, nextafter = _all(_E.signbit, _E.copysign, _E.hypot, _S.nextafter)
exp, expm1, log, log1p, log2, log10 = _all(_E.exp, _E.expm1, _E.log, _E.log1p, _E.log2, _E.log10)
sqrt, logaddexp = _lifted(_E.sqrt), _lifted(_E.logaddexp)
sin, cos, tan, asin, acos, atan, atan2 = _all(_E.sin, _E.cos, _E.tan, _E.asin, _E.acos, _E.atan, _E.atan2)
sinh, cosh, tanh, asinh, acosh, atanh = _all(_E.sinh, _E.cosh, _E.tanh, _E.asinh, _E.acosh, _E.atanh)
equal, not_equal, less, less_equal = _all(_E.equal, _E.not_equal, _E.less, _E.less_equal)
greater, greater_equal = _lifted(_E.greater), _lifted(_E.greater_equal)
logical_and, logical_or, logical_xor, logical_not = _all(_E.logical_and, _E.logical_or, _E.logical_xor, _E.logical_not)
bitwise_and, bitwise_or, bitwise_xor, bitwise_invert = _all(_E.bitwise_and, _E.bitwise_or, _E.bitwise_xor, _E.bitwise_invert)
bitwise_left_shift, bitwise_right_shift = _lifted(_E.bitwise_left_shift), _lifted(_E.bitwise_right_shift)
isnan, isinf, isfinite, isclose = _all(_E.isnan, _E.isinf, _E.isfinite, _E.isclose)

# creation of arrays, movement
tril, triu, meshgrid, broadcast_arrays = _all(_N.tril, _N.triu, _N.meshgrid, _N.broadcast_arrays)
reshape, squeeze, expand_dims = _V.reshape_to, _V.squeeze, _V.expand_dims
permute_dims, transpose, matrix_transpose, moveaxis = _V.permute_dims, _V.transpose, _V.matrix_transpose, _V.moveaxis
broadcast_to, flip, unstack = _lifted(_M.broadcast_to), _V.flip, _lifted(_M.unstack)
concat, stack, roll, tile, repeat, pad, diag = _all(_J.concat, _J.stack, _J.roll, _J.tile, _J.repeat, _J.pad, _J.diag)

# reductions
sum, prod, max, min, mean, var, std = _all(_R.sum, _R.prod, _R.max, _R.min, _R.mean, _R.var, _R.std)
any, all, count_nonzero, argmax, argmin = _all(_R.any, _R.all, _R.count_nonzero, _R.argmax, _R.argmin)
cumulative_sum, cumulative_prod, diff = _lifted(_R.cumulative_sum), _lifted(_R.cumulative_prod), _lifted(_J.diff)
cumsum, cumprod, gradient = _lifted(_R.cumsum), _lifted(_R.cumprod), _lifted(_J.gradient)
lib = _Names(stride_tricks=_Names(sliding_window_view=_lifted(_C.sliding_window_view)))

# indexing, sorting, sets
take, take_along_axis = _lifted(_I.take), _lifted(_I.take_along_axis)
sort, argsort, searchsorted, nonzero, isin = _all(_S.sort, _S.argsort, _S.searchsorted, _S.nonzero, _S.isin)
unique_all, unique_counts, unique_inverse, unique_values = _all(_S.unique_all, _S.unique_counts, _S.unique_inverse, _S.unique_values)

# products
matmul, tensordot, vecdot, einsum = _all(_L.matmul, _L.tensordot, _L.vecdot, _einsum)

__all__ = [
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asarray", "asin", "asinh",
    "astype", "atan", "atan2", "atanh", "bfloat16", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "bool", "broadcast_arrays", "broadcast_to", "can_cast", "ceil", "clip", "complex128",
    "complex64", "concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diag", "diff", "divide", "e",
    "einsum", "empty", "empty_like", "equal", "exp", "expand_dims", "expm1", "eye", "fft", "finfo", "flip", "float16",
    "float32", "float64", "float8_e4m3", "float8_e5m2", "floor", "floor_divide", "from_dlpack", "full", "full_like", "gradient", "greater", "greater_equal",
    "hypot", "iinfo", "imag", "inf", "int16", "int32", "int64", "int8", "isclose", "isdtype", "isfinite", "isin", "isinf",
    "isnan", "less", "less_equal", "lib", "linalg", "linspace", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logspace", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid",
    "min", "minimum", "moveaxis", "multiply", "nan", "negative", "newaxis", "nextafter", "nonzero", "not_equal", "ones",
    "ones_like", "pad", "permute_dims", "pi", "positive", "pow", "prod", "real", "reciprocal", "remainder", "repeat", "reshape",
    "result_type", "roll", "round", "searchsorted", "sign", "signbit", "sin", "sinh", "sort", "sqrt", "square",
    "squeeze", "stack", "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "transpose", "tril",
    "triu", "trunc", "uint16", "uint32", "uint64", "uint8", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip
