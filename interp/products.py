"""wgmma in the interpreter: fragments of a warpgroup as tiles, operands out of shared memory, accumulators that nobody may touch yet.

A product is computed when it is issued: its operands are held until it has been waited for, so that nothing can change them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ..ir.errors import VerifyError
from ..program.hopper import SharedOperand, swizzled
from ..targets.tensor_rows import TensorRow, places
from .ops import Array

GENERATION = "hopper"
"""The generation of GPUs that has wgmma."""


@dataclass(slots=True)
class PendingAccumulator:
    """An accumulator with products under way: its numbers (threads, lanes), and by warpgroup the number of its last product."""

    data: Array
    last: dict[int, int]

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise VerifyError("an accumulator of wgmma is used before its products are done: wgmma_wait and wgmma_result come first")


@functools.cache
def fragment(row: TensorRow, operand: str) -> tuple[Array, Array]:
    """(row, column) in the tile of each thread's elements: arrays (threads, elements)."""
    found = np.array(places(row, operand))
    return found[..., 0], found[..., 1]


@functools.cache
def offsets(o: SharedOperand, extent: int, k: int) -> Array:
    """Bytes from the start of an operand to its elements (extent, k), before the swizzle."""
    return np.array([[o.address(x, i) for i in range(k)] for x in range(extent)])


def addresses(o: SharedOperand, start: int, extent: int, k: int) -> Array:
    """The bytes at which the elements (extent, k) of an operand that starts at byte `start` begin."""
    at = start + offsets(o, extent, k)
    out: Array = at ^ (at >> 3 & swizzle_bits())
    return out


def swizzle_bits() -> int:
    """The address bits that the swizzle of 128 bytes changes."""
    return 0x70


def box_addresses(start: int, box: tuple[int, ...], size: int, swizzle: int) -> Array:
    """The bytes at which the elements of a box begin that starts at byte `start`: an array with the innermost dimension last."""
    count = int(np.prod(box))
    at = start + np.arange(count) * size
    lowest = at // 16 * 16
    moved = np.array([swizzled(int(x), swizzle) for x in np.unique(lowest)])
    table = dict(zip(np.unique(lowest).tolist(), moved.tolist(), strict=True))
    return (np.array([table[x] for x in lowest.tolist()]) + at % 16).reshape(box[::-1])


def multiplied(row: TensorRow, acc: Array, a: Array, b: Array, add: bool, as_twin: bool) -> Array:
    """The accumulators (threads, lanes) of a warpgroup after a product: acc of that shape, a (64, k), b (n, k)."""
    i, j = fragment(row, "c")
    tile = np.zeros((row.m, row.n), acc.dtype)
    if add:
        tile[i, j] = acc
    if as_twin and row.c.is_float:
        with np.errstate(over="ignore"):
            out = tile + (a.astype(np.uint32)[:, None, :] * b.astype(np.uint32)[None, :, :]).sum(-1, dtype=np.uint32)
    else:
        out = row.step(tile, a, np.ascontiguousarray(b.T), GENERATION)
    found: Array = out[i, j]
    return found
