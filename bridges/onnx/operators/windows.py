"""Convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import xp
from ....tensor import Tensor, nn
from ....tensor.ops.convolution import layout, windows
from ..element_types import Array
from .indexing import put
from .table import Call, along, by_channel, channels_behind, channels_first, cut, elements, operator, whole_numbers, wide

Pads = tuple[tuple[int, int], ...]


def frame(
    x: Any, kernel: Sequence[int], strides: Any, dilations: Any, pads: Any, auto_pad: str, ceil: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...], Pads, Pads]:
    """(stride, dilation, padding, padding without what `ceil` adds at the end) of windows over the last axes."""
    n = len(kernel)
    stride, dilation, given = tuple(strides or (1,) * n), tuple(dilations or (1,) * n), list(pads or (0,) * 2 * n)
    whole, real = [], []
    for i, size in enumerate(x.shape[-n:]):
        reach = dilation[i] * (kernel[i] - 1) + 1
        if auto_pad.startswith("SAME"):
            total = max((-(-size // stride[i]) - 1) * stride[i] + reach - size, 0)
            before, after = (total // 2, total - total // 2) if auto_pad == "SAME_UPPER" else (total - total // 2, total // 2)
        else:
            before, after = (0, 0) if auto_pad == "VALID" else (given[i], given[i + n])
        real.append((before, after))
        if ceil:
            count = -(-(size + before + after - reach) // stride[i]) + 1
            count -= (count - 1) * stride[i] >= size + before
            after = max(after, (count - 1) * stride[i] + reach - size - before)
        whole.append((before, after))
    return stride, dilation, tuple(whole), tuple(real)


def seen(x: Any, kernel: Sequence[int], stride: Any, dilation: Any, pads: Any, fill: float = 0) -> Any:
    """The elements of each window along one more axis: a view."""
    n = len(kernel)
    lead = x.ndim - n
    padded = x.pad([(0, 0)] * lead + list(pads), fill) if any(p != (0, 0) for p in pads) else x
    made: Any = windows(padded.node, layout("window", padded.shape[lead:], tuple(kernel), tuple(stride), tuple(dilation), 0))
    return Tensor.of(made).reshape((*made.shape[: lead + n], elements(kernel)))


@operator("Conv")
def conv(
    call: Call, x: Any, w: Any, b: Any = None, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None,
    pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """A convolution of one to three dimensions."""
    stride, dilation, padding, _ = frame(x, w.shape[2:], strides, dilations, pads, auto_pad)
    return nn.conv(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=group)


@operator("ConvTranspose")
def conv_transpose(
    call: Call, x: Any, w: Any, b: Any = None, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None,
    output_padding: Any = None, output_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """The transpose of a convolution."""
    n = w.ndim - 2
    stride, dilation = tuple(strides or (1,) * n), tuple(dilations or (1,) * n)
    more, p = list(output_padding or (0,) * n), list(pads or (0,) * 2 * n)
    same = auto_pad.startswith("SAME")
    pairs = []
    for i in range(n):
        full = (x.shape[2 + i] - 1) * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1
        if output_shape or same:
            want = output_shape[-n + i] if output_shape else x.shape[2 + i] * stride[i]
            total = max(full + more[i] - want, 0)  # (as ONNX Runtime: what lacks comes behind)
            before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        else:
            before, want = p[i], full + more[i] - p[i] - p[i + n]
        pairs.append((before, want - (full - before)))  # cut before, and what comes behind
    common = [max(0, before) for before, _ in pairs]
    common = [
        c if after >= -c and 0 <= c + after < max(stride[i], dilation[i]) else 0 for i, (c, (_, after)) in enumerate(zip(common, pairs))
    ]
    y = nn.conv_transpose(
        x, w, b, stride=stride, dilation=dilation, groups=group, padding=tuple(common),
        output_padding=tuple(c + after if c else 0 for c, (_, after) in zip(common, pairs)),
    )  # fmt: skip
    for i, (c, (before, after)) in enumerate(zip(common, pairs)):
        if not c:
            y = _framed(y, 2 + i, before, after, b)
    return y


def _framed(y: Any, axis: int, before: int, after: int, bias: Any) -> Any:
    """Elements cut at the start and added or cut at the end of an axis; what is added is the bias."""
    y = cut(y, axis, slice(max(before, 0), y.shape[axis] + min(after, 0)))
    if before >= 0 and after <= 0:
        return y
    widths = [(max(-before, 0), max(after, 0)) if d == axis else (0, 0) for d in range(y.ndim)]
    if bias is None:
        return y.pad(widths)
    return (y - by_channel(bias, y.ndim)).pad(widths) + by_channel(bias, y.ndim)


@operator("DeformConv")
def deform_conv(
    call: Call, x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, dilations: Any = None, group: int = 1, kernel_shape: Any = None,
    offset_group: int = 1, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """A convolution of two dimensions whose places are moved by offsets; between places it takes the means of neighbours."""
    kernel = w.shape[2:]
    stride, dilation, padding, _ = frame(x, kernel, strides, dilations, pads, "NOTSET")
    batch, channels, *sizes = x.shape
    outs, taps, groups = offset.shape[2:], elements(kernel), offset_group
    moved = offset.reshape((batch, groups, *kernel, 2, *outs))
    places = []
    for d in range(2):
        base = along(outs[d], 4, 2 + d) * stride[d] - padding[d][0] + along(kernel[d], 4, d) * dilation[d]
        places.append(cut(moved, 4, d) + base)
    total: Any = 0
    inner = channels // groups
    values = x.reshape((batch, groups, inner, *sizes))
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight: Any = 1
        inside: Any = None
        key: list[Any] = [along(batch, 6, 0), along(groups, 6, 1)]
        for d in range(2):
            low = places[d].floor()
            at = low + corner[d]
            weight = weight * (1 - xp.abs(places[d] - at))
            ok = (at >= 0) & (at <= sizes[d] - 1)
            inside = ok if inside is None else inside & ok
            key.append(at.clip(0, sizes[d] - 1).astype("int64"))
        found = values.permute((0, 1, 3, 4, 2))[tuple(key)]  # (batch, groups, kernel, outs, inner)
        total = total + xp.where(inside, weight, 0).unsqueeze(-1) * found
    if mask is not None:
        total = total * mask.reshape((batch, groups, *kernel, *outs)).unsqueeze(-1)
    columns = total.permute((0, 1, 6, 2, 3, 4, 5)).reshape((batch, group, channels // group * taps, elements(outs)))
    y = (w.reshape((group, w.shape[0] // group, -1)) @ columns).reshape((batch, w.shape[0], *outs))
    return y if b is None else y + by_channel(b, y.ndim)


@operator("MaxPool")
def max_pool(
    call: Call, x: Any, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, pads: Any = None,
    storage_order: int = 0, strides: Any = None, channels_last: int = 0,
) -> Any:  # fmt: skip
    """The largest of each window, and where it is. `channels_last`: how the result lies in memory."""
    kernel = tuple(kernel_shape)
    n = len(kernel)
    stride, dilation, padding, _ = frame(x, kernel, strides, dilations, pads, auto_pad, bool(ceil_mode))
    if channels_last and call.wanted == 1:
        options = {"stride": (*stride, 1), "padding": (*padding, (0, 0)), "dilation": (*dilation, 1)}
        return channels_first(nn.max_pool(channels_behind(x), (*kernel, 1), **options))
    y = nn.max_pool(x, kernel, stride=stride, padding=padding, dilation=dilation)
    if call.wanted == 1:
        return y
    low = -math.inf if x.dtype.is_float else xp.iinfo(x.dtype).min
    best = seen(x, kernel, stride, dilation, padding, low).argmax(axis=-1)
    lead, sizes = x.shape[:-n], x.shape[-n:]
    place = xp.arange(elements(lead)).reshape((*lead, *(1,) * n)) * elements(sizes)
    for i in range(n):
        step = elements(sizes[:i]) if storage_order else elements(sizes[i + 1 :])
        inside = best // elements(kernel[i + 1 :]) % kernel[i] * dilation[i]
        place = place + (along(y.shape[2 + i], y.ndim, 2 + i) * stride[i] + inside - padding[i][0]) * step
    return y, place


@operator("AveragePool")
def average_pool(
    call: Call, x: Any, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0, dilations: Any = None,
    pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """The mean of each window."""
    kernel = tuple(kernel_shape)
    stride, dilation, padding, real = frame(x, kernel, strides, dilations, pads, auto_pad, bool(ceil_mode))
    if set(dilation) == {1} and (padding == real or not count_include_pad):
        return nn.avg_pool(x, kernel, stride=stride, padding=padding, count_padding=bool(count_include_pad))
    lead, none = [(0, 0)] * (x.ndim - len(kernel)), [(0, 0)] * len(kernel)
    ones = xp.ones(x.shape, dtype=x.dtype).pad(lead + list(real), 1 if count_include_pad else 0)
    ones = ones.pad(lead + [(0, b - r) for (_, b), (_, r) in zip(padding, real)])
    total = seen(x, kernel, stride, dilation, padding).sum(axis=-1)
    return total / seen(ones, kernel, stride, dilation, none).sum(axis=-1)


@operator("LpPool")
def lp_pool(
    call: Call, x: Any, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, p: float = 2, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    """The p-norm of each window."""
    stride, dilation, padding, _ = frame(x, kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    return (seen(wide(x).abs() ** p, kernel_shape, stride, dilation, padding).sum(axis=-1)) ** (1 / p)


@operator("MaxUnpool", known=(2,))
def max_unpool(
    call: Call, x: Any, places: Any, shape: Array | None = None, kernel_shape: Any = None, pads: Any = None, strides: Any = None
) -> Any:
    """Each element at its place, zeros elsewhere."""
    n = len(kernel_shape)
    stride, p = strides or [1] * n, pads or [0] * 2 * n
    size = (*x.shape[:2], *((x.shape[2 + d] - 1) * stride[d] - p[d] - p[d + n] + kernel_shape[d] for d in range(n)))
    y = put(xp.zeros((elements(size),), dtype=x.dtype), (places.reshape((-1,)),), x.reshape((-1,))).reshape(size)
    return y if shape is None else y.pad([(0, b - a) for a, b in zip(size, whole_numbers(shape) or ())])


@operator("Col2Im", known=(1, 2))
def col2im(call: Call, x: Any, image: Array, block: Array, dilations: Any = None, pads: Any = None, strides: Any = None) -> Any:
    """Windows added where they come from."""
    sizes, kernel = whole_numbers(image) or [], whole_numbers(block) or []
    n = len(sizes)
    stride, dilation, p = strides or [1] * n, dilations or [1] * n, pads or [0] * 2 * n
    outs = [(sizes[i] + p[i] + p[i + n] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(n)]
    x = x.reshape((x.shape[0], -1, *kernel, *outs))
    key = [along(x.shape[0], 2 * n + 2, 0), along(x.shape[1], 2 * n + 2, 1)]
    key += [along(kernel[i], 2 * n, i) * dilation[i] + along(outs[i], 2 * n, n + i) * stride[i] for i in range(n)]
    y = xp.zeros((*x.shape[:2], *(sizes[i] + p[i] + p[i + n] for i in range(n))), dtype=x.dtype).index_put(tuple(key), x)
    return y[(slice(None), slice(None), *(slice(p[i], p[i] + sizes[i]) for i in range(n)))]


@operator("CausalConvWithState")
def causal_conv(call: Call, x: Any, w: Any, b: Any = None, state: Any = None, activation: str = "none") -> Any:
    """A convolution of each channel that looks back only; what it looks back at next time is the second result."""
    reach = w.shape[-1] - 1
    whole = x.pad([(0, 0), (0, 0), (reach, 0)]) if state is None else xp.concat([state, x], axis=-1)
    y = nn.conv(whole, w, b, groups=x.shape[1])
    y = y.silu() if activation in ("silu", "swish") else y
    return y, cut(whole, -1, slice(whole.shape[-1] - reach, None))
