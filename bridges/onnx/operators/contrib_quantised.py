"""Operators of `com.microsoft` on numbers with a scale, as ONNX Runtime's quantiser writes them."""

from __future__ import annotations

from functools import partial
from typing import Any

from onnx import TensorProto

from .... import xp
from ....ir.errors import UsageError
from ..element_types import NARROW_INTEGERS
from .contrib import attention, unpacked
from .quantisation import dequantize, dynamic_quantize, less_zero, qlinear_conv, qlinear_matmul, quantize, requantized
from .table import OPERATORS, Call, channels_behind, channels_first, type_of, wide
from .table import operator as _operator

operator = partial(_operator, domain="com.microsoft")
operator("QuantizeLinear")(partial(quantize, precision=TensorProto.FLOAT))
operator("DequantizeLinear")(dequantize)
operator("QLinearMatMul")(qlinear_matmul)


def real(x: Any, scale: Any, zero: Any) -> Any:
    """The numbers that integers stand for. Scales and zero points of several elements are by the last axis."""
    return less_zero(x, zero).astype("float32") * scale


def _again(call: Call, y: Any, scale: Any, zero: Any, like: int) -> Any:
    """Numbers as integers of the type of an input."""
    return requantized(y, scale.astype("float32"), zero, call.code(like))


@operator("QLinearAdd", "QLinearMul")
def qlinear_binary(
    call: Call, a: Any, scale_a: Any, zero_a: Any, b: Any, scale_b: Any, zero_b: Any, scale: Any, zero: Any = None, channels_last: int = 0
) -> Any:
    """A sum or a product, element by element. `channels_last`: how the result lies in memory."""
    a, b = real(a, scale_a, zero_a), real(b, scale_b, zero_b)
    y = a + b if call.kind == "QLinearAdd" else a * b
    if channels_last and y.ndim > 2:
        return channels_first(_again(call, channels_behind(y), scale, zero, 0))
    return _again(call, y, scale, zero, 0)


SAME_PLACE = {
    "QLinearSigmoid": "Sigmoid", "QLinearLeakyRelu": "LeakyRelu", "QLinearReduceMean": "ReduceMean", "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool", "QLinearSoftmax": "Softmax",
}  # fmt: skip
"""Operators that are another one between two conversions."""


@operator(*SAME_PLACE)
def qlinear_unary(
    call: Call, x: Any, scale_x: Any, zero_x: Any, scale: Any, zero: Any = None, channels_last: int = 0, opset: int = 13, **how: Any
) -> Any:
    """What an operator makes of the numbers, as integers again."""
    y = real(x, scale_x, zero_x)
    if channels_last:
        y = channels_first(y)
    if call.kind == "QLinearSoftmax" and opset < 13:
        axis = how.get("axis", 1) % y.ndim
        y = y.reshape((*y.shape[:axis], -1)).softmax(-1).reshape(y.shape)
    else:
        y = OPERATORS["", SAME_PLACE[call.kind]](call, y, **how)
    if channels_last:
        y = channels_behind(y)
    return _again(call, y, scale, zero, 0)


@operator("QLinearConcat")
def qlinear_concat(call: Call, scale: Any, zero: Any, *parts: Any, axis: int, channels_last: int = 0) -> Any:
    """Arrays with scales of their own, one after another. `channels_last`: how the result lies in memory."""
    numbers = [real(*parts[i : i + 3]) for i in range(0, len(parts), 3)]
    if channels_last:
        return channels_first(_again(call, xp.concat([channels_behind(x) for x in numbers], axis=-1), scale, zero, 1))
    return _again(call, xp.concat(numbers, axis=axis), scale, zero, 1)


@operator("QLinearWhere")
def qlinear_where(
    call: Call, test: Any, x: Any, scale_x: Any, zero_x: Any, y: Any, scale_y: Any, zero_y: Any, scale: Any, zero: Any
) -> Any:
    """Elements of one or the other."""
    return _again(call, xp.where(test, real(x, scale_x, zero_x), real(y, scale_y, zero_y)), scale, zero, 1)


