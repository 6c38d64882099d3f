"""Random numbers, by counter: other ones at each run; with a seed, the same ones in every process."""

from __future__ import annotations

from typing import Any

from .... import xp
from ....tensor import nn
from .table import Call, element_type, operator, type_of


def _type(given: int | None, x: Any) -> Any:
    return element_type(given) if given else type_of(x) if x.dtype.is_float else "float32"


@operator("RandomUniform")
def uniform(call: Call, shape: Any, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None) -> Any:
    """Evenly distributed numbers."""
    return nn.uniform(tuple(shape), call.key(seed), low=low, high=high, dtype=element_type(dtype))


@operator("RandomUniformLike")
def uniform_like(call: Call, x: Any, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None) -> Any:
    """Evenly distributed numbers, of x's shape."""
    return nn.uniform(x.shape, call.key(seed), low=low, high=high, dtype=_type(dtype, x))


@operator("RandomNormal")
def normal(call: Call, shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None) -> Any:
    """Normally distributed numbers."""
    return nn.normal(tuple(shape), call.key(seed), mean=mean, std=scale, dtype=element_type(dtype))


@operator("RandomNormalLike")
def normal_like(call: Call, x: Any, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None) -> Any:
    """Normally distributed numbers, of x's shape."""
    return nn.normal(x.shape, call.key(seed), mean=mean, std=scale, dtype=_type(dtype, x))


@operator("Multinomial")
def multinomial(call: Call, x: Any, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Any:
    """Classes drawn by their unnormalised log-probabilities: the largest after Gumbel noise (E. Gumbel, 1954)."""
    shape = (x.shape[0], sample_size, x.shape[1])
    u = nn.uniform(shape, call.key(seed), low=1e-20, high=1.0)
    noisy = x.astype("float32").unsqueeze(1) - xp.log(-xp.log(u))
    return noisy.argmax(axis=-1).astype(element_type(dtype))
