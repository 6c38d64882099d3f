"""The configurations of a made-up space: a product of values, restricted and sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .physics import Machine

if TYPE_CHECKING:
    import numpy as np

    from .physics import Column

Columns = dict[str, "Column"]
Family = Callable[["Machine", "np.random.Generator"], tuple[Columns, Columns]]
MOST = 8_000
"""Configurations of a space at most; a larger one is sampled."""


def grid(values: Mapping[str, Any], keep: Callable[[Columns], Any], rng: np.random.Generator) -> Columns:
    """The product of the parameters' values, where `keep` holds, at most `MOST` of it."""
    import numpy as np

    sizes = [len(v) for v in values.values()]
    total = int(np.prod(sizes))
    flat = np.arange(total) if total <= 40 * MOST else np.unique(rng.integers(0, total, 40 * MOST))
    at = np.unravel_index(flat, sizes)
    columns = {k: np.asarray(v, dtype=float)[i] for (k, v), i in zip(values.items(), at)}
    chosen = np.flatnonzero(keep(columns))
    if len(chosen) > MOST:
        chosen = np.sort(rng.choice(chosen, MOST, replace=False))
    return {k: v[chosen] for k, v in columns.items()}
