"""2^x of float32 by the units of NVIDIA GPUs, as the interpreter has it, and as CUDA text has it on a processor: operation by operation the same in float64.

A GPU's ex2.approx is within 2 ulp of the truth (PTX ISA, "Floating Point Instructions: ex2"); which bits it gives is not documented."""

from __future__ import annotations

from math import factorial, log
from typing import Any

COEFFICIENTS = tuple(log(2.0) ** k / factorial(k) for k in range(14))
"""Of the Taylor series of 2^f, lowest power first: for |f| <= 1/2 its error is below 2^-54."""
FAR = 200.0
"""Beyond it, either way, 2^x is infinity or zero in float32."""


def exp2(x: Any) -> Any:
    """2^x, rounded to float32 once; NaN stays."""
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
