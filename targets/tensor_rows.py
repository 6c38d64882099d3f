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
from math import factorial, log
from typing import Any, NamedTuple

from ..ir.dtypes import FORMATS, DType, bfloat16, float8_e4m3, float8_e5m2, float16, float32, int8, int32, uint8
from .target import Target


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
    last fastest. `operands`: how `RULES` calls the type of the operands ('' for integers). `rate`: how many a
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
        """What the instruction computes on a GPU of a generation (`generation`), bit for bit: acc (..., m, n), a (..., m,
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
"""Types of A, B and C, how `RULES` calls the operands, and flop a cycle, by suffix."""
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


# tensor step ------------------------------------------------------------------------------------------------
# What the tensor cores of NVIDIA GPUs compute, bit for bit: products exact, all terms cut to a grid, summed, cut to the result.
#
# The rule is that of MMA-Sim (P. Xie, S. Xu, Y. Wang, F. Yang, M. Yang, "Bit-Accurate Modeling of GPU Matrix Multiply-Accumulate
# Units", arXiv 2511.10909; github microsoft/MMA-Sim), which its authors compared with the GPUs on random bits. So many products at a
# time are added to the accumulator. A term's exponent is the sum of its factors' exponent fields (a subnormal number has the least
# exponent of its type), and a term that is zero has an exponent of its own, far below. All terms are cut toward zero so many bits below
# the largest exponent and added without error; the sum is rounded once. An overflow gives infinity, any NaN the bits 7FFFFFFF (7FFF).
#
# Not in MMA-Sim: fp8 in `mma.sync` on Hopper and sm_100. Machine code for sm_90a and sm_100a says what it is there: F2FP.F16.E4M3.UNPACK_B
# of the lower and of the upper half of each register, and an HMMA.16816.F32 after each (`widened` in `RULES`). Not known, and chosen: a
# sum of exactly zero is +0. `exp2` is the exponential of their special function units.


class Adding(NamedTuple):
    """How one generation adds products. `terms`: products added to the accumulator at once; `fraction`: bits kept below the largest
    exponent; `zero`: the exponent of a term that is zero; `result`: 'f32' (cut toward zero), 'e8m13' (float32 cut to 13 bits of
    fraction) or 'f16' (nearest even). `widened`: 8-bit operands become float16 first, and of each four neighbours in k, which share
    a register, the first two go into the first addition and the others into the second."""

    terms: int
    fraction: int
    zero: int
    result: str
    widened: bool = False


GENERATIONS = ("ampere", "ada", "hopper", "blackwell", "rtx-blackwell")
RULES: dict[tuple[str, str], dict[str, Adding]] = {
    ("tf32", "float32"): {
        "ampere": Adding(4, 24, -132, "f32"),
        "ada": Adding(4, 24, -132, "f32"),
        "hopper": Adding(8, 25, -133, "f32"),
        "blackwell": Adding(8, 25, -133, "f32"),
        "rtx-blackwell": Adding(8, 25, -133, "f32"),
    },
    ("16 bits", "float32"): {
        "ampere": Adding(8, 24, -132, "f32"),
        "ada": Adding(8, 24, -132, "f32"),
        "hopper": Adding(16, 25, -133, "f32"),
        "blackwell": Adding(16, 25, -133, "f32"),
        "rtx-blackwell": Adding(16, 25, -133, "f32"),
    },
    ("16 bits", "float16"): {
        "ampere": Adding(8, 24, -21, "f16"),
        "ada": Adding(8, 24, -21, "f16"),
        "hopper": Adding(16, 25, -22, "f16"),
        "blackwell": Adding(16, 25, -22, "f16"),
        "rtx-blackwell": Adding(16, 25, -22, "f16"),
    },
    # wgmma keeps 13 bits of what it adds (the paper, and DeepGEMM, which adds to float32 every 128 of k)
    ("fp8 wgmma", "float32"): {"hopper": Adding(32, 13, -133, "e8m13")},
    ("fp8", "float32"): {
        "ada": Adding(16, 13, -132, "e8m13"),
        "hopper": Adding(16, 25, -133, "f32", widened=True),
        "blackwell": Adding(16, 25, -133, "f32", widened=True),
        "rtx-blackwell": Adding(32, 25, -133, "f32"),
    },
}
"""By kind of the operands and type of the accumulator, then by generation (tables 3 and 4 of the paper; `zero` from the code)."""
WIDE = -14
"""The least exponent of a widened operand's normal numbers."""

LEAST = {name: 1 - f.bias for name, f in FORMATS.items()}
"""The exponent of the least normal number of a type, which its subnormal numbers have too."""


def generation(target: Target) -> str:
    """Which rule an NVIDIA GPU follows: one of `GENERATIONS`."""
    digits = "".join(c for c in target.cpu.partition("_")[2] if c.isdigit())
    number = int(digits) if digits else 80
    if number < 90:
        return "ada" if number == 89 else "ampere"
    return "hopper" if number < 100 else "blackwell" if number < 120 else "rtx-blackwell"


