"""The configurations of a made-up space: a product of values, restricted and sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .physics import Machine

if TYPE_CHECKING:
    import numpy as np

    from .physics import Column

Columns = dict[str, "Column"]
Choose = Callable[[Mapping[str, Any], Callable[[Columns], Any], "np.random.Generator"], Columns]
Family = Callable[["Machine", "np.random.Generator"], tuple[Columns, Columns]]
MOST = 8_000
"""Configurations of a space at most; a larger one is sampled."""
WHOLE = 12_000
"""Configurations of a space with all its neighbours at most."""


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


def thinned(values: Mapping[str, Any], keep: Callable[[Columns], Any], rng: np.random.Generator, most: int = WHOLE) -> Columns:
    """The whole product of the parameters' values, where `keep` holds. Values are left out, drawn from the parameters
    that have the most, until at most `most` configurations remain: unlike a sample, it has every neighbour, as a
    space has that somebody measured in full."""
    import numpy as np

    left = {k: list(v) for k, v in values.items()}
    while True:
        sizes = [len(v) for v in left.values()]
        total = int(np.prod(sizes))
        if total <= 100 * most:
            at = np.unravel_index(np.arange(total), sizes)
            columns = {k: np.asarray(v, dtype=float)[i] for (k, v), i in zip(left.items(), at)}
            chosen = np.flatnonzero(keep(columns))
            if len(chosen) <= most:
                return {k: v[chosen] for k, v in columns.items()}
        weights = (np.array(sizes) - 1.0) ** 2
        name = list(left)[rng.choice(len(sizes), p=weights / weights.sum())]
        left[name].pop(int(rng.integers(len(left[name]))))
