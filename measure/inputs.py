"""Test data: the same kernel, values of its symbols and seed always give the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ir.errors import MeasureError
from ..ir.index import evaluate
from ..ir.node import Node

if TYPE_CHECKING:
    import numpy as np

    from ..ir.buffer import Buffer
    from ..ir.kernel import Kernel

SMALL = 4
"""Magnitude of whole-number test data for floats: products of two are exact in every float type and sums stay far below 2²⁴."""


def shape(buffer: Buffer, kernel: Kernel, vars: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a parameter, with the kernel's symbols replaced. Raises MeasureError where one has no value."""
    env = {}
    for s in kernel.symbols:
        if s.arg.name not in vars:
            raise MeasureError(f"kernel {kernel.name} has the symbolic extent {s.arg.name}: give it a value, vars={{'{s.arg.name}': …}}")
        env[s] = vars[s.arg.name]
    return tuple(evaluate(d, env) if isinstance(d, Node) else d for d in buffer.shape)


def generate(kernel: Kernel, vars: Mapping[str, int], seed: int, whole: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """C-contiguous arrays by parameter name: standard normal for floats, uniform over the stated range for integers (over
    [-128, 127] or [0, 255], as far as the type holds them, where none is stated). With `whole`, floats are whole numbers in
    [-4, 4], on which sums of products are exact in any order."""
    import numpy as np

    out: dict[str, np.ndarray[Any, Any]] = {}
    for position, b in enumerate(kernel.inputs):
        rng = np.random.default_rng([seed, position])
        dims = shape(b, kernel, vars)
        made: np.ndarray[Any, Any]
        if b.dtype.is_float and whole:
            made = rng.integers(-SMALL, SMALL, dims, dtype=np.int8, endpoint=True)
        elif b.dtype.is_float:
            made = rng.standard_normal(dims, dtype=np.float64 if b.dtype.size == 8 else np.float32)
        elif b.dtype.kind == "b":
            made = rng.integers(0, 2, dims, dtype=np.uint8)
        else:
            lo, hi = b.range or ((-128, 127) if b.dtype.kind == "i" else (0, 255))
            made = rng.integers(lo, hi, dims, dtype=b.dtype.np, endpoint=True)
        out[b.name] = np.asarray(made, b.dtype.np, order="C")
    return out
