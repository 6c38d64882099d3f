"""y[m, n] = Σₖ x[m, k] · scale[n, k / group] · (q[n, k] − zero[n, k / group]): weights of 4 bits, two a byte.

Byte i of a channel holds element 2i in its low half and element 2i + 1 in its high half. A group of `group` elements of
k has a scale and a zero point (0 to 15), as GPTQ (Frantar et al., 2022) and AWQ (Lin et al., 2023) quantise weights. The
sum of a group is finished before it is scaled: its terms are products with whole numbers from −15 to 15, which every
float type holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, float32, int32, uint8
from ..ir.errors import KernelError
from ..ir.kernel import Kernel
from ..ir.operators import cast
from .common import f64, groups_of
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, k) in `dtype`, w (n, k / 2) in uint8, scale (n, k / group) in `dtype`, zero (n, k / group) in uint8 → y (m, n)
    in `dtype`. KernelError where group is odd or does not divide k."""
    m, n, k, group = s["m"], s["n"], s["k"], s["group"]
    groups = groups_of("matmul_w4", k, "group", group)
    if group % 2:
        raise KernelError(f"matmul_w4: size group is {group}; it must be even, as a byte holds two weights of one group")
    kb = KernelBuilder("matmul_w4")
    i, j, g, l = kb.axis("m", m), kb.axis("n", n), kb.axis("group", groups), kb.axis("k", group)
    x, w = kb.input("x", (m, k), dtype), kb.input("w", (n, k // 2), uint8, range=(0, 255))
    scale, zero = kb.input("scale", (n, groups), dtype), kb.input("zero", (n, groups), uint8, range=(0, 15))
    element = g * group + l
    bits = (cast(w[j, element // 2], int32) >> cast(element % 2 * 4, int32)) & 15
    weight = cast(bits - cast(zero[j, g], int32), float32)
    part = kb.sum("part", (i, j, g), l, x[i, element] * weight)
    acc = kb.sum("acc", (i, j), g, part[i, j, g] * scale[j, g])
    kb.store("y", dtype, (m, n), (i, j), acc[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Unpacked with NumPy, and its own product with the weights that are meant."""
    import numpy as np

    packed, group = x["w"].astype(np.uint8), s["group"]
    q = np.stack([packed % 16, packed // 16], axis=-1).reshape(s["n"], s["k"])
    weights = (f64(q) - f64(x["zero"]).repeat(group, 1)) * f64(x["scale"]).repeat(group, 1)
    return {"y": f64(x["x"]) @ weights.T}


def flops(s: Shape) -> int:
    """A multiply and an add for each term and for each group."""
    return int(2 * s["m"] * s["n"] * (s["k"] + s["k"] // s["group"]))


def nbytes(s: Shape, dtype: DType) -> int:
    """x, w, scale, zero and y once."""
    groups = s["n"] * (s["k"] // s["group"])
    return int(s["m"] * (s["k"] + s["n"]) * dtype.size + s["n"] * (s["k"] // 2) + groups * (dtype.size + 1))


DEF = KernelDef(
    "matmul_w4",
    "y = x @ ((w - zero) * scale).T, 4-bit weights, two a byte, in groups",
    ("m", "n", "k", "group"),
    {"m": 1024, "n": 1024, "k": 1024, "group": 128},
    {"m": 7, "n": 37, "k": 48, "group": 16},
    ("bfloat16", "float16"),
    make,
    reference,
    flops,
    nbytes,
)
