"""Numbers as small integers with a scale: conversions, and products of such integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from .... import xp
from ....ir.errors import UsageError
from ....tensor import nn
from ..element_types import CODED_FLOATS, NARROW_INTEGERS, NUMPY
from .elementwise import cast_to, decoded
from .table import OPERATORS, Call, channels_behind, channels_first, cut, element_type, elements, limits, operator, type_of, wide
from .windows import frame


def _bounds(code: int) -> tuple[int, int]:
    """The least and largest number of an ONNX integer type."""
    if code not in NARROW_INTEGERS:
        return limits(element_type(code))
    bits = int(np.dtype(NUMPY[code]).name.lstrip("uint"))
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if element_type(code) == "int8" else (0, 2**bits - 1)


def _beside(s: Any, x: Any, axis: int, block: int) -> Any:
    """Scales of a tensor, an axis or blocks, as an array beside x."""
    if block:
        return cut(s.repeat(block, axis=axis % x.ndim), axis, slice(0, x.shape[axis]))
    if s.ndim == 1 and s.ndim <= x.ndim and elements(s.shape) > 1:
        return s.reshape(tuple(-1 if d == axis % x.ndim else 1 for d in range(x.ndim)))
    return s.reshape(()) if s.ndim <= 1 and elements(s.shape) == 1 else s


@operator("QuantizeLinear")
def quantize(
    call: Call, x: Any, scale: Any, zero: Any = None, axis: int = 1, block_size: int = 0, output_dtype: int = 0, saturate: int = 1,
    precision: int = 0, channels_last: int = 0,
) -> Any:  # fmt: skip
    """x / scale + zero point, rounded to even and kept within the type. The quotient has the type `precision`, or that of the scale (before
    opset 23, which says so, float32). `channels_last`: how the result lies in memory."""
    if channels_last and x.ndim > 2 and elements(scale.shape) == 1 and not block_size:
        return channels_first(quantize(call, channels_behind(x), scale, zero, axis, 0, output_dtype, saturate, precision))
    to = call.code(2) if zero is not None else output_dtype or TensorProto.UINT8
    kind = element_type(precision) if precision else type_of(scale) if call.version >= 23 else "float32"
    y = (wide(x.astype(kind)) / wide(_beside(scale, x, axis, block_size).astype(kind))).astype(kind)
    if to in CODED_FLOATS or element_type(to).startswith("float"):  # floats of 8 bits and less
        shift = 0 if zero is None else _beside(decoded(zero, to), x, axis, block_size).astype("float32")
        return cast_to(y.astype("float32") + shift, TensorProto.FLOAT, to, saturate)
    shift = 0 if zero is None else _beside(zero, x, axis, block_size).astype("float32")
    low, high = _bounds(to)
    return (y.astype("float32").round() + shift).clip(low, high).astype(element_type(to))


@operator("DequantizeLinear")
def dequantize(call: Call, x: Any, scale: Any, zero: Any = None, axis: int = 1, block_size: int = 0, output_dtype: int = 0) -> Any:
    """(x − zero point) · scale."""
    code = call.code(0)
    x = decoded(x, code)
    wider = "float32" if x.dtype.is_float else "int32"
    y = x.astype(wider)
    if zero is not None:
        y = y - _beside(decoded(zero, code), x, axis, block_size).astype(wider)
    return (y.astype("float32") * _beside(scale, x, axis, block_size).astype("float32")).astype(
        element_type(output_dtype) if output_dtype else type_of(scale)
    )


@operator("DynamicQuantizeLinear")
def dynamic_quantize(call: Call, x: Any) -> Any:
    """x as 8-bit integers, its scale and zero point, from its own range."""
    high, low = xp.maximum(x.max(), 0.0), xp.minimum(x.min(), 0.0)
    scale = (high - low) / 255.0
    safe = xp.where(scale == 0, 1.0, scale)
    zero = (0.0 - low / safe).clip(0.0, 255.0).round()
    return ((x / safe).round() + zero).clip(0.0, 255.0).astype("uint8"), scale, zero.astype("uint8")


def less_zero(x: Any, zero: Any, lead: int = 0) -> Any:
    """Integers without their zero point, which may be one for each slice of the first axis (`lead`: how many axes follow it)."""
    x = x.astype("int32")
    if zero is None:
        return x
    z = zero.astype("int32")
    if elements(z.shape) == 1:
        return x - z.reshape(())
    return x - (z.reshape((-1, *(1,) * lead)) if lead else z)


@operator("MatMulInteger")
def matmul_integer(call: Call, a: Any, b: Any, zero_a: Any = None, zero_b: Any = None) -> Any:
    """A product of integer matrices, without their zero points."""
    if zero_a is not None and zero_a.ndim == 1 and elements(zero_a.shape) > 1:
        zero_a = zero_a.reshape((-1, 1))
    return less_zero(a, zero_a) @ less_zero(b, zero_b)


def requantized(y: Any, scale: Any, zero: Any, code: int) -> Any:
    """A float product as integers of a type."""
    low, high = _bounds(code)
    shift = 0 if zero is None else zero.astype("float32")
    return ((y / scale).round() + shift).clip(low, high).astype(element_type(code))


@operator("QLinearMatMul")
def qlinear_matmul(call: Call, a: Any, scale_a: Any, zero_a: Any, b: Any, scale_b: Any, zero_b: Any, scale: Any, zero: Any) -> Any:
    """A product of quantised matrices, quantised."""
    if zero_a.ndim == 1 and elements(zero_a.shape) > 1:
        zero_a, scale_a = zero_a.reshape((-1, 1)), scale_a.reshape((-1, 1))
    y = (less_zero(a, zero_a) @ less_zero(b, zero_b)).astype("float32")
    return requantized(y * (scale_a.astype("float32") * scale_b.astype("float32")), scale.astype("float32"), zero, call.code(7))


@operator("ConvInteger")
def conv_integer(call: Call, x: Any, w: Any, zero_x: Any = None, zero_w: Any = None, **how: Any) -> Any:
    """A convolution of integers, without their zero points."""
    return OPERATORS["", "Conv"](call, less_zero(x, zero_x), less_zero(w, zero_w, w.ndim - 1), None, **how)


@operator("QLinearConv")
def qlinear_conv(
    call: Call, x: Any, scale_x: Any, zero_x: Any, w: Any, scale_w: Any, zero_w: Any, scale: Any, zero: Any, b: Any = None, **how: Any
) -> Any:
    """A convolution of quantised tensors, quantised."""
    y = OPERATORS["", "Conv"](call, less_zero(x, zero_x), less_zero(w, zero_w, w.ndim - 1), b, **how).astype("float32")
    if elements(scale_w.shape) > 1:
        scale_w = scale_w.reshape((-1, *(1,) * (w.ndim - 2)))
    return requantized(y * (scale_x * scale_w), scale, zero, call.code(7))


# what takes the place of products of bytes with known weights, when a model is read ----------------------------------
@operator("IntegerConv", domain="tilewright")
def integer_conv(
    call: Call, x: Any, w: Any, added: Any = None, scale: Any = None, bias: Any = None, zero: int = 0, channels: int = 0,
    auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """A convolution of bytes (batch, in, space …) with bytes (taps …, in, out), or floats (taps …, in / group, out): int32, plus `added`
    (out); with a scale (out), float32, plus the bias. `zero`: what lies outside of x. Channels lie last in memory, where instructions find
    them side by side."""
    rank = w.ndim - 2
    if x.shape[1] != channels:
        raise UsageError(f"the image has {x.shape[1]} channels, and the weights are for {channels}")
    stride, dilation, padding, _ = frame(x, w.shape[:rank], strides, dilations, pads, auto_pad)
    last, back = (0, *range(2, rank + 2), 1), (0, rank + 1, *range(1, rank + 1))
    seen = x.permute(last)
    more = w.shape[rank] * group - x.shape[1]  # channels whose weights are 0
    if more or any(p != (0, 0) for p in padding):
        seen = seen.pad([(0, 0), *padding, (0, more)], zero)
        padding = ((0, 0),) * rank
    if group > 1:  # (floats are exact: the sums are below 2^24)
        taps = w.permute((rank + 1, rank, *range(rank)))
        seen = seen.permute(back).astype("float32")
        y = nn.conv(seen, taps, stride=stride, padding=padding, dilation=dilation, groups=group).permute(last)
        return _scaled(y if scale is not None else y.astype("int32"), added, scale, bias).permute(back)
    if w.shape[rank] == 4 and dilation[-1] == 1 and padding[-1] == (0, 0):  # few channels: all that a row of taps reads lies side by side
        seen = seen.reshape((*seen.shape[:-2], seen.shape[-2] * 4, 1))
        w = w.reshape((*w.shape[: rank - 1], w.shape[rank - 1] * 4, 1, w.shape[-1]))
        stride = (*stride[:-1], stride[-1] * 4)
    taps = w.astype("int32").permute((rank + 1, rank, *range(rank)))
    y = nn.conv(seen.astype("int32").permute(back), taps, stride=stride, padding=padding, dilation=dilation).permute(last)
    return _scaled(y, added, scale, bias).permute(back)


@operator("IntegerMatMul", domain="tilewright")
def integer_matmul(
    call: Call, x: Any, w: Any, added: Any = None, scale: Any = None, bias: Any = None, zero: Any = None, sums: Any = None
) -> Any:
    """A product of bytes (…, k) with bytes (k, n): int32, plus `added` (n), less the zero point of x times `sums` (n); with a scale (n or
    of all), float32, plus the bias."""
    y = x.astype("int32") @ w.astype("int32")
    if zero is not None:
        y = y - zero.astype("int32").reshape(()) * sums
    return _scaled(y, added, scale, bias)


def _scaled(y: Any, added: Any, scale: Any, bias: Any) -> Any:
    y = y if added is None else y + added
    if scale is None:
        return y
    y = y.astype("float32") * scale
    return y if bias is None else y + bias