@operator("QLinearConv")
def qlinear_conv_of_layout(call: Call, *args: Any, channels_last: int = 0, **how: Any) -> Any:
    """ONNX's own, of images whose channels may lie last."""
    if channels_last:
        raise UsageError("com.microsoft.QLinearConv with channels_last is not supported: convert the model before it is optimised")
    return qlinear_conv(call, *args, **how)


@operator("QGemm")
def qgemm(
    call: Call, a: Any, scale_a: Any, zero_a: Any, b: Any, scale_b: Any, zero_b: Any, c: Any = None, scale: Any = None, zero: Any = None,
    alpha: float = 1.0, transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    """alpha · a @ b + c, of integers, c having the scale of the product; quantised, or in float32 without a scale for it."""
    a, b = a.mT if transA else a, b.mT if transB else b
    y = less_zero(a, zero_a) @ less_zero(b, zero_b)
    y = (y if c is None else y + c).astype("float32") * (alpha * scale_a * scale_b)
    return y if scale is None else _again(call, y, scale, zero, 8 if zero is not None else 0)


@operator("MatMulIntegerToFloat")
def matmul_integer_to_float(
    call: Call, a: Any, b: Any, scale_a: Any, scale_b: Any, zero_a: Any = None, zero_b: Any = None, bias: Any = None
) -> Any:
    """A product of integer matrices as floats."""
    y = (less_zero(a, zero_a) @ less_zero(b, zero_b)).astype("float32") * (scale_a * scale_b)
    return y if bias is None else y + bias


@operator("DynamicQuantizeMatMul")
def dynamic_matmul(call: Call, a: Any, b: Any, scale_b: Any, zero_b: Any = None, bias: Any = None) -> Any:
    """A product by integers, the left operand being rounded to bytes by its own range."""
    rounded, scale_a, zero_a = dynamic_quantize(call, a)
    return matmul_integer_to_float(call, rounded, b, scale_a, scale_b, zero_a, zero_b, bias)


@operator("QAttention")
def qattention(
    call: Call, x: Any, w: Any, bias: Any, scale_x: Any, scale_w: Any, mask: Any = None, zero_x: Any = None, zero_w: Any = None,
    past: Any = None, **how: Any,
) -> Any:  # fmt: skip
    """`Attention` whose first product is of integers."""
    projected = matmul_integer_to_float(call, x, w, scale_x, scale_w, zero_x, zero_w, bias)
    return attention(call, projected, None, None, mask, past, **how)


@operator("GatherBlockQuantized")
def gather_blocks(
    call: Call, data: Any, at: Any, scales: Any, zeros: Any = None, bits: int = 4, block_size: int = 128, gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Any:  # fmt: skip
    """Rows of a table of integers with a scale a block, as floats."""
    packed = call.code(0) not in NARROW_INTEGERS
    rank = data.ndim
    gather, axis = gather_axis % rank, quantize_axis % rank
    if gather == axis or (packed and axis != rank - 1):
        raise UsageError(
            "com.microsoft.GatherBlockQuantized along its blocks, or of bytes with blocks that are not along the last axis, is not supported"
        )

    def rows(x: Any) -> Any:
        return x.take(at, axis=gather)

    spot = axis if axis < gather else axis + at.ndim - 1  # (of the blocks in the result)
    values = unpacked(rows(data), bits) if packed else rows(data)

    def spread(x: Any) -> Any:
        cut = (slice(None),) * spot + (slice(0, values.shape[spot]),)
        return wide(rows(x)).repeat(block_size, axis=spot)[cut]

    y = values.astype("float32")
    if zeros is None:
        y = y - float(2 ** (bits - 1)) if packed else y
    else:
        numbers = unpacked(zeros, bits)[..., : scales.shape[-1]] if packed else zeros
        y = y - spread(numbers.astype("float32"))
    return (y * spread(scales)).astype(type_of(scales))
