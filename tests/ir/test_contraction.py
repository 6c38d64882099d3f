"""Sums of products as matrix products: along what only one factor varies, that one is added up before."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tilewright.ir.evaluation.array_math import ProductLayout, _matrices, contract, contract_exact


def drawn(r: random.Random) -> tuple[ProductLayout, list[int], list[int]]:
    """A layout, and the shapes of two factors that vary along some of it."""
    shape = [r.choice([1, 2, 3, 4]) for _ in range(r.randint(1, 6))]
    x, y = ([n if r.random() < 0.6 else 1 for n in shape] for _ in range(2))
    return ProductLayout(tuple(shape), r.randint(0, len(shape))), x, y


def summed(x: np.ndarray, y: np.ndarray, layout: ProductLayout) -> np.ndarray:
    """Every product by itself, in the type of the factors or in Python's integers."""
    products = x * y
    whole = (*products.shape[: layout.spatial], *layout.shape[layout.spatial :])
    return np.asarray(np.broadcast_to(products, whole).sum(axis=tuple(range(layout.spatial, len(layout.shape)))))


def test_sums_of_products() -> None:
    r, rng = random.Random(1), np.random.default_rng(1)
    for _ in range(200):
        layout, sx, sy = drawn(r)
        x, y = rng.standard_normal(sx), rng.standard_normal(sy)
        got, want = contract(x, y, layout), summed(x, y, layout)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
def test_integers_wrap(dtype: str) -> None:
    r, rng, ends = random.Random(2), np.random.default_rng(2), np.iinfo(dtype)
    for _ in range(100):
        layout, sx, sy = drawn(r)
        x, y = (rng.integers(ends.min, ends.max, s, dtype=dtype, endpoint=True) for s in (sx, sy))
        got = contract_exact(x, y, layout, np.dtype(np.int32)).reshape(-1)
        want = summed(x.astype(object), y.astype(object), layout).reshape(-1)
        assert [int(g) % 2**32 for g in got] == [int(w) % 2**32 for w in want]


def test_a_chain_makes_no_array_over_all_that_is_summed() -> None:
    """Σ ab[i, j, k]·cd[k, l, m] over j, k and l meets along k alone."""
    x, y = np.ones((5, 1, 7, 3, 1)), np.ones((1, 6, 1, 3, 9))
    left, right, _ = _matrices(x, y, ProductLayout((5, 6, 7, 3, 9), 2))
    assert left.shape == (1, 5, 3) and right.shape == (1, 3, 6)
    assert (contract(x, y, ProductLayout((5, 6, 7, 3, 9), 2)) == 7 * 3 * 9).all()
