"""Tensor cores: `mma` (the fragments of a warp become tiles, a row of the table computes them, and tiles become fragments again),
`ldmatrix`, by which a warp reads shared memory, and the operands and products of `wgmma`. Many warps at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np

from ..ir.errors import VerifyError
from ..program.hopper import SharedOperand, swizzled
from ..program.program import Instr
from ..targets.tensor_rows import BY_NAME, TensorRow, places
from .ops import U32, Array
from .threads import On, ThreadBatch

WARP = 32


@cache
def _order(row: TensorRow, operand: str) -> tuple[Array, Array]:
    """(which of a unit's elements, thread by thread, each element of the tile is; and the other way round)."""
    columns = row.extent(row.axes(operand)[1])
    there = np.array([i * columns + j for thread in places(row, operand) for i, j in thread])
    return np.argsort(there), there


def tiles(row: TensorRow, operand: str, fragments: Any, threads: int) -> Array:
    """Fragments (threads, elements), or (elements,) where all threads hold the same, as tiles (units, rows, columns)."""
    every = np.broadcast_to(fragments, (threads, row.elements(operand))).reshape(threads // row.unit, -1)
    found: Array = every[:, _order(row, operand)[0]]
    return found.reshape(-1, *(row.extent(axis) for axis in row.axes(operand)))


def fragments(row: TensorRow, operand: str, tiles: Array) -> Array:
    """Tiles as what each thread holds of them: (threads, elements)."""
    found: Array = tiles.reshape(len(tiles), -1)[:, _order(row, operand)[1]]
    return found.reshape(-1, row.elements(operand))


def multiplier(s: Instr, as_twin: bool, generation: str) -> Callable[[ThreadBatch, On, Any, Any, Any], Array]:
    """The function (batch, on, acc, a, b) of an mma; the twin of floats adds the products mod 2³²."""
    row = BY_NAME[str(s.attr)]

    def step(acc: Array, a: Array, b: Array) -> Array:
        if as_twin and row.c.is_float:
            return np.asarray(acc + np.matmul(a.astype(U32), b.astype(U32)))
        return np.asarray(row.step(acc, a, b, generation))

    def run(batch: ThreadBatch, on: On, acc: Any, a: Any, b: Any) -> Array:
        warps = batch.whole(on, s, row.unit)
        given = [tiles(row, operand, x, batch.count) for operand, x in (("c", acc), ("a", a), ("b", b))]
        if warps is None:
            return fragments(row, "c", step(*given))
        # who does not take part keeps what it has
        out = given[0].copy()
        out[warps] = step(*(x[warps] for x in given))
        return fragments(row, "c", out)

    return run


def matrix_places(words: int, size: int, transposed: bool) -> tuple[Array, Array]:
    """For `ldmatrix` with so many 32-bit words a thread and elements of `size` bytes: (which lane names the row, which element of that
    row) each lane gets, both (32, elements)."""
    lane, word = np.arange(WARP)[:, None, None], np.arange(words)[None, :, None]
    each = np.arange(4 // size)[None, None, :]
    if transposed:
        row, element = 8 * word + 2 * (lane % 4) + each, lane // 4 + 0 * each
    else:
        row, element = 8 * word + lane // 4, lane % 4 * (4 // size) + each
    full = np.broadcast_shapes(row.shape, element.shape, (WARP, words, 4 // size))
    flat = (np.broadcast_to(x, full).reshape(WARP, -1) for x in (row, element))
    return next(flat), next(flat)


@dataclass(slots=True)
class MatrixRows:
    """What one `ldmatrix` reads, an entry an element: the `element` itself, the `first` of its row, the lane that names the row (`namer`)
    and the one that gets it (`getter`). `shape` is that of the result, of which the warps `units` get something."""

    element: Array
    first: Array
    namer: Array
    getter: Array
    units: Array
    shape: tuple[int, ...]

    def dealt(self, found: Array) -> Array:
        """The elements as what each thread gets: (threads, elements), or (threads,) where that is one; zero outside of the warps."""
        out = np.zeros((self.shape[0] // WARP, found.size // (len(self.units) or 1)), found.dtype)
        out[self.units] = found.reshape(len(self.units), -1)
        return out.reshape(self.shape)


def matrix_reader(s: Instr, lanes: int) -> Callable[[ThreadBatch, On, Any], MatrixRows]:
    """The function (batch, on, index) → MatrixRows of an `ldmatrix` or `ldmatrix_t` that gives so many elements."""
    mem = s.mem
    names, places = matrix_places(lanes * mem.dtype.size // 4, mem.dtype.size, s.op == "ldmatrix_t")

    def find(batch: ThreadBatch, on: On, at: Any) -> MatrixRows:
        warps = batch.whole(on, s, WARP)
        units = np.arange(batch.count // WARP) if warps is None else np.flatnonzero(warps)
        namer = (units[:, None, None] * WARP + names).reshape(-1)
        first = np.broadcast_to(np.asarray(at) + mem.offset, batch.count)[namer]
        element = first + np.broadcast_to(places, (len(units), *places.shape)).reshape(-1)
        getter = np.repeat(units[:, None] * WARP + np.arange(WARP), lanes)
        return MatrixRows(element, first, namer, getter, units, (batch.count, lanes) if lanes > 1 else (batch.count,))

    return find


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