def add_products(rule: Adding, acc: Any, a: Any, b: Any, types: tuple[DType, DType, DType], cut: int = 0) -> Any:
    """acc + a · b as tensor cores give it: acc (..., m, n), a (..., m, k), b (..., k, n), arrays of numbers of `types` (a's, b's,
    the accumulator's). Of float32 operands the lowest `cut` bits count as zero (tf32: 13)."""
    import numpy as np

    with np.errstate(all="ignore"):
        x, y = (np.asarray(_truncated(v, cut), np.float64) for v in (a, b))
        if rule.widened:
            order = np.argsort(np.arange(x.shape[-1]) % 4 // 2, kind="stable")
            x, y = x[..., order], y[..., order, :]
        ex, ey = (_exponents(v, WIDE if rule.widened else LEAST[t.name]) for v, t in ((x, types[0]), (y, types[1])))
        out = np.asarray(acc)
        for k in range(0, x.shape[-1], rule.terms):
            some = slice(k, k + rule.terms)
            products = x[..., :, None, some] * np.swapaxes(y[..., some, :], -1, -2)[..., None, :, :]
            fields = ex[..., :, None, some] + np.swapaxes(ey[..., some, :], -1, -2)[..., None, :, :]
            out = _added(rule, out, products, fields, types[2])
    return out


def _truncated(v: Any, bits: int) -> Any:
    import numpy as np

    return v if not bits else (np.ascontiguousarray(v, np.float32).view(np.uint32) & np.uint32(-1 << bits & 0xFFFFFFFF)).view(np.float32)


def _exponents(x: Any, least: int) -> Any:
    """Exponent fields of a type whose normal numbers begin at 2^least, as int32."""
    import numpy as np

    return np.maximum(np.frexp(x)[1] - 1, least)


def _added(rule: Adding, acc: Any, products: Any, fields: Any, dtype: DType) -> Any:
    """One addition of `rule.terms` products (..., m, n, terms) to acc (..., m, n)."""
    import numpy as np

    c = np.asarray(acc, np.float64)
    fields = np.where(products == 0, rule.zero, fields)
    own = np.where(c == 0, rule.zero, _exponents(c, LEAST[dtype.name]))
    top = np.maximum(fields.max(-1), own)
    # at most 33 terms below 4 · 2^fraction: whole numbers that a float64 adds exactly
    total = np.trunc(np.ldexp(products, (rule.fraction - top)[..., None])).sum(-1) + np.trunc(np.ldexp(c, rule.fraction - top))
    exact = np.ldexp(total + 0.0, top - rule.fraction)
    out = _rounded(exact, rule.result)
    plain = products.sum(-1) + c
    if not np.isfinite(plain).all():
        odd = np.where(np.isnan(plain), _nan(out.dtype), plain.astype(out.dtype))
        out = np.where(np.isfinite(plain), out, odd)
    return out


def _rounded(exact: Any, result: str) -> Any:
    import numpy as np

    if result == "f16":
        return exact.astype(np.float16)
    near = exact.astype(np.float32)
    beyond = (np.abs(near) > np.abs(exact)) & (np.abs(exact) < 2.0**128)
    out = np.where(beyond, np.nextafter(near, np.float32(0)), near)
    if result == "e8m13":
        # an infinity's fraction is zero already
        out = (np.ascontiguousarray(out).view(np.uint32) & np.uint32(0xFFFFFC00)).view(np.float32)
    return out


def _nan(dtype: Any) -> Any:
    import numpy as np

    return (
        np.array([0x7FFF], np.uint16).view(np.float16)[0] if dtype == np.float16 else np.array([0x7FFFFFFF], np.uint32).view(np.float32)[0]
    )


def add_integers(acc: Any, a: Any, b: Any) -> Any:
    """acc + a · b in int32, exact but for wrapping around (PTX ISA, mma without .satfinite): shapes as in `add_products`."""
    import numpy as np

    products = np.matmul(np.asarray(a, np.int64), np.asarray(b, np.int64))
    return ((np.asarray(acc, np.int64) + products + 2**31) % 2**32 - 2**31).astype(np.int32)


COEFFICIENTS = tuple(log(2.0) ** k / factorial(k) for k in range(14))
"""Of the Taylor series of 2^f, lowest power first: for |f| <= 1/2 its error is below 2^-54."""
FAR = 200.0
"""Beyond it, either way, 2^x is infinity or zero in float32."""


def exp2(x: Any) -> Any:
    """2^x of float32, rounded once, as the interpreter computes it and CUDA text on a processor does, operation by operation. NaN stays.

    A GPU's ex2.approx is within 2 ulp of the truth (PTX ISA, "Floating Point Instructions: ex2"); its bits are not documented."""
    import numpy as np

    wide = np.clip(np.asarray(x, np.float64), -FAR, FAR)
    n = np.rint(wide)
    f = wide - n
    p = np.full_like(f, COEFFICIENTS[-1])
    for c in reversed(COEFFICIENTS[:-1]):
        p = p * f + c
    with np.errstate(all="ignore"):
        out = np.ldexp(p, np.where(np.isnan(n), 0, n).astype(np.int32)).astype(np.float32)
    return np.where(np.isnan(wide), np.float32(np.nan), out)[()]
