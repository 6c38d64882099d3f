"""Operators that compute each element by itself."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .... import xp
from ....tensor import Tensor
from .table import OPERATORS, as_result, common_type, operands, operator, operators, overload, refuse, rounded_operands, wanted, wide

UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "erf",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "reciprocal",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "abs",
    "relu",
    "square",
]
"""Operators that are a tensor's method of the same name, in the type of the result."""

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "true_divide": lambda a, b: a / b,
    "atan2": xp.atan2,
    "copysign": xp.copysign,
    "hypot": xp.hypot,
    "maximum": lambda a, b: a.maximum(b),
    "minimum": lambda a, b: a.minimum(b),
    "bitwise_and": xp.bitwise_and,
    "bitwise_or": xp.bitwise_or,
    "bitwise_xor": xp.bitwise_xor,
    "bitwise_left_shift": xp.bitwise_left_shift,
    "bitwise_right_shift": xp.bitwise_right_shift,
    "__lshift__": xp.bitwise_left_shift,
    "__rshift__": xp.bitwise_right_shift,
    "fmax": lambda a, b: xp.where(xp.isnan(a), b, xp.where(xp.isnan(b), a, xp.maximum(a, b))),
    "fmin": lambda a, b: xp.where(xp.isnan(a), b, xp.where(xp.isnan(b), a, xp.minimum(a, b))),
    "logaddexp": xp.logaddexp,
}
"""Operators of two operands in the type of the result."""

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
"""Operators of two operands in the type that both have in common."""

LOGICAL = {"logical_and": xp.logical_and, "logical_or": xp.logical_or, "logical_xor": xp.logical_xor}
VARIANTS = ("Tensor", "Scalar", "default", "Scalar_Tensor", "Tensor_Scalar", "Tensor_Tensor")


def _unary(name: str) -> Callable[[Any, Tensor], Any]:
    return lambda out, /, x: getattr(as_result(x, out), name)()


