"""Kernels as values over axes: types, hash-consed expressions, index arithmetic, and the reference evaluator."""

from .body import Fold, Monoid, Reduce, Scan, Store, Value
from .buffer import Buffer
from .builder import KernelBuilder
from .dtypes import (
    DType,
    bfloat16,
    bool_,
    dtype,
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
from .errors import (
    BuildError,
    CacheError,
    CacheMiss,
    DeviceError,
    KernelError,
    MeasureError,
    OptError,
    TilewrightError,
    UsageError,
    VerifyError,
)
from .functions import (
    absolute,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    clip,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    leading_zeros,
    log,
    log1p,
    log2,
    log10,
    maximum,
    minimum,
    popcount,
    power,
    round_even,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    where,
)
from .kernel import Kernel
from .node import Node, axis, const, sym
from .operators import cast
from .rules import OPERATORS as OPERATORS

__all__ = [
    "Buffer", "BuildError", "CacheError", "CacheMiss", "DType", "DeviceError", "Fold", "Kernel", "KernelBuilder",
    "KernelError", "MeasureError", "Monoid", "Node", "OptError", "Reduce", "Scan", "Store", "TilewrightError",
    "UsageError", "Value", "VerifyError", "absolute", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh",
    "axis", "bfloat16", "bool_", "cast", "ceil", "clip", "const", "copysign", "cos", "cosh", "dtype", "erf", "exp",
    "exp2", "expm1", "float16", "float32", "float64", "float8_e4m3", "float8_e5m2", "floor", "int16", "int32",
    "int64", "int8", "isfinite", "isinf", "isnan", "leading_zeros", "log", "log10", "log1p", "log2", "maximum", "minimum", "popcount", "power",
    "round_even", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sym", "tan", "tanh", "trunc", "uint16",
    "uint32", "uint64", "uint8", "where",
]  # fmt: skip
