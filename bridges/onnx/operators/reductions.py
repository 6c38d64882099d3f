"""Operators that combine the elements of axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .... import xp
from ..element_types import Array
from .table import KNOWN, OPERATORS, Call, cut, number, operator, type_of, whole_numbers


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


@operator("GlobalAveragePool")
def global_average(call: Call, x: Any) -> Any:
    """The mean of each channel."""
    return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def global_max(call: Call, x: Any) -> Any:
    """The largest of each channel."""
    return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalLpPool")
def global_lp(call: Call, x: Any, p: float = 2) -> Any:
    """The p-norm of each channel."""
    return (x.abs() ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
