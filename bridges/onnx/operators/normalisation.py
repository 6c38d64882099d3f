"""Operators that bring elements to a common mean or length."""

from __future__ import annotations

from typing import Any

from .... import xp
from ....tensor import nn
from .table import Call, cut, operator, type_of, wide


@operator("BatchNormalization")
def batch_norm(
    call: Call, x: Any, weight: Any, bias: Any, mean: Any, var: Any, epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0,
    spatial: int = 1, is_test: int = 1, consumed_inputs: Any = None,
) -> Any:  # fmt: skip
    """Each channel by known or its own statistics."""
    if not training_mode:
        return nn.batch_norm(x, mean, var, weight, bias, eps=epsilon)
    own_mean, own_var = nn.batch_statistics(x)
    y = nn.batch_norm(x, own_mean, own_var, weight, bias, eps=epsilon)
    return y, mean * momentum + own_mean * (1 - momentum), var * momentum + own_var * (1 - momentum)


@operator("InstanceNormalization")
def instance_norm(call: Call, x: Any, weight: Any, bias: Any, epsilon: float = 1e-5, consumed_inputs: Any = None) -> Any:
    """Each channel of each image by its own statistics."""
    return nn.instance_norm(x, weight, bias, eps=epsilon)


@operator("GroupNormalization")
def group_norm(call: Call, x: Any, weight: Any, bias: Any, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """Groups of channels by their own statistics. (Before opset 21 scale and bias are by group.)"""
    if weight.shape[0] != x.shape[1]:
        weight, bias = (v.repeat(x.shape[1] // num_groups, axis=0) for v in (weight, bias))
    return nn.group_norm(x, num_groups, weight, bias, eps=epsilon)


@operator("LayerNormalization")
def layer_norm(call: Call, x: Any, weight: Any = None, bias: Any = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """The last axes by their own statistics."""
    over = tuple(range(axis % x.ndim, x.ndim))
    y = nn.layer_norm(x, *(v for v in (weight, bias) if v is not None), axis=over, eps=epsilon).astype(type_of(x))
    if call.wanted == 1:
        return y
    wider = wide(x)
    return y, wider.mean(axis=over, keepdims=True), (wider.var(axis=over, keepdims=True) + epsilon).rsqrt()


@operator("RMSNormalization")
def rms_norm(call: Call, x: Any, weight: Any, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """The last axes by the root of their mean square."""
    over = tuple(range(axis % x.ndim, x.ndim))
    return nn.rms_norm(x, weight, axis=over, eps=epsilon).astype(type_of(x))


@operator("MeanVarianceNormalization")
def mean_variance(call: Call, x: Any, axes: Any = (0, 2, 3)) -> Any:
    """Axes to mean 0 and variance 1."""
    over = tuple(axes)
    return (x - x.mean(axis=over, keepdims=True)) / (x.var(axis=over, keepdims=True).sqrt() + 1e-9)


@operator("LRN")
def local_response(call: Call, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """Elements by the squares of those in neighbouring channels."""
    before = (size - 1) // 2
    squares = (x * x).pad([(before, size - 1 - before) if d == 1 else (0, 0) for d in range(x.ndim)])
    total: Any = 0
    for i in range(size):
        total = total + cut(squares, 1, slice(i, i + x.shape[1]))
    return x / (total * (alpha / size) + bias) ** beta


@operator("LpNormalization")
def lp_norm(call: Call, x: Any, axis: int = -1, p: int = 2) -> Any:
    """Each vector to length 1; 0 stays."""
    length = (x * x).sum(axis=axis, keepdims=True).sqrt() if p == 2 else x.abs().sum(axis=axis, keepdims=True)
    return xp.where(length == 0, 0, x / length)
