"""Operators that combine the elements of axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .... import xp
from ....tensor import nn
from ..element_types import Array
from .table import KNOWN, OPERATORS, Call, cut, number, operator, operators, type_of, whole_numbers, wide


def _extreme(which: str, x: Any, how: dict[str, Any]) -> Any:
    """The largest or smallest; of no elements the type's own limit."""
    over = range(x.ndim) if how["axis"] is None else [a % x.ndim for a in how["axis"]]
    if type_of(x) == "bool":
        return (x.any if which == "max" else x.all)(**how)
    if all(x.shape[a] for a in over):
        return getattr(x, which)(**how)
    low = which == "max"
    info: Any = None if x.dtype.is_float else xp.iinfo(x.dtype)
    fill = (-math.inf if low else math.inf) if info is None else info.min if low else info.max
    shape = tuple(1 if d in over else n for d, n in enumerate(x.shape) if how["keepdims"] or d not in over)
    return xp.full(shape, fill, dtype=x.dtype)


REDUCTIONS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "ReduceSum": lambda x, how: x.sum(**how),
    "ReduceMean": lambda x, how: x.mean(**how),
    "ReduceProd": lambda x, how: x.prod(**how),
    "ReduceMax": lambda x, how: _extreme("max", x, how),
    "ReduceMin": lambda x, how: _extreme("min", x, how),
    "ReduceL1": lambda x, how: x.abs().sum(**how),
    "ReduceL2": lambda x, how: (x * x).sum(**how).sqrt(),
    "ReduceLogSum": lambda x, how: x.sum(**how).log(),
    "ReduceSumSquare": lambda x, how: (x * x).sum(**how),
    "ReduceLogSumExp": lambda x, how: x.logsumexp(**how) if all(x.shape) else x.exp().sum(**how).log(),
}


def _reduction(function: Callable[[Any, dict[str, Any]], Any]) -> Callable[..., Any]:
    def reduce(call: Call, x: Any, given: Array | None = None, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        over = whole_numbers(given if given is not None else axes)
        axis = tuple(over) if over else () if noop_with_empty_axes else None
        return function(x, {"axis": axis, "keepdims": bool(keepdims)}).astype(type_of(x))

    return reduce


for _name, _f in REDUCTIONS.items():
    OPERATORS["", _name] = _reduction(_f)
    KNOWN["", _name] = (1,)


def _arg(which: str) -> Callable[..., Any]:
    def arg(call: Call, x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        if not select_last_index:
            return getattr(x, which)(axis=axis, keepdims=bool(keepdims))
        return x.shape[axis] - 1 - getattr(x.flip(axis=axis), which)(axis=axis, keepdims=bool(keepdims))

    return arg


OPERATORS["", "ArgMax"], OPERATORS["", "ArgMin"] = _arg("argmax"), _arg("argmin")


def _running(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(call: Call, x: Any, axis: Array, exclusive: int = 0, reverse: int = 0) -> Any:
        at = int(number(axis)) % x.ndim
        y = function(x.flip(axis=at) if reverse else x, axis=at, include_initial=bool(exclusive), dtype=x.dtype)
        if exclusive:
            y = cut(y, at, slice(0, x.shape[at]))
        return y.flip(axis=at) if reverse else y

    return run


for _name, _g in (("CumSum", xp.cumulative_sum), ("CumProd", xp.cumulative_prod)):
    OPERATORS["", _name] = _running(_g)
    KNOWN["", _name] = (1,)


operators(
    {
        "GlobalAveragePool": lambda call, x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),
        "GlobalMaxPool": lambda call, x: x.max(axis=tuple(range(2, x.ndim)), keepdims=True),
        "GlobalLpPool": lambda call, x, p=2: (x.abs() ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p),
    }
)


# normalisation ----------------------------------------------------------------------------------------------
# Operators that bring elements to a common mean or length.


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
