"""c[m, n] = Σ over blocks of k of scale_a[m, block] · scale_b[n / block, block] · (Σ of the block of a[m, k] · b[n, k]).

8-bit floats with a scale for 1 × `block` elements of activations and `block` × `block` of weights, as DeepSeek-V3 is
trained (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, §3.3.2: blocks of 128). The sum of a block is finished
before it is scaled, so that tensor cores which keep few bits of a sum add up no more than a block. The outer
sum is a fold over blocks, so that a block's sum is in registers when it is scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, bfloat16, float32
from ..ir.kernel import Kernel
from .common import FP8, ceil_div, f64, upto
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (n, k) in `dtype`, scale_a (m, ⌈k / block⌉), scale_b (⌈n / block⌉, ⌈k / block⌉) in float32 → c (m, n) in
    bfloat16."""
    m, n, k, block = s["m"], s["n"], s["k"], s["block"]
    blocks, columns = ceil_div("matmul_fp8_blocks", "k", s, "block"), ceil_div("matmul_fp8_blocks", "n", s, "block")
    kb = KernelBuilder("matmul_fp8_blocks")
    i, j, g, l = kb.axis("m", m), kb.axis("n", n), kb.axis("block@part", blocks), kb.axis("k", block)
    element, h = g * block + l, kb.axis("block@scaled", blocks)
    a, b = kb.input("a", (m, k), dtype), kb.input("b", (n, k), dtype)
    scale_a, scale_b = kb.input("scale_a", (m, blocks), float32), kb.input("scale_b", (columns, blocks), float32)
    part = kb.block_reduce("add", "part", (i, j, g), l, upto(k, block, a, i, element) * upto(k, block, b, j, element))
    acc = kb.block_reduce("add", "acc", (i, j), h, part[i, j, h] * (scale_a[i, h] * scale_b[j // block, h]))
    kb.fold("sum", kb.axis("block", blocks), (part, acc), (acc,), (0.0,), (kb.lhs(acc) + kb.rhs(acc),))
    kb.store("c", bfloat16, (m, n), (i, j), acc[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product of operands that were scaled element by element."""
    block, k = s["block"], s["k"]
    a = f64(x["a"]) * f64(x["scale_a"]).repeat(block, 1)[:, :k]
    b = f64(x["b"]) * f64(x["scale_b"]).repeat(block, 0)[: s["n"]].repeat(block, 1)[:, :k]
    return {"c": a @ b.T}


def flops(s: Shape) -> int:
    """A multiply and an add for each term (those past the end of k included) and for each block, and the product of two
    scales."""
    return int(s["m"] * s["n"] * -(-s["k"] // s["block"]) * (2 * s["block"] + 3))


def nbytes(s: Shape, dtype: DType) -> int:
    """a, b, the scales and c once."""
    scales = (s["m"] + -(-s["n"] // s["block"])) * -(-s["k"] // s["block"])
    return int((s["m"] + s["n"]) * s["k"] * dtype.size + scales * float32.size + s["m"] * s["n"] * bfloat16.size)


DEF = KernelDef(
    "matmul_fp8_blocks",
    "c = a @ b.T, 8-bit floats with a scale for each block of k",
    ("m", "n", "k", "block"),
    {"m": 1024, "n": 1024, "k": 1024, "block": 128},
    {"m": 7, "n": 37, "k": 45, "block": 16},
    FP8,
    make,
    reference,
    flops,
    nbytes,
)
