"""Cases of golden bits (`golden_bits`): a kernel of whole warps for each mma and ldmatrix, with what the table says it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...interp.collective import WARP, fragments, matrix_places, tiles
from ...ir.dtypes import DType, uint16
from ...program.builder import Builder
from ...program.maps import TensorMap
from ...program.program import Mem, Phase, Val
from ...targets import Target
from ...targets.tensor_rows import TensorRow
from ...targets.tensor_step import LEAST, generation

Array = np.ndarray[Any, Any]
KINDS = ("near", "wide", "tiny", "bits")
"""Numbers near one; over many powers of two; subnormal ones; any bits (of which many are infinite or no numbers)."""
TILES = 4
"""Tiles of each kind."""


@dataclass(frozen=True, slots=True)
class BitCase:
    """One kernel of `groups` groups of `threads` threads, with `shared` bytes of shared memory. `inputs`: arrays of elements of the `types`; `want`: what the table says each thread holds in the
    end, of the last of the types. `write(builder, phase, first, map)` writes it for parameters from number `first` and tensor maps from
    number `map` on; `maps` count parameters from 0."""

    name: str
    groups: int
    types: tuple[DType, ...]
    inputs: tuple[Array, ...]
    want: Array
    write: Callable[[Builder, Phase, int, int], None]
    threads: int = WARP
    shared: int = 0
    maps: tuple[TensorMap, ...] = ()


def numbers(rng: np.random.Generator, of: DType, kind: str, shape: tuple[int, ...]) -> Array:
    """Elements of one of `KINDS`; integers are any bits in all of them."""
    if kind == "bits" or not of.is_float:
        size = 8 * of.size
        return rng.integers(0, 2**size, shape, np.uint64).astype(f"uint{size}").view(of.np)
    powers = rng.integers(-12, 8, shape) if kind == "wide" else LEAST[of.name] + 1 if kind == "tiny" else 0
    scale: Array = np.exp2(np.asarray(powers, np.float64))
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * scale * (rng.random(shape) < 0.9)).astype(of.np)


def of_row(row: TensorRow, target: Target) -> BitCase:
    """The case of an mma."""
    rng, count = np.random.default_rng(len(row.name)), TILES * len(KINDS)
    types = {"a": row.a, "b": row.b, "c": row.c}
    given = {}
    for x, t in types.items():
        shape = (TILES * WARP, row.elements(x))
        given[x] = np.concatenate([numbers(rng, t, kind, shape) for kind in KINDS])
    acc, a_tiles, b_tiles = (tiles(row, x, given[x], count * WARP) for x in "cab")
    want = fragments(row, "c", row.step(acc, a_tiles, b_tiles, generation(target)))

    def write(b: Builder, phase: Phase, first: int, map_: int) -> None:
        a, x, c = (held(b, phase, first + i, t, row.elements(o)) for i, (o, t) in enumerate(types.items()))
        hold(b, phase, first + 3, b.mma(row.name, c, a, x))

    return BitCase(row.name, count, (*types.values(), row.c), tuple(given.values()), want, write)


def number(b: Builder, phase: Phase) -> Val:
    """That of a thread among all of a case."""
    assert phase.thread is not None
    return b.op("add", b.op("mul", phase.item, b.const(phase.threads)), phase.thread)


def held(b: Builder, phase: Phase, param: int, t: DType, lanes: int) -> Val:
    """A thread's `lanes` elements of a parameter."""
    return b.load(Mem("param", param, t, 0, t.size), b.op("mul", number(b, phase), b.const(lanes)), lanes)


def hold(b: Builder, phase: Phase, param: int, v: Val) -> None:
    """They are stored."""
    b.store(Mem("param", param, v.dtype, 0, v.dtype.size), b.op("mul", number(b, phase), b.const(v.lanes)), v)


def of_ldmatrix(words: int, transposed: bool) -> BitCase:
    """Lane l names row 7·l mod 32 of 32 rows."""
    rows = np.random.default_rng(words).integers(0, 2**16, (WARP, 8), np.uint64).astype(np.uint16)
    namer, element = matrix_places(words, 2, transposed)

    def write(b: Builder, phase: Phase, first: int, map_: int) -> None:
        mem, at = Mem("shared", 0, uint16, 0, 16), b.op("mul", number(b, phase), b.const(8))
        b.store(mem, at, b.load(Mem("param", first, uint16, 0, 16), at, 8))
        b.barrier()
        named = b.op("mul", b.op("imod", b.op("mul", number(b, phase), b.const(7)), attr=WARP), b.const(8))
        hold(b, phase, first + 1, b.ldmatrix(mem, named, 2 * words, transposed))

    name = f"ldmatrix_x{words}{'_t' if transposed else ''}"
    return BitCase(name, 1, (uint16, uint16), (rows,), rows[7 * namer % WARP, element], write, shared=512)
