"""Operators that compute each element by itself, and constants."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from onnx import TensorProto

from .... import xp
from ....ir.dtypes import FORMATS
from ....ir.errors import UsageError
from ..element_types import CODED_FLOATS, NARROW_INTEGERS, NUMPY, Array, as_tensor
from .table import (
    OPERATORS,
    Call,
    along,
    by_channel,
    cut,
    element_type,
    elements,
    like,
    number,
    on_host,
    operator,
    operators,
    type_of,
    whole_numbers,
    wide,
)

METHODS = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "HardSwish": "hardswish",
    "IsNaN": "isnan", "Log": "log", "Mish": "mish", "Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu",
    "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus",
    "Softsign": "softsign", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
"""Operators that are a tensor's method."""

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": xp.add, "Sub": xp.subtract, "Mul": xp.multiply, "And": xp.logical_and, "Or": xp.logical_or, "Xor": xp.logical_xor,
    "Equal": xp.equal, "Less": xp.less, "Greater": xp.greater, "LessOrEqual": xp.less_equal, "GreaterOrEqual": xp.greater_equal,
    "BitwiseAnd": xp.bitwise_and, "BitwiseOr": xp.bitwise_or, "BitwiseXor": xp.bitwise_xor,
}  # fmt: skip
"""Operators of two tensors."""

SEVERAL: dict[str, Callable[[Any, Any], Any]] = {"Max": xp.maximum, "Min": xp.minimum, "Sum": xp.add}
"""Operators of as many tensors as are given."""


def _method(name: str) -> Callable[..., Any]:
    return lambda call, x, consumed_inputs=None: getattr(x, name)()


