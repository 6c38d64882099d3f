"""Operators that reduce axes, or scan them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .... import xp
from ....tensor import Tensor, nn
from ....tensor.ops.reduction import cumulative_max, cumulative_min
from .elementwise import truth
from .table import as_result, axes, of_floats, operator, operators, refuse, wanted, wide


@operator("sum", "sum.dim_IntList")
def sum(out: Any, /, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sums."""
    return as_result(x, out).sum(axis=axes(x, dim), keepdims=keepdim)


@operator("mean", "mean.dim")
def mean(out: Any, /, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Means."""
    return as_result(x, out).mean(axis=axes(x, dim), keepdims=keepdim)


@operator("prod", "prod.dim_int")
def prod(out: Any, /, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Products."""
    return as_result(x, out).prod(axis=axes(x, dim), keepdims=keepdim)


@operator("any", "any.dim", "any.dims")
def any_(out: Any, /, x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether one is true."""
    return as_result(truth(x).any(axis=axes(x, dim), keepdims=keepdim), out)


@operator("all", "all.dim", "all.dims")
def all_(out: Any, /, x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether all are true."""
    return as_result(truth(x).all(axis=axes(x, dim), keepdims=keepdim), out)


@operator("amax")
def amax(out: Any, /, x: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    """Maxima."""
    return x.max(axis=axes(x, dim), keepdims=keepdim)


@operator("amin")
def amin(out: Any, /, x: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    """Minima."""
    return x.min(axis=axes(x, dim), keepdims=keepdim)


operators(
    {
        "max": lambda out, /, x: x.max(),
        "min": lambda out, /, x: x.min(),
        "argmax": lambda out, /, x, dim=None, keepdim=False: (
            x.argmax(axis=dim, keepdims=keepdim) if x.ndim else xp.zeros((), dtype="int64")
        ),
        "argmin": lambda out, /, x, dim=None, keepdim=False: (
            x.argmin(axis=dim, keepdims=keepdim) if x.ndim else xp.zeros((), dtype="int64")
        ),
        "logsumexp": lambda out, /, x, dim, keepdim=False: as_result(x, out).logsumexp(axis=axes(x, dim), keepdims=keepdim),
        "cumsum": lambda out, /, x, dim, *, dtype=None: as_result(x, out).cumsum(dim) if x.ndim else as_result(x, out),
        "cumprod": lambda out, /, x, dim, *, dtype=None: as_result(x, out).cumprod(dim) if x.ndim else as_result(x, out),
        "cummax": lambda out, /, x, dim: _extremes_so_far(x, dim, cumulative_max),
        "cummin": lambda out, /, x, dim: _extremes_so_far(x, dim, cumulative_min),
    }
)


@operator("max.dim")
def max_dim(out: Any, /, x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """Maxima and their places."""
    if not x.ndim:
        return x, xp.zeros((), dtype="int64")
    return x.max(axis=dim, keepdims=keepdim), x.argmax(axis=dim, keepdims=keepdim)


@operator("min.dim")
def min_dim(out: Any, /, x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """Minima and their places."""
    if not x.ndim:
        return x, xp.zeros((), dtype="int64")
    return x.min(axis=dim, keepdims=keepdim), x.argmin(axis=dim, keepdims=keepdim)


def _correction(correction: Any) -> float:
    return 1.0 if correction is None else float(correction)


@operator("var.correction")
def var(out: Any, /, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Variances."""
    return x.var(axis=axes(x, dim), correction=_correction(correction), keepdims=keepdim)


@operator("std.correction")
def std(out: Any, /, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Standard deviations."""
    return var(out, x, dim, correction=correction, keepdim=keepdim).sqrt()


@operator("var_mean.correction")
def var_mean(out: Any, /, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Variances and means."""
    return var(out, x, dim, correction=correction, keepdim=keepdim), x.mean(axis=axes(x, dim), keepdims=keepdim)


@operator("linalg_vector_norm")
def vector_norm(out: Any, /, x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norms of vectors."""
    x, kept = as_result(x, out), {"axis": axes(x, dim), "keepdims": keepdim}
    if ord == 2:
        return (x * x).sum(**kept).sqrt()
    if ord == 1:
        return x.abs().sum(**kept)
    if abs(ord) == math.inf:
        return x.abs().max(**kept) if ord > 0 else x.abs().min(**kept)
    if ord == 0:
        return as_result((x != 0).sum(**kept), out)
    return (x.abs() ** ord).sum(**kept) ** (1.0 / ord)


def _extremes_so_far(x: Tensor, dim: int, running: Callable[..., Any]) -> Any:
    """Running extremes, and the last place of each. (What is no number is an extreme from there on.)"""
    if not x.ndim or x.dtype.name == "bool":
        refuse("a scan of truth values, or without dimensions")
    found, along = Tensor.of(running(x.node, axis=dim % x.ndim)), [1] * x.ndim
    along[dim] = x.shape[dim]
    places = xp.arange(x.shape[dim], dtype="int64").reshape(tuple(along))
    last = xp.where((x == found) | (x != x), places, 0)
    return found, Tensor.of(cumulative_max(last.node, axis=dim % x.ndim))


@operator("_softmax")
def softmax(out: Any, /, x: Tensor, dim: int, half_to_float: bool) -> Any:
    """Exponentials over their sum."""
    return as_result(of_floats(x), out).softmax(dim) if x.ndim else xp.ones((), dtype=wanted(out))


@operator("_log_softmax")
def log_softmax(out: Any, /, x: Tensor, dim: int, half_to_float: bool) -> Any:
    """The logarithm of softmax."""
    return as_result(of_floats(x), out).log_softmax(dim) if x.ndim else xp.zeros((), dtype=wanted(out))


@operator("_softmax_backward_data")
def softmax_backward(out: Any, /, grad: Tensor, y: Tensor, dim: int, input_dtype: Any) -> Any:
    """The gradient of softmax by its result."""
    return as_result(grad * y - y * (grad * y).sum(axis=dim, keepdims=True), out) if y.ndim else xp.zeros((), dtype=wanted(out))


@operator("_log_softmax_backward_data")
def log_softmax_backward(out: Any, /, grad: Tensor, y: Tensor, dim: int, input_dtype: Any) -> Any:
    """The gradient of log_softmax by its result."""
    return as_result(grad - y.exp() * grad.sum(axis=dim, keepdims=True), out) if y.ndim else xp.zeros((), dtype=wanted(out))


# normalisation ----------------------------------------------------------------------------------------------
# Normalisation with its statistics, as PyTorch's graphs of training want them.


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
