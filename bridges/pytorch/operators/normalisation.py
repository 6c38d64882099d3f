"""Normalisation with its statistics, as PyTorch's graphs of training want them."""

from __future__ import annotations

import math
from typing import Any

from .... import xp
from ....tensor import Tensor, nn
from .table import as_result, operator, wanted, wide


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


@operator("native_layer_norm")
def layer_norm(out: Any, /, x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Rows with mean 0 and variance 1, then scaled; the means and the reciprocal deviations."""
    over = tuple(range(x.ndim - len(shape), x.ndim))
    x = wide(x.astype(wanted(out[1])))
    mean = x.mean(axis=over, keepdims=True)
    rstd = (x.var(axis=over, keepdims=True) + eps).rsqrt()
    return as_result(_scaled((x - mean) * rstd, weight, bias), out[0]), mean, rstd


@operator("native_group_norm")
def group_norm(out: Any, /, x: Tensor, weight: Any, bias: Any, n: int, channels: int, inner: int, groups: int, eps: float) -> Any:
    """The same for groups of channels."""
    rows = wide(x.astype(wanted(out[1]))).reshape((n, groups, -1))
    mean, rstd = rows.mean(axis=-1, keepdims=True), (rows.var(axis=-1, keepdims=True) + eps).rsqrt()
    by_channel = (1, channels, *(1,) * (x.ndim - 2))
    scale, shift = (None if v is None else v.reshape(by_channel) for v in (weight, bias))
    normal = ((rows - mean) * rstd).reshape(x.shape)
    return as_result(_scaled(normal, scale, shift), out[0]), mean.reshape((n, groups)), rstd.reshape((n, groups))


def _with_statistics(x: Tensor, weight: Any, bias: Any, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x = wide(x)
    mean, var = nn.batch_statistics(x)
    by_channel = (1, x.shape[1], *(1,) * (x.ndim - 2))
    rstd = (var + eps).rsqrt()
    normal = (x - mean.reshape(by_channel)) * rstd.reshape(by_channel)
    return _scaled(normal, *(None if v is None else v.reshape(by_channel) for v in (weight, bias))), mean, rstd, var


def _with_running(x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, eps: float) -> Tensor:
    x, mean, var = wide(x), wide(mean), wide(var)
    by_channel = (1, x.shape[1], *(1,) * (x.ndim - 2))
    normal = (x - mean.reshape(by_channel)) * (var.reshape(by_channel) + eps).rsqrt()
    return _scaled(normal, *(None if v is None else v.reshape(by_channel) for v in (weight, bias)))


@operator("_native_batch_norm_legit_no_training")
def batch_norm_inference(out: Any, /, x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, momentum: float, eps: float) -> Any:
    """Channels scaled by running statistics."""
    empty = xp.zeros((0,), dtype=wanted(out[1]))
    return as_result(_with_running(x, weight, bias, mean, var, eps), out[0]), empty, empty


@operator("_native_batch_norm_legit_functional")
def batch_norm(
    out: Any, /, x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, training: bool, momentum: float, eps: float
) -> Any:
    """Channels scaled by their own statistics in training; then new running statistics."""
    if not training:
        return (*batch_norm_inference(out, x, weight, bias, mean, var, momentum, eps), mean, var)
    y, m, rstd, v = _with_statistics(x, weight, bias, eps)
    count: Any = math.prod((x.shape[0], *x.shape[2:]))
    unbiased = v * count / (count - 1) if count > 1 else v
    mean, var = wide(mean), wide(var)
    return as_result(y, out[0]), m, rstd, mean * (1 - momentum) + m * momentum, var * (1 - momentum) + unbiased * momentum


@operator("_native_batch_norm_legit.no_stats")
def batch_norm_alone(out: Any, /, x: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    """Channels scaled by their own statistics."""
    y, m, rstd, _ = _with_statistics(x, weight, bias, eps)
    return as_result(y, out[0]), m, rstd
