"""Functions of tiles, element by element: those of `tilewright.ir`, for tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import functions as F
from ..ir.node import Node
from .value import Tile, apply, choose


def _lifted(function: Callable[..., Node]) -> Callable[..., Any]:
    def of_tiles(*operands: Any) -> Tile:
        return apply(function, *operands)

    of_tiles.__name__, of_tiles.__doc__ = function.__name__, function.__doc__
    return of_tiles


absolute, ceil, copysign, cos, erf, exp = (_lifted(f) for f in (F.absolute, F.ceil, F.copysign, F.cos, F.erf, F.exp))
expm1, floor, isfinite, isinf, isnan, log = (_lifted(f) for f in (F.expm1, F.floor, F.isfinite, F.isinf, F.isnan, F.log))
log1p, maximum, minimum, power, round_even, rsqrt = (_lifted(f) for f in (F.log1p, F.maximum, F.minimum, F.power, F.round_even, F.rsqrt))
sigmoid, sin, sqrt, tan, tanh, trunc = (_lifted(f) for f in (F.sigmoid, F.sin, F.sqrt, F.tan, F.tanh, F.trunc))
where = choose


def cdiv(a: int, b: int) -> int:
    """⌈a / b⌉ of two numbers: how many blocks of b elements a elements are."""
    return -(-a // b)


def clip(x: Any, low: Any, high: Any) -> Tile:
    """`x`, but at least `low` and at most `high`: of a place, what a clamped border reads."""
    found: Tile = minimum(maximum(x, low), high)
    return found
