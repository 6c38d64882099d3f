"""The matrix instructions of NVIDIA's tensor cores as data: tiles, which thread holds which element, and what they compute.

A row computes C[m, n] += A[m, k] · B[k, n] for a tile, by `unit` threads together. Each thread holds a *fragment* of each operand. How
a tile is dealt out is a list of parts of its axes, which is how LOCAL (threads) and UPCAST (copies, lanes) deal out an axis too.
Layouts: PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours. Rates: NVIDIA's A100, L40S and H100 white papers; mma.sync
reaches about 0.6 of what H100's wgmma does (W. Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture").

Rows of wgmma multiply 64 × N × 32 bytes of k by the 128 threads of a warpgroup. Sources: PTX ISA, "Register Fragments and Shared Memory
Matrix Layouts" of wgmma.mma_async (A in registers and D lie as fragments of mma.m16n8, sixteen rows a warp), CUTLASS
`mma_sm90_gmma.hpp` for the shapes. B always lies in shared memory: its parts say which thread would hold what, and no thread holds any of
it. Rates: dense peak of an H100 (4096 flop of bf16 a cycle and multiprocessor, DeepGEMM)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from ..ir.dtypes import DType, bfloat16, float8_e4m3, float8_e5m2, float16, float32, int8, int32, uint8
from .target import Target
from .tensor_step import RULES, Adding, add_integers, add_products, generation


@dataclass(frozen=True, slots=True)
class TilePart:
    """One part of an axis ('m', 'n' or 'k') of a tile: `count` places, `stride` elements of the axis apart. `kind` says what counts
    them: 'copy' and 'lane' a thread's own elements, 'thread' the threads of the unit, whose numbers are then `bits` apart."""

    axis: str
    kind: str
    count: int
    stride: int
    bits: int = 0


Parts = tuple[TilePart, ...]


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One instruction. `flag`: the target feature it needs; `unit`: threads that do it together (32: a warp, 128: a warpgroup); `m`,
    `n`, `k`: the tile; `a`, `b`, `c`: element types (float32 in `a` and `b`: tf32, whose lowest 13 bits are cut off by the tensor
    core). `a_parts` and so on: the fragments; element i of a thread's fragment counts the parts 'copy' and 'lane' in their order, the
    last fastest. `operands`: how `tensor_step.RULES` calls the type of the operands ('' for integers). `rate`: how many a
    multiprocessor of the first GPUs with the flag begins in a cycle (see `rate`). `helper`: the function that CUDA text calls."""

    name: str
    flag: str
    unit: int
    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    a_parts: Parts
    b_parts: Parts
    c_parts: Parts
    operands: str
    rate: float
    helper: str

    @property
    def rules(self) -> dict[str, Adding]:
        """How it adds, by generation; empty for integers, which add exactly."""
        return RULES.get((self.operands, self.c.name), {})

    def step(self, acc: Any, a: Any, b: Any, generation: str) -> Any:
        """What the instruction computes on a GPU of a generation (`tensor_step.generation`), bit for bit: acc (..., m, n), a (..., m,
        k), b (..., k, n), arrays of any number of tiles. Raises KeyError for a generation that lacks the row."""
        if not self.operands:
            return add_integers(acc, a, b)
        cut = 13 if self.operands == "tf32" else 0
        return add_products(self.rules[generation], acc, a, b, (self.a, self.b, self.c), cut)

    def elements(self, operand: str) -> int:
        """How many elements of 'a', 'b' or 'c' a thread holds."""
        out = 1
        for p in self.parts(operand):
            out *= 1 if p.kind == "thread" else p.count
        return out

    def parts(self, operand: str) -> Parts:
        """The parts of 'a', 'b' or 'c'."""
        return {"a": self.a_parts, "b": self.b_parts, "c": self.c_parts}[operand]

    def axes(self, operand: str) -> tuple[str, str]:
        """The axes of 'a', 'b' or 'c': rows, columns."""
        return {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}[operand]

    def extent(self, axis: str) -> int:
        """The tile's size along 'm', 'n' or 'k'."""
        return {"m": self.m, "n": self.n, "k": self.k}[axis]


