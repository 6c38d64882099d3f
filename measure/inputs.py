"""Test data: the same kernel, values of its symbols and seed always give the same inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from ..ir.errors import MeasureError
from ..ir.index import evaluate
from ..ir.node import Node
from ..targets.memory import require_room

if TYPE_CHECKING:
    import numpy as np

    from ..ir.buffer import Buffer
    from ..ir.kernel import Kernel

SMALL = 4
"""Magnitude of whole-number test data for floats: products of two are exact in every float type and sums stay far below 2²⁴."""

_REFERENCE = 16
"""Bytes of an output's element that say what is right: the value and its bound."""


def shape(buffer: Buffer, kernel: Kernel, vars: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a parameter, with the kernel's symbols replaced. Raises MeasureError where one has no value."""
    env = {}
    for s in kernel.symbols:
        if s.arg.name not in vars:
            raise MeasureError(f"kernel {kernel.name} has the symbolic extent {s.arg.name}: give it a value, vars={{'{s.arg.name}': …}}")
        env[s] = vars[s.arg.name]
    return tuple(evaluate(d, env) if isinstance(d, Node) else d for d in buffer.shape)


def generate(kernel: Kernel, vars: Mapping[str, int], seed: int, whole: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """C-contiguous arrays by parameter name: uniform over the stated range, else standard normal for floats and uniform over
    [-128, 127] or [0, 255], as far as the type holds them, for integers. With `whole`, floats are whole numbers, in [-4, 4] or of
    their range (`whole_limits`), on which sums of products are exact in any order."""
    import numpy as np

    require_operands(kernel, vars, measured=False)
    out: dict[str, np.ndarray[Any, Any]] = {}
    for position, b in enumerate(kernel.inputs):
        rng = np.random.default_rng([seed, position])
        dims = shape(b, kernel, vars)
        made: np.ndarray[Any, Any]
        if b.dtype.is_float and whole and (ends := whole_limits(b)) is not None:
            made = rng.integers(ends[0], ends[1], dims, dtype=np.int8 if b.range is None else np.int64, endpoint=True)
        elif b.dtype.is_float and b.range is not None:
            made = rng.uniform(b.range[0], b.range[1], dims)
        elif b.dtype.is_float:
            made = rng.standard_normal(dims, dtype=np.float64 if b.dtype.size == 8 else np.float32)
        elif b.dtype.kind == "b":
            made = rng.integers(0, 2, dims, dtype=np.uint8)
        else:
            lo, hi = b.whole_range or ((-128, 127) if b.dtype.kind == "i" else (0, 255))
            made = rng.integers(lo, hi, dims, dtype=b.dtype.np, endpoint=True)
        out[b.name] = inside(np.asarray(made, b.dtype.np, order="C"), b)
    return out


def require_operands(kernel: Kernel, vars: Mapping[str, int], measured: bool = True) -> None:
    """Raise NoRoom where memory cannot hold the arguments; where they are `measured`, with what that takes beside them: inputs that
    can be read only, outputs as they were when they were verified, and of each output the right values and their bounds in float64."""
    sizes = [(prod(shape(b, kernel, vars)), b) for b in kernel.buffers]
    given = {b.name for b in kernel.inputs}
    once = sum(n * b.dtype.size for n, b in sizes)
    beside = sum(n * (b.dtype.size if b.name in given else b.dtype.size + _REFERENCE) for n, b in sizes)
    about = ", ".join(f"{k}={v}" for k, v in vars.items())
    require_room(once + measured * beside, f"{'measuring ' * measured}{kernel.name}{about and f' at {about}'}")


def whole_limits(b: Buffer) -> tuple[int, int] | None:
    """The least and the largest whole number that a float input has in tests on whole numbers: those of [-4, 4] in its
    range, else the nine of it that are nearest to 0. None where its range has none."""
    if b.range is None:
        return -SMALL, SMALL
    lo, hi = math.ceil(b.range[0]), math.floor(b.range[1])
    if lo > hi:
        return None
    if lo <= SMALL and hi >= -SMALL:
        return max(lo, -SMALL), min(hi, SMALL)
    return (lo, min(hi, lo + 2 * SMALL)) if lo > 0 else (max(lo, hi - 2 * SMALL), hi)


def inside(x: np.ndarray[Any, Any], b: Buffer) -> np.ndarray[Any, Any]:
    """`x` with elements that rounding carried out of a float's stated range moved back, to one that is inside."""
    import numpy as np

    if b.range is None or not b.dtype.is_float or not x.size:
        return x
    wide = x.astype(np.float64)
    out = (wide < b.range[0]) | (wide > b.range[1])
    if out.any():
        good = x[~out]
        middle = np.float64(0.5 * b.range[0] + 0.5 * b.range[1]).astype(b.dtype.np)
        x[out] = good.reshape(-1)[0] if good.size else middle
    return x
