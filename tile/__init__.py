"""Kernels in tiles: a grid of cells, blocks of arrays as tiles, loops over blocks. See docs/tiles.md."""

import sys as _sys

from .. import ir as _ir
from .tile_builder import TileBuilder
from .tile_functions import (
    absolute,
    cdiv,
    ceil,
    clip,
    copysign,
    cos,
    erf,
    exp,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    maximum,
    minimum,
    power,
    round_even,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tan,
    tanh,
    trunc,
    where,
)
from .tile_kernel import TileKernel, kernel
from .value import Tile

__all__ = [
    "Tile", "TileBuilder", "TileKernel", "absolute", "cdiv", "ceil", "clip", "copysign", "cos", "erf", "exp", "expm1", "floor", "isfinite", "isinf",
    "isnan", "kernel", "log", "log1p", "maximum", "minimum", "power", "round_even", "rsqrt", "sigmoid", "sin", "sqrt", "tan", "tanh", "trunc",
    "where",
]  # fmt: skip

_here = "tilewright.xp.tile(x, repetitions)"
_sys.modules[__name__].__class__ = _ir.errors.NoFunction
