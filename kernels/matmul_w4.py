"""y[m, n] = Σₖ x[m, k] · scale[n, k / group] · (q[n, k] − zero[n, k / group]): weights of 4 bits, two a byte.

Byte i of a channel holds element 2i in its low half and element 2i + 1 in its high half. A group of `group` elements of
k has a scale and a zero point (0 to 15), as GPTQ (Frantar et al., 2022) and AWQ (Lin et al., 2023) quantise weights. The
sum of a group is finished before it is scaled: its terms are products with whole numbers from −15 to 15, which every
float type holds. The outer sum is a fold over groups, so that a group's sum is in registers when it is scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, float32, int8, int32, uint8
from ..ir.kernel import Kernel
from ..ir.operators import cast
from .common import ceil_div, f64, upto
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, k) in `dtype`, w (n, ⌈k / 2⌉) in uint8, scale (n, ⌈k / group⌉) in `dtype`, zero (n, ⌈k / group⌉) in uint8 →
    y (m, n) in `dtype`."""
    m, n, k, group = s["m"], s["n"], s["k"], s["group"]
    groups = ceil_div("matmul_w4", "k", s, "group")
    kb = KernelBuilder("matmul_w4")
    i, j, g, l = kb.axis("m", m), kb.axis("n", n), kb.axis("group@part", groups), kb.axis("k", group)
    element, h = g * group + l, kb.axis("group@scaled", groups)
    x, w = kb.input("x", (m, k), dtype), kb.input("w", (n, -(-k // 2)), uint8, range=(0, 255))
    scale, zero = kb.input("scale", (n, groups), dtype), kb.input("zero", (n, groups), uint8, range=(0, 15))
    byte = w[j, element // 2] if k % group == 0 else w.masked(element < k, j, element // 2)
    bits = (cast(byte, int32) >> cast(element % 2 * 4, int32)) & 15
    # as int8, which 16-bit floats hold: tensor cores may multiply it
    weight = cast(cast(bits - cast(zero[j, g], int32), int8), float32)
    part = kb.block_reduce("add", "part", (i, j, g), l, upto(k, group, x, i, element) * weight)
    acc = kb.block_reduce("add", "acc", (i, j), h, part[i, j, h] * scale[j, h])
    kb.fold("sum", kb.axis("group", groups), (part, acc), (acc,), (0.0,), (kb.lhs(acc) + kb.rhs(acc),))
    kb.store("y", dtype, (m, n), (i, j), acc[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Unpacked with NumPy, and its own product with the weights that are meant."""
    import numpy as np

    packed, group, k = x["w"].astype(np.uint8), s["group"], s["k"]
    q = np.stack([packed % 16, packed // 16], axis=-1).reshape(s["n"], -1)[:, :k]
    weights = (f64(q) - f64(x["zero"]).repeat(group, 1)[:, :k]) * f64(x["scale"]).repeat(group, 1)[:, :k]
    return {"y": f64(x["x"]) @ weights.T}


def flops(s: Shape) -> int:
    """A multiply and an add for each term (those past the end of k included) and for each group, and a subtraction for
    each weight."""
    groups = -(-s["k"] // s["group"])
    return int(2 * s["m"] * s["n"] * groups * (s["group"] + 1) + s["n"] * groups * s["group"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x, w, scale, zero and y once."""
    groups = s["n"] * -(-s["k"] // s["group"])
    return int(s["m"] * (s["k"] + s["n"]) * dtype.size + s["n"] * -(-s["k"] // 2) + groups * (dtype.size + 1))


DEF = KernelDef(
    "matmul_w4",
    "y = x @ ((w - zero) * scale).T, 4-bit weights, two a byte, in groups",
    ("m", "n", "k", "group"),
    {"m": 1024, "n": 1024, "k": 1024, "group": 128},
    {"m": 7, "n": 37, "k": 45, "group": 16},
    ("bfloat16", "float16"),
    make,
    reference,
    flops,
    nbytes,
)
