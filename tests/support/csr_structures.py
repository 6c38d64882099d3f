"""Structures of sparse matrices, and kernels that go through their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tilewright.ir import KernelBuilder
from tilewright.ir.kernel import Kernel

Array = np.ndarray[Any, Any]
Lengths = Callable[[int, np.random.Generator], Array]


def _one(n: int, place: int, many: int) -> Array:
    out = np.zeros(n, np.int64)
    out[place] = many
    return out


LENGTHS: dict[str, Lengths] = {
    "banded": lambda n, rng: np.full(n, 3),
    "random": lambda n, rng: rng.binomial(40, 0.2, n),
    "power law": lambda n, rng: np.minimum((rng.pareto(1.1, n) * 2).astype(int), 60),
    "blocks": lambda n, rng: np.repeat(rng.integers(1, 5, -(-n // 4)) * 4, 4)[:n],
    "one dense row": lambda n, rng: 1 + _one(n, n // 2, 90),
    "all in the first row": lambda n, rng: _one(n, 0, 70),
    "all in the last row": lambda n, rng: _one(n, n - 1, 70),
    "empty rows": lambda n, rng: rng.integers(0, 2, n) * rng.integers(0, 9, n),
    "empty ends": lambda n, rng: np.where((np.arange(n) > 4) & (np.arange(n) < n - 4), 7, 0),
    "long rows": lambda n, rng: rng.integers(60, 140, n),
    "one entry": lambda n, rng: _one(n, n // 3, 1),
}
"""By name: how many entries each of n rows has."""


def structure(name: str, rows: int, columns: int, at: str, seed: int = 0) -> tuple[Array, Array]:
    """(where rows begin, the columns of entries): in any order, and some of them twice. A few entries belong to no row."""
    rng = np.random.default_rng([seed, *name.encode()])
    begins = np.concatenate([[0], np.cumsum(LENGTHS[name](rows, rng))])
    return begins.astype(at), rng.integers(0, columns, 32 * (begins[-1] // 32 + 1)).astype(at)


def sparse_product(
    rows: int, columns: int, entries: int, dtype: str = "float32", at: str = "int32", n: int = 0, regular: bool = False, pattern: str = ""
) -> Kernel:
    """A sparse matrix times a vector, or times one of n columns."""
    kb = KernelBuilder("sparse_product")
    i = kb.axis("i", rows)
    p = kb.input("p", (rows + 1,), at, range=(0, entries), ascending=True, regular=regular)
    column, a = kb.input("column", (entries,), at, range=(0, columns - 1), pattern=pattern), kb.input("a", (entries,), dtype)
    k = kb.axis("k", (p[i], p[i + 1]))
    js = (kb.axis("j", n),) if n else ()
    x = kb.input("x", (columns, n) if n else (columns,), dtype)
    total = kb.sum("total", (i, *js), k, a[k] * x[(column[k], *js)])
    kb.store("y", dtype, (rows, n) if n else (rows,), (i, *js), total[(i, *js)])
    return kb.build()


def reduction(combine: Any, rows: int, entries: int, dtype: str = "float32", at: str = "int32") -> Kernel:
    """Each row's entries combined, and how many of them are above 0."""
    kb = KernelBuilder("segments")
    i = kb.axis("i", rows)
    start = kb.input("start", (rows,), at, range=(0, entries))
    end = kb.input("end", (rows,), at, range=(0, entries))
    a = kb.input("a", (entries,), dtype)
    k, l = kb.axis("k", (start[i], end[i])), kb.axis("l", (start[i], end[i]))
    best = kb.reduce(combine, "best", (i,), k, a[k])
    many = kb.sum("many", (i,), l, a[l] > 0)
    kb.store("y", dtype, (rows,), (i,), best[i])
    kb.store("n", "int32", (rows,), (i,), many[i])
    return kb.build()
