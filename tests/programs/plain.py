"""Functions that tensors have and NumPy lacks, in plain NumPy: what a program's NumPy text may call beside `np`. Files of found
faults hold the text of those that they use."""

from __future__ import annotations

from typing import Any

import numpy as np


def total(x: Any, axis: Any, keepdims: bool = False) -> Any:
    """A sum; of narrow integers in 64 bits, as the array API has it."""
    kind = x.dtype if x.dtype.kind == "f" else np.uint64 if x.dtype.kind == "u" else np.int64
    return np.add.reduce(x, axis=axis, keepdims=keepdims, dtype=kind)


def product(x: Any, axis: Any, keepdims: bool = False) -> Any:
    kind = x.dtype if x.dtype.kind == "f" else np.uint64 if x.dtype.kind == "u" else np.int64
    return np.multiply.reduce(x, axis=axis, keepdims=keepdims, dtype=kind)


def running(x: Any, axis: int) -> Any:
    kind = x.dtype if x.dtype.kind == "f" else np.uint64 if x.dtype.kind == "u" else np.int64
    return np.add.accumulate(x, axis=axis, dtype=kind)


def top(x: Any, axis: Any, keepdims: bool = False) -> Any:
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims)


def bottom(x: Any, axis: Any, keepdims: bool = False) -> Any:
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims)


def some(x: Any, axis: Any) -> Any:
    return np.logical_or.reduce(x, axis=axis)


def every(x: Any, axis: Any) -> Any:
    return np.logical_and.reduce(x, axis=axis)


def count(x: Any, axis: Any) -> int:
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return int(np.prod([x.shape[a] for a in axes], dtype=np.int64))


def mean(x: Any, axis: Any, keepdims: bool = False) -> Any:
    return total(x, axis, keepdims) / count(x, axis)


def var(x: Any, axis: Any, keepdims: bool = False) -> Any:
    apart = x - mean(x, axis, True)
    return total(apart * apart, axis, keepdims) / count(x, axis)


def std(x: Any, axis: Any, keepdims: bool = False) -> Any:
    return np.sqrt(var(x, axis, keepdims))


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - top(x, axis, True))
    return e / total(e, axis, True)


def logsumexp(x: Any, axis: Any, keepdims: bool = False) -> Any:
    most = top(x, axis, True)
    safe = np.where(np.isfinite(most), most, 0.0 * np.zeros_like(most))
    found = np.log(total(np.exp(x - safe), axis, True)) + safe
    return found if keepdims else found.reshape(top(x, axis).shape)


def log_softmax(x: Any, axis: int) -> Any:
    apart = x - top(x, axis, True)
    return apart - np.log(total(np.exp(apart), axis, True))


def layer_norm(x: Any, eps: float = 1e-5) -> Any:
    return (x - mean(x, -1, True)) / np.sqrt(var(x, -1, True) + eps)


def rms_norm(x: Any, eps: float = 1e-6) -> Any:
    return x / np.sqrt(mean(x * x, -1, True) + eps)


def power(x: Any, k: Any) -> Any:
    """C's powers: NumPy takes a root where a single number is 0.5, whose value at −inf is another."""
    return np.power(x, np.broadcast_to(k, x.shape) * np.ones(x.shape))


def floor_divided(x: Any, k: Any) -> Any:
    """The array API's: an infinity stays one (NumPy says NaN)."""
    return np.where(np.isinf(x) & np.isfinite(k), x / k, np.floor_divide(x, k))


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def silu(x: Any) -> Any:
    return x / (1.0 + np.exp(-x))


def put(x: Any, key: Any, value: Any) -> Any:
    """`x[key] = value` on a copy."""
    found = x.copy()
    found[key] = value
    return found


def add_at(x: Any, axis: int, index: Any, values: Any) -> Any:
    """`x` after adding to places along an axis."""
    found = np.moveaxis(x.copy(), axis, 0)
    np.add.at(found, index, np.moveaxis(values, axis, 0))
    return np.moveaxis(found, 0, axis)


def one_hot(x: Any, classes: int) -> Any:
    return (x[..., None] == np.arange(classes)).astype(np.float64)


def cross_entropy(x: Any, labels: Any) -> Any:
    return -mean(np.take_along_axis(log_softmax(x, 1), labels[:, None], axis=1), None)


def conv(x: Any, w: Any, stride: int = 1, padding: int = 0, dilation: int = 1) -> Any:
    """x (batch, in, width) and w (out, in, taps), one dimension of space."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding)))
    reach = (w.shape[2] - 1) * dilation
    if x.shape[2] <= reach:
        raise ValueError("no window fits")
    places = range(0, x.shape[2] - reach, stride)
    seen = np.stack([x[:, :, p : p + reach + 1 : dilation] for p in places], axis=2)
    return np.einsum("bipt,oit->bop", seen, w)


def conv_transpose(x: Any, w: Any, stride: int = 1) -> Any:
    """x (batch, in, width) and w (in, out, taps): windows over an array with zeros between its elements and around it."""
    apart = np.stack([x, *([np.zeros_like(x)] * (stride - 1))], axis=3).reshape(*x.shape[:2], -1)
    wide = apart[:, :, : (x.shape[2] - 1) * stride + 1]
    return conv(wide, np.swapaxes(w, 0, 1)[:, :, ::-1], 1, w.shape[2] - 1)


def pool(x: Any, size: int, stride: int, how: str) -> Any:
    """x (batch, channels, width)."""
    seen = np.stack([x[:, :, p : p + size] for p in range(0, x.shape[2] - size + 1, stride)], axis=2)
    return top(seen, -1) if how == "max" else mean(seen, -1)
