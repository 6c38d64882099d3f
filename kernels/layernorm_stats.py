"""Layernorm that also stores the mean and the reciprocal standard deviation of each row (what its gradient needs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .common import FLOATS
from .definition import KernelDef, Shape
from .layernorm import build, flops, reference

if TYPE_CHECKING:
    pass


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n), weight (n), bias (n) → y (m, n), mean_out (m), rstd_out (m); the last two in the compute type."""
    return build("layernorm_stats", s, dtype, stats=True)


def nbytes(s: Shape, dtype: DType) -> int:
    """x and y once, weight and bias once, two numbers a row."""
    return int((2 * s["m"] * s["n"] + 2 * s["n"]) * dtype.size + 2 * s["m"] * dtype.compute.size)


DEF = KernelDef(
    "layernorm_stats",
    "layernorm, with mean and rstd stored",
    ("m", "n"),
    {"m": 4096, "n": 1024},
    {"m": 11, "n": 103},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
