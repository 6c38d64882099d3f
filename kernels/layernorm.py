"""y = (x − mean) · rstd · weight + bias along n, two-pass: the variance is taken of x − mean, never of squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.functions import sqrt
from ..ir.kernel import Kernel
from .common import FLOATS, as_float, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np

EPSILON = 1e-5


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n), weight (n), bias (n) → y (m, n)."""
    return build("layernorm", s, dtype, stats=False)


def build(name: str, s: Shape, dtype: DType, stats: bool) -> Kernel:
    """The kernel, with mean (m) and rstd (m) stored in the compute type when `stats`. Only then have they names, as
    they are read by two loops (`ir.normal_form.naming`)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder(name)
    i = kb.axis("m", m)
    j_mean, j_dev, j_var, j_out = (kb.axis(f"n@{site}", n) for site in ("mean", "dev", "var", "out"))
    x = kb.input("x", (m, n), dtype)
    weight, bias = kb.input("weight", (n,), dtype), kb.input("bias", (n,), dtype)
    total = kb.sum("total", (i,), j_mean, x[i, j_mean])
    mean = total[i] / as_float(n, dtype)
    if stats:
        mean = kb.value("mean", (i,), mean)[i]
    dev = kb.value("dev", (i, j_dev), x[i, j_dev] - mean)
    square = kb.sum("square", (i,), j_var, dev[i, j_var] * dev[i, j_var])
    rstd = 1.0 / sqrt(square[i] / as_float(n, dtype) + EPSILON)
    if stats:
        rstd = kb.value("rstd", (i,), rstd)[i]
    kb.store("y", dtype, (m, n), (i, j_out), dev[i, j_out] * rstd * weight[j_out] + bias[j_out])
    if stats:
        kb.store("mean_out", dtype.compute, (m,), (i,), mean)
        kb.store("rstd_out", dtype.compute, (m,), (i,), rstd)
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's mean and variance."""
    import numpy as np

    a = f64(x["x"])
    mean, rstd = a.mean(axis=1), 1.0 / np.sqrt(a.var(axis=1) + EPSILON)
    y = (a - mean[:, None]) * rstd[:, None] * f64(x["weight"]) + f64(x["bias"])
    return {"y": y, "mean_out": mean, "rstd_out": rstd}


def flops(s: Shape) -> int:
    """+ (mean), − , · + (variance), · · + (store) for each element; / / + √ / a row."""
    return int(7 * s["m"] * s["n"] + 5 * s["m"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x and y once, weight and bias once."""
    return int((2 * s["m"] * s["n"] + 2 * s["n"]) * dtype.size)


DEF = KernelDef(
    "layernorm",
    "y = (x - mean) / sqrt(var + 1e-5) * weight + bias along rows",
    ("m", "n"),
    {"m": 4096, "n": 1024},
    {"m": 11, "n": 103},
    FLOATS,
    make,
    lambda x, s: {"y": reference(x, s)["y"]},
    flops,
    nbytes,
)
