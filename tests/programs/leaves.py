"""The values of leaves: arrays of NumPy, by kind, seed, shape and type."""

from __future__ import annotations

from typing import Any

import numpy as np

WHAT = ("whole", "normal", "positive", "special", "edges")


def values(what: str, seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    """float64 for floats, whose values the type has; else an array of the type. `whole`: small whole numbers, on which float
    arithmetic is exact; `normal`; `positive`: 1 to 2; `special`: with NaN, infinities, −0; `edges`: the ends of a type's range."""
    import ml_dtypes

    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype[0] in "iu":
        low, high = (0, 6) if dtype[0] == "u" else (-4, 5)
        found = rng.integers(low, high, shape).astype(dtype)
        if what == "edges" and found.size:
            places = rng.integers(found.size, size=1 + found.size // 8)
            found.reshape(-1)[places] = rng.choice([np.iinfo(dtype).min, np.iinfo(dtype).max], len(places)).astype(dtype)
        return found
    if what == "whole":
        return rng.integers(-3, 4, shape).astype(np.float64)
    x = rng.uniform(1, 2, shape) if what == "positive" else rng.standard_normal(shape)
    if what == "edges":
        x = x * 2.0 ** rng.integers(-12, 13, shape)
    x = np.asarray(x)
    if what == "special" and x.size:
        places = rng.integers(x.size, size=1 + x.size // 16)
        x.reshape(-1)[places] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], len(places))
    kind = {"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    return x.astype(kind).astype(np.float64)
