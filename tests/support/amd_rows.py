"""The matrix instructions of AMD's GPUs as data: which thread of a wave holds which element. No renderer writes them yet.

MFMA (gfx90a, gfx942) works with waves of 64 threads, WMMA of RDNA 3 (gfx1100) with 32. Layouts: AMD, "AMD matrix cores" (GPUOpen and
ROCm blogs, 2022), "How to accelerate AI applications on RDNA 3 using WMMA" (GPUOpen, 2023), and what AMD's Matrix Instruction
Calculator prints with --matrix-layout. Rates: AMD's white papers on CDNA 2 and CDNA 3 and the WMMA article, for whole compute units.
gfx942 multiplies 8-bit floats too, of the types e4m3fnuz and e5m2fnuz, which are not those of `ir.dtypes`: they are not listed."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.dtypes import DType, bfloat16, float16, float32, int8, int32
from tilewright.targets.tensor_rows import Parts, TilePart


@dataclass(frozen=True, slots=True)
class WaveRow:
    """One instruction. `builtin`: clang's function after `__builtin_amdgcn_`; `gpus`: what has it; `wave`: threads that do it together;
    the tile `m` × `n` × `k`, element types and fragments are those of `tensor_rows.TensorRow`. `twice`: both halves of the wave hold
    the same operands. `rate`: multiplications and additions a cycle and compute unit, on the GPUs in their order."""

    builtin: str
    gpus: tuple[str, ...]
    wave: int
    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    a_parts: Parts
    b_parts: Parts
    c_parts: Parts
    twice: bool
    rate: tuple[int, ...]


def _operand(axis: str, size: int, k: int) -> Parts:
    """Of MFMA: thread t has row (column) t mod size, and of k what follows k / (64 / size) · (t // size)."""
    share = k * size // 64
    return (TilePart(axis, "thread", size, 1, 1), TilePart("k", "thread", 64 // size, share, size), TilePart("k", "lane", share, 1))


def _mfma(builtin: str, gpus: tuple[str, ...], size: int, k: int, operand: DType, rate: tuple[int, ...]) -> WaveRow:
    """Accumulators: thread t has column t mod size; four rows follow each other, those of 32 × 32 in four blocks of 8."""
    sums = (TilePart("m", "copy", size // 8, 8), TilePart("m", "thread", 2, 4, 32)) if size == 32 else (TilePart("m", "thread", 4, 4, 16),)
    c = (*sums, TilePart("n", "thread", size, 1, 1), TilePart("m", "lane", 4, 1))
    to = int32 if operand is int8 else float32
    return WaveRow(
        f"mfma_{builtin}", gpus, 64, size, size, k, operand, operand, to, _operand("m", size, k), _operand("n", size, k), c, False, rate
    )


def _wmma(builtin: str, operand: DType) -> WaveRow:
    """Thread t has row (column) t mod 16 and all of k; of the sums column t mod 16 and every second row, from t // 16 on."""
    a, b = ((TilePart(axis, "thread", 16, 1, 1), TilePart("k", "lane", 16, 1)) for axis in "mn")
    c = (TilePart("m", "copy", 8, 2), TilePart("m", "thread", 2, 1, 16), TilePart("n", "thread", 16, 1, 1))
    to = int32 if operand is int8 else float32
    return WaveRow(f"wmma_{builtin}_w32", ("gfx1100",), 32, 16, 16, 16, operand, operand, to, a, b, c, True, (512,))


_BOTH = ("gfx90a", "gfx942")
ROWS = (
    _mfma("f32_16x16x16f16", _BOTH, 16, 16, float16, (1024, 2048)),
    _mfma("f32_32x32x8f16", _BOTH, 32, 8, float16, (1024, 2048)),
    _mfma("f32_16x16x16bf16_1k", _BOTH, 16, 16, bfloat16, (1024, 2048)),
    _mfma("f32_32x32x8bf16_1k", _BOTH, 32, 8, bfloat16, (1024, 2048)),
    _mfma("f32_16x16x4f32", _BOTH, 16, 4, float32, (256, 256)),
    _mfma("i32_16x16x16i8", ("gfx90a",), 16, 16, int8, (1024,)),
    _mfma("i32_16x16x32_i8", ("gfx942",), 16, 32, int8, (4096,)),
    _wmma("f32_16x16x16_f16", float16),
    _wmma("f32_16x16x16_bf16", bfloat16),
    _wmma("i32_16x16x16_iu8", int8),
)


def rows(cpu: str) -> tuple[WaveRow, ...]:
    """The instructions that a GPU such as gfx90a has."""
    return tuple(r for r in ROWS if cpu in r.gpus)
