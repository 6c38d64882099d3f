"""Hopper's products of a warpgroup as rows: wgmma, 64 × N × 32 bytes of k, by 128 threads.

Sources: PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma.mma_async (A in registers and D lie as fragments of
mma.m16n8, sixteen rows a warp), CUTLASS `mma_sm90_gmma.hpp` for the shapes. B always lies in shared memory: its parts say which thread
would hold what, and nobody holds any of it. Rates: dense peak of an H100 (4096 flop of bf16 a cycle and multiprocessor, DeepGEMM)."""

from __future__ import annotations

import functools

from ..ir.dtypes import DType, bfloat16, float8_e4m3, float8_e5m2, float16, float32, int8, int32, uint8
from .target import Target
from .tensor_rows import Parts, TensorRow, TilePart

UNIT = 128
ROWS_OF_M = 64
MOST_N = 256
_TYPES: dict[str, tuple[DType, DType, DType, str, int]] = {
    "f16": (float16, float16, float32, "16 bits", 4096),
    "bf16": (bfloat16, bfloat16, float32, "16 bits", 4096),
    "tf32": (float32, float32, float32, "tf32", 2048),
    "e4m3": (float8_e4m3, float8_e4m3, float32, "fp8 wgmma", 8192),
    "e5m2": (float8_e5m2, float8_e5m2, float32, "fp8 wgmma", 8192),
    "e4m3.e5m2": (float8_e4m3, float8_e5m2, float32, "fp8 wgmma", 8192),
    "e5m2.e4m3": (float8_e5m2, float8_e4m3, float32, "fp8 wgmma", 8192),
    "s8": (int8, int8, int32, "", 8192),
    "u8": (uint8, uint8, int32, "", 8192),
    "u8.s8": (uint8, int8, int32, "", 8192),
    "s8.u8": (int8, uint8, int32, "", 8192),
}
"""Types of A, B and C, how `tensor_step.RULES` calls the operands, and flop a cycle, by suffix."""
SUFFIXES = tuple(_TYPES)


def sizes(suffix: str) -> tuple[int, ...]:
    """The N of the instructions of a kind: multiples of 8 up to 256; of integers 8, 16, 24 and then multiples of 16."""
    every = range(8, MOST_N + 1, 8)
    return tuple(n for n in every if _TYPES[suffix][3] or n <= 24 or n % 16 == 0)


@functools.cache
def find(name: str) -> TensorRow | None:
    """The row called `wgmma.m64n128k16.bf16`, or None."""
    word, _, rest = name.partition(".")
    shape, _, suffix = rest.partition(".")
    if word != "wgmma" or suffix not in _TYPES or not shape.startswith("m64n"):
        return None
    n = shape[4:].partition("k")[0]
    row = _row(suffix, int(n)) if n.isdigit() and int(n) in sizes(suffix) else None
    return row if row is not None and row.name == name else None


def row(suffix: str, n: int) -> TensorRow:
    """The row of a kind with N columns. Raises KeyError where there is none."""
    if n not in sizes(suffix):
        raise KeyError(f"wgmma of {suffix} has no {n} columns: use one of {', '.join(map(str, sizes(suffix)))}")
    return _row(suffix, n)


def available(target: Target) -> tuple[TensorRow, ...]:
    """The rows that `target` can execute."""
    return tuple(_row(s, n) for s in SUFFIXES for n in sizes(s)) if "sm90a" in target.features else ()


@functools.cache
def _row(suffix: str, n: int) -> TensorRow:
    a, b, c, operands, flop = _TYPES[suffix]
    word = 4 // a.size
    k = 8 * word
    name = f"m64n{n}k{k}"
    m: Parts = (TilePart("m", "copy", 2, 8),)
    rows = (TilePart("m", "thread", 4, 16, 32), TilePart("m", "thread", 8, 1, 4))
    inner: Parts = (TilePart("k", "thread", 4, word, 1), *((TilePart("k", "lane", word, 1),) if word > 1 else ()))
    far = TilePart("k", "copy", 2, 4 * word)
    b_parts = (far, TilePart("n", "copy", n // 8, 8), TilePart("n", "thread", 8, 1, 4), *inner)
    c_parts = (TilePart("n", "copy", n // 8, 8), *m, *rows, TilePart("n", "thread", 4, 2, 1), TilePart("n", "lane", 2, 1))
    helper = f"wgmma_{name}_{suffix.replace('.', '_')}"
    rate = flop / (2 * ROWS_OF_M * n * k)
    return TensorRow(
        f"wgmma.{name}.{suffix}", "sm90a", UNIT, ROWS_OF_M, n, k, a, b, c, (far, *m, *rows, *inner), b_parts, c_parts, operands, rate, helper
    )  # fmt: skip
