"""What the threads of a warp do together on tensor cores: fragments become tiles, a row of the table computes them, and tiles become
fragments again; and `ldmatrix`, by which a warp reads shared memory. Many warps at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

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
    """Of `ldmatrix` with so many 32-bit words a thread and elements of `size` bytes: (which lane names the row, which element of that
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