def _whole(f: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda out, a, b: f(*operands(out, a, b))


def _compared(f: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compare(out: Any, /, a: Any, b: Any) -> Any:
        kind = common_type(a, b)
        return f(*(x.astype(kind) if isinstance(x, Tensor) else in_type(x, kind) for x in (a, b)))

    return compare


def in_type(number: Any, kind: str) -> Any:
    """A number as PyTorch compares with it: beside integers, its lowest bits."""
    return np.array(number).astype(kind).item() if "int" in kind else number


def _logical(f: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def combine(out: Any, /, a: Tensor, b: Tensor) -> Any:
        kind = common_type(a, b)
        return f(truth(a.astype(kind)), truth(b.astype(kind)))

    return combine


def truth(x: Any) -> Any:
    """A tensor of any type as truth values."""
    return x if x.dtype.name == "bool" else x != 0


def as_tensor(x: Any, out: Any) -> Tensor:
    """A number as a tensor of the result's type."""
    return x if isinstance(x, Tensor) else xp.full((), x, dtype=wanted(out))


def _fill_table() -> None:
    for names, make in ((UNARY, _unary),):
        for name in names:
            OPERATORS[overload(name)] = make(name)
    for table, wrap in ((ARITHMETIC, _whole), (COMPARISONS, _compared), (LOGICAL, _logical)):
        for name, f in table.items():
            for variant in VARIANTS:
                found = overload(f"{name}.{variant}")
                if found is not None:
                    OPERATORS[found] = wrap(f)


_fill_table()


@operator("add.Tensor", "add.Scalar")
def add(out: Any, /, a: Any, b: Any, alpha: Any = 1) -> Any:
    """a + alpha · b."""
    a, b = operands(out, a, b) if alpha in (0, 1, True, False) else operands(out, wide(a), b, alpha)[:2]
    if wanted(out) == "bool":
        return a | b if alpha else a
    return a + (b if alpha == 1 else b * alpha)


@operator("sub.Tensor", "sub.Scalar")
def sub(out: Any, /, a: Any, b: Any, alpha: Any = 1) -> Any:
    """a − alpha · b."""
    a, b = rounded_operands(out, a, b) if alpha == 1 else operands(out, wide(a), b, alpha)[:2]
    return a - (b if alpha == 1 else b * alpha)


@operator("rsub.Tensor", "rsub.Scalar")
def rsub(out: Any, /, a: Any, b: Any, alpha: Any = 1) -> Any:
    """b − alpha · a."""
    return sub(out, b, a, alpha)


def _divided(out: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Operands of a division whose result has the operands' type. Whole numbers divided by 0 are an error, which PyTorch raises."""
    if not wanted(out).startswith(("float", "bfloat")) and (isinstance(b, Tensor) or b == 0):
        refuse("whole numbers divided by data, which may be 0")
    return a, b


@operator("floor_divide", "floor_divide.Scalar")
def floor_divide(out: Any, /, a: Any, b: Any) -> Any:
    """a / b, rounded down: −1 for an infinite b of the other sign, NaN for an infinite a, a / b for b = 0."""
    a, b = operands(out, *_divided(out, a, b))
    if not a.dtype.is_float:
        return a // b
    b = b if isinstance(b, Tensor) else xp.full((), b, dtype=a.dtype)
    down = xp.where(b.isinf() & (a * b < 0), -1.0, a // b)
    return xp.where(b == 0, a / b, xp.where(a.isinf(), float("nan"), down))


@operator("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(out: Any, /, a: Any, b: Any) -> Any:
    """What is left of a, with the sign of b."""
    a, b = rounded_operands(out, *_divided(out, a, b))
    return a % b


@operator("fmod.Tensor", "fmod.Scalar")
def fmod(out: Any, /, a: Tensor, b: Any) -> Any:
    """What is left of a, with the sign of a."""
    a, b = rounded_operands(out, *_divided(out, a, b))
    if a.dtype.is_float:
        return xp.copysign(a.abs() % abs(b), a)
    left = a % b
    return xp.where((left != 0) & ((left < 0) != (a < 0)), left - b, left)


@operator("div.Tensor_mode", "div.Scalar_mode")
def div_mode(out: Any, /, a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    """a / b, rounded down or towards zero."""
    if rounding_mode is None:
        return python_operator.truediv(*operands(out, a, b))
    if rounding_mode == "floor":
        return floor_divide(out, a, b)
    a, b = operands(out, *_divided(out, a, b))
    if a.dtype.is_float:
        return (a / b).trunc()
    down = a // b
    return xp.where((a % b != 0) & ((a < 0) != (b < 0)), down + 1, down)


@operator("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def pow(out: Any, /, a: Any, b: Any) -> Any:
    """a to the power of b."""
    if isinstance(b, Tensor) and not wanted(out).startswith(("float", "bfloat")):
        refuse("a whole number to the power of data, which may be negative")
    a, b = rounded_operands(out, a, b)
    if isinstance(b, float) and abs(b) == 0.5:  # roots, as PyTorch: NaN for −∞
        return a.sqrt() if b > 0 else a.rsqrt()
    return a**b


@operator("sign", "sgn")
def sign(out: Any, /, x: Tensor) -> Any:
    """−1, 0 or 1; 0 for NaN."""
    return xp.where(x.isnan(), xp.zeros((), dtype=wanted(out)), x.sign()) if x.dtype.is_float else x.sign()


operators(
    {
        "neg": lambda out, /, x: -x,
        "isnan": lambda out, /, x: x.isnan() if x.dtype.is_float else xp.zeros(x.shape, dtype="bool"),
        "isinf": lambda out, /, x: x.isinf() if x.dtype.is_float else xp.zeros(x.shape, dtype="bool"),
        "logical_not": lambda out, /, x: x.logical_not() if x.dtype.name == "bool" else x == 0,
        "bitwise_not": lambda out, /, x: ~x,
        "signbit": lambda out, /, x: xp.signbit(x) if x.dtype.is_float else x < 0,
        "silu": lambda out, /, x: x.silu(),
        "mish": lambda out, /, x: x.mish(),
        "hardswish": lambda out, /, x: x.hardswish(),
        "hardsigmoid": lambda out, /, x: (wide(x) + 3.0).clip(0.0, 6.0) / 6.0,
        "hardtanh": lambda out, /, x, min_val=-1.0, max_val=1.0: x.clip(min_val, max_val),
        "gelu": lambda out, /, x, approximate="none": x.gelu(approximate),
        "prims.fma": lambda out, /, a, b, c: as_result(a, out) * as_result(b, out) + as_result(c, out),
        "threshold_backward": lambda out, /, grad, x, threshold: xp.where(x <= threshold, as_tensor(0, out), grad),
        "tanh_backward": lambda out, /, grad, y: grad * (1 - y * y),
        "sigmoid_backward": lambda out, /, grad, y: grad * y * (1 - y),
    }
)


@operator("round", "round.decimals")
def round(out: Any, /, x: Tensor, decimals: int = 0) -> Any:
    """To the nearest whole number, halves to even ones."""
    return x.round() if not decimals else refuse("round to decimals")


@operator("leaky_relu")
def leaky_relu(out: Any, /, x: Tensor, negative_slope: float = 0.01) -> Any:
    """x, or a part of it below 0."""
    x = wide(x)
    return xp.where(x > 0, x, x * negative_slope)


@operator("rrelu_with_noise_functional")
def rrelu(
    out: Any, /, x: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Any:
    """leaky_relu with the mean slope, as at inference; and the noise."""
    return refuse("random slopes") if training else (leaky_relu(out, x, (lower + upper) / 2), noise)


@operator("elu")
def elu(out: Any, /, x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    """Scaled x, and alpha · (exp(x) − 1) below 0."""
    x = wide(x)
    return xp.where(x > 0, x * scale, (x * input_scale).minimum(0.0).expm1() * (alpha * scale))


@operator("softplus")
def softplus(out: Any, /, x: Tensor, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta · x)) / beta, and x itself where beta · x is above the threshold."""
    x = wide(x)
    soft = x.softplus() if beta == 1 else (x * beta).softplus() / beta
    return xp.where(x * beta > threshold, x, soft)


@operator("clamp", "clamp.Tensor")
def clamp(out: Any, /, x: Tensor, min: Any = None, max: Any = None) -> Any:
    """x within bounds, of which one may be None; the upper bound wins."""
    x = as_result(x, out)
    for bound, take in ((min, xp.maximum), (max, xp.minimum)):
        if bound is not None:
            x = take(x, as_tensor(as_result(bound, out), out))
    return x


@operator("clamp_min", "clamp_min.Tensor")
def clamp_min(out: Any, /, x: Tensor, min: Any) -> Any:
    """At least a bound."""
    return clamp(out, x, min, None)


@operator("clamp_max", "clamp_max.Tensor")
def clamp_max(out: Any, /, x: Tensor, max: Any) -> Any:
    """At most a bound."""
    return clamp(out, x, None, max)


@operator("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(out: Any, /, condition: Tensor, a: Any, b: Any) -> Any:
    """a where the condition holds, else b."""
    return xp.where(truth(condition), as_tensor(as_result(a, out), out), as_result(b, out))


@operator("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(out: Any, /, x: Tensor, mask: Tensor, fill: Any) -> Any:
    """A number where the mask holds."""
    return xp.where(mask, as_tensor(as_result(fill, out), out), x)


@operator("addcmul")
def addcmul(out: Any, /, x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Any:
    """x + value · a · b."""
    x, a, b = (wide(as_result(v, out)) for v in (x, a, b))
    return x + a * b * value


@operator("addcdiv")
def addcdiv(out: Any, /, x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Any:
    """x + value · a / b."""
    x, a, b = (wide(as_result(v, out)) for v in (x, a, b))
    return x + a / b * value


@operator("lerp.Scalar", "lerp.Tensor")
def lerp(out: Any, /, a: Tensor, b: Tensor, weight: Any) -> Any:
    """From a to b."""
    a, b, weight = wide(a), wide(b), wide(weight)
    near = a + weight * (b - a)
    far = b - (b - a) * (1 - weight)
    if isinstance(weight, Tensor):
        return xp.where(weight.abs() < 0.5, near, far)
    return near if -0.5 < weight < 0.5 else far