def places(row: TensorRow, operand: str) -> list[list[tuple[int, int]]]:
    """Where in the tile of 'a', 'b' or 'c' each thread's elements lie: (row, column), by thread, by element."""
    parts, (first, second) = row.parts(operand), row.axes(operand)
    out = []
    for thread in range(row.unit):
        at = [(0, 0)]
        for p in parts:
            own = range(p.count) if p.kind != "thread" else (thread // p.bits % p.count,)
            step = (p.stride, 0) if p.axis == first else (0, p.stride)
            assert p.axis in (first, second)
            at = [(i + x * step[0], j + x * step[1]) for i, j in at for x in own]
        out.append(at)
    return out


# g = lane // 4 and q = lane % 4 are how the PTX ISA numbers the lanes of a fragment ("groupID", "threadID_in_group")
def _g(axis: str) -> TilePart:
    return TilePart(axis, "thread", 8, 1, 4)


def _operands(word: int) -> tuple[Parts, Parts]:
    """The parts of A and B of an m16n8 tile with `word` elements in a 32-bit register."""
    inner = (TilePart("k", "thread", 4, word, 1), *((TilePart("k", "lane", word, 1),) if word > 1 else ()))
    far = TilePart("k", "copy", 2, 4 * word)
    return (far, TilePart("m", "copy", 2, 8), _g("m"), *inner), (far, _g("n"), *inner)


_C = (TilePart("m", "copy", 2, 8), _g("m"), TilePart("n", "thread", 4, 2, 1), TilePart("n", "lane", 2, 1))


def _mma(suffix: str, flag: str, types: tuple[DType, DType, DType], operands: str, products: int) -> TensorRow:
    """A row of mma.sync m16n8; `products` are added in a cycle by a multiprocessor."""
    a, b, c = types
    word = 4 // a.size
    name = f"m16n8k{8 * word}"
    a_parts, b_parts = _operands(word)
    rate = products / (16 * 8 * 8 * word)
    helper = f"mma_{name}_{suffix.replace('.', '_')}"
    return TensorRow(f"mma.{name}.{suffix}", flag, 32, 16, 8, 8 * word, a, b, c, a_parts, b_parts, _C, operands, rate, helper)


ROWS = (
    _mma("f16", "sm80", (float16, float16, float32), "16 bits", 1024),
    _mma("bf16", "sm80", (bfloat16, bfloat16, float32), "16 bits", 1024),
    _mma("f16.f16", "sm80", (float16, float16, float16), "16 bits", 1024),
    _mma("tf32", "sm80", (float32, float32, float32), "tf32", 512),
    _mma("s8", "sm80", (int8, int8, int32), "", 2048),
    _mma("u8", "sm80", (uint8, uint8, int32), "", 2048),
    _mma("u8.s8", "sm80", (uint8, int8, int32), "", 2048),
    _mma("s8.u8", "sm80", (int8, uint8, int32), "", 2048),
    _mma("e4m3", "sm89", (float8_e4m3, float8_e4m3, float32), "fp8", 1024),
    _mma("e5m2", "sm89", (float8_e5m2, float8_e5m2, float32), "fp8", 1024),
    _mma("e4m3.e5m2", "sm89", (float8_e4m3, float8_e5m2, float32), "fp8", 1024),
    _mma("e5m2.e4m3", "sm89", (float8_e5m2, float8_e4m3, float32), "fp8", 1024),
)
BY_NAME = {r.name: r for r in ROWS}


def available(target: Target) -> tuple[TensorRow, ...]:
    """The rows that `target` can execute."""
    return tuple(r for r in ROWS if r.flag in target.features)


def kept_bits(row: TensorRow, target: Target) -> int:
    """Bits of fraction that a sum keeps from one addition to the next on `target`: 23 of float32, 10 of float16, 13 of fp8 on Ada, where
    the error of a sum is not that of its type; 0 of integers, which lose nothing. Raises KeyError for a row that the GPU lacks."""
    rules = row.rules
    return {"f32": 23, "e8m13": 13, "f16": 10}[rules[generation(target)].result] if rules else 0


_FASTER = {("ampere", "sm80"): 1.0, ("ada", "sm80"): 0.5, ("ada", "sm89"): 1.0, ("hopper", "sm80"): 1.2, ("hopper", "sm89"): 1.2}


def rate(row: TensorRow, target: Target) -> float:
    """How many a multiprocessor of `target` begins in a cycle: `row.rate`, which is that of the first GPUs with its flag, times what
    the generation brings. (Hopper's full rate is that of wgmma; a warp's instructions reach 0.6 of it.)"""
    return row.rate * _FASTER.get((generation(target), row.flag), 1.0)


WARPGROUP = 128
WGMMA_M = 64
WGMMA_MOST_N = 256
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
WGMMA_TYPES = tuple(_TYPES)


def wgmma_columns(suffix: str) -> tuple[int, ...]:
    """The N of the instructions of a kind: multiples of 8 up to 256; of integers 8, 16, 24 and then multiples of 16."""
    every = range(8, WGMMA_MOST_N + 1, 8)
    return tuple(n for n in every if _TYPES[suffix][3] or n <= 24 or n % 16 == 0)


@functools.cache
def wgmma_named(name: str) -> TensorRow | None:
    """The row called `wgmma.m64n128k16.bf16`, or None."""
    word, _, rest = name.partition(".")
    shape, _, suffix = rest.partition(".")
    if word != "wgmma" or suffix not in _TYPES or not shape.startswith("m64n"):
        return None
    n = shape[4:].partition("k")[0]
    wgmma_row = _row(suffix, int(n)) if n.isdigit() and int(n) in wgmma_columns(suffix) else None
    return wgmma_row if wgmma_row is not None and wgmma_row.name == name else None


def wgmma_row(suffix: str, n: int) -> TensorRow:
    """The row of a kind with N columns. Raises KeyError where there is none."""
    if n not in wgmma_columns(suffix):
        raise KeyError(f"wgmma of {suffix} has no {n} columns: use one of {', '.join(map(str, wgmma_columns(suffix)))}")
    return _row(suffix, n)


def wgmma_rows(target: Target) -> tuple[TensorRow, ...]:
    """The rows that `target` can execute."""
    return tuple(_row(s, n) for s in WGMMA_TYPES for n in wgmma_columns(s)) if "sm90a" in target.features else ()


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
    rate = flop / (2 * WGMMA_M * n * k)
    return TensorRow(
        f"wgmma.{name}.{suffix}", "sm90a", WARPGROUP, WGMMA_M, n, k, a, b, c, (far, *m, *rows, *inner), b_parts, c_parts, operands, rate, helper
    )  # fmt: skip