def _two(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda call, a, b, **how: function(*_at_axis(a, b, **how))


def _at_axis(a: Any, b: Any, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> tuple[Any, Any]:
    """Before opset 7 the axes of b lie at an axis of a."""
    return a, b.reshape((*b.shape, *(1,) * (a.ndim - axis - b.ndim))) if broadcast and axis is not None else b


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda call, *xs, consumed_inputs=None: reduce(function, xs)


for _name, _m in METHODS.items():
    OPERATORS["", _name] = _method(_m)
for _name, _f in BINARY.items():
    OPERATORS["", _name] = _two(_f)
for _name, _f in SEVERAL.items():
    OPERATORS["", _name] = _folded(_f)


operators(
    {
        "Mean": lambda call, *xs, consumed_inputs=None: reduce(xp.add, xs) / len(xs),
        "Neg": lambda call, x, consumed_inputs=None: -x,
        "BitwiseNot": lambda call, x: ~x,
        "Identity": lambda call, x: x,
        "BitShift": lambda call, a, b, direction: a << b if direction == "LEFT" else a >> b,
        "Where": lambda call, test, a, b: xp.where(test, a, b),
        "LeakyRelu": lambda call, x, alpha=0.01, consumed_inputs=None: x.leaky_relu(alpha),
        "Elu": lambda call, x, alpha=1.0, consumed_inputs=None: x.elu(alpha),
        "Selu": lambda call, x, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875, consumed_inputs=None: (
            x.elu(alpha) * gamma
        ),
        "Celu": lambda call, x, alpha=1.0: xp.maximum(x, 0) + xp.minimum(xp.expm1(x / alpha) * alpha, 0),
        "ThresholdedRelu": lambda call, x, alpha=1.0: xp.where(x > alpha, x, 0),
        "HardSigmoid": lambda call, x, alpha=0.2, beta=0.5, consumed_inputs=None: (x * alpha + beta).clip(0, 1),
        "Gelu": lambda call, x, approximate="none": x.gelu(approximate),
        "Swish": lambda call, x, alpha=1.0: x * (x * alpha).sigmoid(),
        "Softmax": lambda call, x, axis=None: _rowwise(call, x, axis, lambda y, a: y.softmax(a)),
        "LogSoftmax": lambda call, x, axis=None: _rowwise(call, x, axis, lambda y, a: y.log_softmax(a)),
        "Cast": lambda call, x, to, saturate=1, round_mode="up": cast_to(x, call.code(0), to, saturate, round_mode),
        "CastLike": lambda call, x, y, saturate=1, round_mode="up": cast_to(x, call.code(0), call.code(1), saturate, round_mode),
        "OptionalHasElement": lambda call, x=None: np.array(x is not None),
        "OptionalGetElement": lambda call, x: x,
    }
)


@operator("Div")
def div(call: Call, a: Any, b: Any, **how: Any) -> Any:
    """A quotient; of integers towards 0."""
    a, b = _at_axis(a, b, **how)
    if a.dtype.is_float:
        return a / b
    if a.dtype.kind == "u":
        return a // b
    quotient = a // b
    inexact = (quotient * b != a) & ((a < 0) != (b < 0))
    return quotient + inexact.astype(type_of(a))


@operator("Mod")
def mod(call: Call, a: Any, b: Any, fmod: int = 0) -> Any:
    """A remainder with the divisor's sign; with `fmod` with the dividend's."""
    if not fmod or a.dtype.kind == "u":
        return a % b
    rest = xp.abs(a) % xp.abs(b)
    return xp.where(a < 0, -rest, rest)


@operator("Pow")
def power(call: Call, a: Any, b: Any, **how: Any) -> Any:
    """A power in the type of its base."""
    a, b = _at_axis(a, b, **how)
    kind, exponent = type_of(a), call.constant(1)
    if a.dtype.is_float and exponent is not None:  # a square or a cube is products
        return (a ** float(exponent)).astype(kind)
    if a.dtype.is_float:
        return (a ** b.astype(kind)).astype(kind)
    return (a**b).astype(kind) if b.dtype.is_int else (a.astype("float64") ** b.astype("float64")).astype(kind)


@operator("Clip")
def clip(call: Call, x: Any, low: Any = None, high: Any = None, min: Any = None, max: Any = None, consumed_inputs: Any = None) -> Any:
    """x within bounds; where they cross, the upper one."""
    low, high = low if min is None else min, high if max is None else max
    x = x if low is None else xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


@operator("IsInf")
def is_infinite(call: Call, x: Any, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    """Whether elements are an infinity of the given signs."""
    return x.isinf() & (((x < 0) & bool(detect_negative)) | ((x > 0) & bool(detect_positive)))


# activations --------------------------------------------------------------------------------------------------------
@operator("PRelu")
def prelu(call: Call, x: Any, slope: Any, consumed_inputs: Any = None) -> Any:
    """x, or slope · x below 0."""
    slope = by_channel(slope, x.ndim) if call.version < 7 and elements(slope.shape) > 1 else slope
    return xp.where(x < 0, x * slope, x)


@operator("Shrink")
def shrink(call: Call, x: Any, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """x towards 0 by a bias; 0 where it is within ±lambd."""
    by = like(x, bias)
    return xp.where(x < -lambd, x + by, xp.where(x > lambd, x - by, 0)).astype(type_of(x))


def _rowwise(call: Call, x: Any, axis: int | None, function: Callable[[Any, int], Any]) -> Any:
    """Before opset 13 softmax and its kind take the axes from `axis` on as one."""
    if axis is None:
        axis = -1 if call.version >= 13 else 1
    if call.version >= 13:
        return function(x, axis)
    at = axis % x.ndim
    return function(x.reshape((elements(x.shape[:at]), elements(x.shape[at:]))), 1).reshape(x.shape)


@operator("Hardmax")
def hardmax(call: Call, x: Any, axis: int | None = None) -> Any:
    """1 at the first of the largest, else 0."""

    def first(y: Any, a: int) -> Any:
        if y.shape[a] == 0:
            return y
        return (along(y.shape[a], y.ndim, a) == y.argmax(axis=a, keepdims=True)).astype(type_of(x))

    return _rowwise(call, x, axis, first)


# types --------------------------------------------------------------------------------------------------------------
LARGEST = {name: FORMATS[name].largest for name in ("float8_e4m3", "float8_e5m2")}


def decoded(x: Any, code: int) -> Any:
    """Numbers that are stored as bits, as float32; others as they are."""
    if code not in CODED_FLOATS:
        return x
    table = np.arange(256, dtype=np.uint8).view(NUMPY[code]).astype(np.float32)
    return as_tensor(table).take(x.astype("int64"), axis=0)


def cast_to(x: Any, source: int, to: int, saturate: int = 1, rounding: str = "up") -> Any:
    """x, of an ONNX type, in another."""
    x = decoded(x, source)
    if to in CODED_FLOATS:
        return _encoded(x, to, saturate, rounding)
    if to in NARROW_INTEGERS:
        return _wrapped(x, to)
    name = element_type(to)
    if name in LARGEST and saturate and x.dtype.is_float and type_of(x) not in LARGEST:
        x = xp.where(xp.isnan(x), x, xp.clip(x, -LARGEST[name], LARGEST[name]))
    return x.astype(name)


def _wrapped(x: Any, to: int) -> Any:
    """Integers of less than 8 bits: the lowest bits."""
    signed = element_type(to) == "int8"
    bits = int(np.dtype(NUMPY[to]).name.lstrip("uint"))
    low = xp.bitwise_and(x.astype("int32"), 2**bits - 1)
    return (xp.where(low >= 2 ** (bits - 1), low - 2**bits, low) if signed else low).astype(element_type(to))


def _encoded(x: Any, to: int, saturate: int, rounding: str) -> Any:
    """The bits of floats in a type that is not ours, by ml_dtypes."""
    import ml_dtypes

    kind = NUMPY[to]
    limits: Any = ml_dtypes.finfo
    top = float(limits(kind).max)

    def encode(a: Array) -> Array:
        f = np.asarray(a, np.float32)
        if to == TensorProto.FLOAT8E8M0:  # powers of two
            exponents = np.log2(np.abs(f.astype(np.float64)))
            up = {"up": np.ceil, "down": np.floor}.get(rounding, np.round)(exponents)
            f = np.where(np.isfinite(f), np.exp2(np.clip(up, -127, 127 if saturate else 128)), f).astype(np.float32)
        if saturate:
            f = np.where(np.isnan(f), f, np.clip(f, -top, top))
        return f.astype(kind).view(np.uint8)

    return on_host("encode", encode, [wide(x)], x.shape, "uint8", str(kind), saturate, rounding)


@operator("BitCast")
def bit_cast(call: Call, x: Any, to: int) -> Any:
    """The bits of x as elements of a type of the same size."""
    name = element_type(to)
    source, target = NUMPY[call.code(0)], NUMPY[to]
    if source.itemsize != target.itemsize:
        raise UsageError(f"BitCast of {source} to {target}: their sizes differ")
    kind = np.dtype(name) if name in np.sctypeDict else target
    return on_host("bit_cast", lambda a: np.ascontiguousarray(a).view(kind), [x], x.shape, name, name)


# constants ----------------------------------------------------------------------------------------------------------
@operator("Constant")
def constant(call: Call, **given: Any) -> Any:
    """A tensor that is part of the node."""
    ((kind, value),) = given.items()
    if kind in ("value_string", "value_strings", "sparse_value"):
        raise UsageError(f"Constant: {kind} is not supported")
    wanted = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}.get(kind)
    return np.asarray(value, wanted)


@operator("ConstantOfShape", known=(0,))
def constant_of_shape(call: Call, shape: Array, value: Array | None = None) -> Any:
    """One number, everywhere."""
    fill = as_tensor(np.zeros(1, np.float32) if value is None else value)
    return fill.reshape(()).expand(tuple(whole_numbers(shape) or ()))


@operator("Range", known=(0, 1, 2))
def numbers(call: Call, start: Array, limit: Array, delta: Array) -> Any:
    """From start by steps of delta to before the limit."""
    kind: Any = str(np.asarray(start).dtype)
    if kind in ("int64", "int32", "int16"):
        return xp.arange(number(start), number(limit), number(delta), dtype=kind)
    count = max(int(np.ceil((np.float64(number(limit)) - number(start)) / number(delta))), 0)
    return (xp.arange(count).astype(kind) * number(delta) + number(start)).astype(kind)


@operator("EyeLike")
def eye_like(call: Call, x: Any, dtype: int | None = None, k: int = 0) -> Any:
    """Ones on a diagonal."""
    kind: Any = element_type(dtype) if dtype else x.dtype
    return xp.eye(*x.shape, k=k, dtype=kind)


@operator("OneHot", known=(1,))
def one_hot(call: Call, places: Any, depth: Array, values: Any, axis: int = -1) -> Any:
    """values[1] at each place, values[0] elsewhere."""
    n = int(number(depth))
    at = axis % (places.ndim + 1)
    places = xp.expand_dims(places.astype("int64"), axis=at)
    hit = along(n, places.ndim, at) == xp.where(places < 0, places + n, places)
    return xp.where(hit, cut(values, 0, 1), cut(values, 0, 0))


@operator("Dropout", known=(1, 2))
def dropout(call: Call, x: Any, ratio: Array | None = None, training: Array | None = None, **how: Any) -> Any:
    """x: nothing is dropped when a model is used. Raises UsageError in training mode."""
    if training is not None and number(training) and (ratio is None or number(ratio) != 0):
        raise UsageError("Dropout in training mode: export the model for inference")
    return x, xp.ones(x.shape, dtype="bool")
