"""What the tensor cores of NVIDIA GPUs compute, bit for bit: products exact, all terms cut to a grid, summed, cut to the result.

The rule is that of MMA-Sim (P. Xie, S. Xu, Y. Wang, F. Yang, M. Yang, "Bit-Accurate Modeling of GPU Matrix Multiply-Accumulate
Units", arXiv 2511.10909; github microsoft/MMA-Sim), which its authors compared with the GPUs on random bits. So many products at a
time are added to the accumulator. A term's exponent is the sum of its factors' exponent fields (a subnormal number has the least
exponent of its type), and a term that is zero has an exponent of its own, far below. All terms are cut toward zero so many bits below
the largest exponent and added without error; the sum is rounded once. An overflow gives infinity, any NaN the bits 7FFFFFFF (7FFF).

Not in MMA-Sim: fp8 in `mma.sync` on Hopper and sm_100. Machine code for sm_90a and sm_100a says what it is there: F2FP.F16.E4M3.UNPACK_B
of the lower and of the upper half of each register, and an HMMA.16816.F32 after each (`widened` in `RULES`). Not known, and chosen: a
sum of exactly zero is +0. `exp2` is the exponential of their special function units."""

from __future__ import annotations

from math import factorial, log
from typing import Any, NamedTuple

from ..ir.dtypes import DType
from .target import Target


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

LEAST = {"float32": -126, "bfloat16": -126, "float16": -14, "float8_e5m2": -14, "float8_e4m3": -6}
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
        x, y = (np.asarray(_cut(v, cut), np.float64) for v in (a, b))
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


def _cut(v: Any, bits: int) -> Any:
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
