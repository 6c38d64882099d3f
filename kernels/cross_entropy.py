"""loss[m] = log Σₙ exp(x[m, n]) − x[m, label[m]], shifted by the row's maximum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, int64
from ..ir.functions import exp, log
from ..ir.kernel import Kernel
from .common import FLOATS, f64, ids_range
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n), label (m) int64 in [0, n) → loss (m)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("cross_entropy")
    i, j_max, j_sum = kb.axis("m", m), kb.axis("n@max", n), kb.axis("n@sum", n)
    x, label = kb.input("x", (m, n), dtype), kb.input("label", (m,), int64, range=ids_range(n))
    top = kb.max("top", (i,), j_max, x[i, j_max])
    total = kb.sum("total", (i,), j_sum, exp(x[i, j_sum] - top[i]))
    kb.store("loss", dtype, (m,), (i,), log(total[i]) + (top[i] - x[i, label[i]]))
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's logaddexp along rows."""
    import numpy as np

    a = f64(x["x"])
    picked = np.take_along_axis(a, x["label"][:, None], axis=1)[:, 0]
    return {"loss": np.logaddexp.reduce(a, axis=1) - picked}


def flops(s: Shape) -> int:
    """max, − and + for each element; + and − a row."""
    return int(3 * s["m"] * s["n"] + 2 * s["m"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x and the labels read, a loss a row written."""
    return int(s["m"] * s["n"] * dtype.size + s["m"] * (int64.size + dtype.size))


DEF = KernelDef(
    "cross_entropy",
    "loss = logsumexp(x) - x[label] along rows",
    ("m", "n"),
    {"m": 4096, "n": 4096},
    {"m": 11, "n": 103},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
