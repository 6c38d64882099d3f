"""Sparse matrices in compressed rows and segments, as tensors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from csr_structures import LENGTHS, structure
from tilewright import OutOfRangeError, Tensor, UsageError, jit, scan, sparse, vmap

ROWS, COLUMNS = 37, 29
Array = np.ndarray[Any, Any]


def matrix(name: str, dtype: str, at: str) -> tuple[Array, Array, Array, Array]:
    """(indptr, indices, data, the same dense)."""
    begins, column = structure(name, ROWS, COLUMNS, at)
    column = column[: begins[-1]]
    data = np.random.default_rng(1).standard_normal(len(column)).astype(dtype)
    dense = np.zeros((ROWS, COLUMNS))
    np.add.at(dense, (np.repeat(np.arange(ROWS), np.diff(begins)), column), data)
    return begins, column, data, dense


@pytest.mark.parametrize("name", LENGTHS)
def test_products_and_their_gradients(name: str) -> None:
    number = list(LENGTHS).index(name)
    dtype, at, width = ("float32", "float64")[number % 2], ("int32", "int64")[number // 2 % 2], (None, 5)[number % 3 > 0]
    begins, column, data, dense = matrix(name, dtype, at)
    x = np.random.default_rng(2).standard_normal((COLUMNS, width) if width else COLUMNS).astype(dtype)
    w = np.random.default_rng(3).standard_normal((ROWS, width) if width else ROWS).astype(dtype)
    close = {"atol": 1e-4 if dtype == "float32" else 1e-12}

    def product(data: Any, x: Any) -> Any:
        return sparse.CSR(begins, column, data, shape=(ROWS, COLUMNS)) @ x

    np.testing.assert_allclose(product(data, x).numpy(), dense @ x, **close)
    np.testing.assert_allclose(tw.jit(product)(data, x).numpy(), dense @ x, **close)
    of_data, of_x = tw.jit(tw.grad(lambda data, x: (product(data, x) * Tensor(w)).sum(), argnums=(0, 1)))(Tensor(data), Tensor(x))
    row = np.repeat(np.arange(ROWS), np.diff(begins))
    np.testing.assert_allclose(of_x.numpy(), dense.T @ w, **close)
    np.testing.assert_allclose(of_data.numpy(), (w[row] * x[column]).reshape(len(row), -1).sum(1), **close)


def test_matrices_of_scipy() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    there = scipy.random(9, 7, 0.4, format="csr", dtype="float32", rng=np.random.default_rng(0))
    x = np.arange(7, dtype="float32")
    np.testing.assert_allclose((sparse.CSR(there) @ x).numpy(), there @ x, rtol=1e-5)
    for other in (there.tocsc(), there.toarray()):
        with pytest.raises(UsageError, match=r"give indptr, indices, data and shape, or a SciPy matrix in compressed rows, m\.tocsr\(\)"):
            sparse.CSR(other)


PATTERNS = {"tridiagonal": "diagonals", "wide band": "runs of 8", "blocks": "runs of 4", "random": "", "pairs": ""}


@pytest.mark.parametrize("name", PATTERNS)
def test_columns_that_follow_each_other(name: str) -> None:
    rng, rows = np.random.default_rng(0), 160
    if name in ("tridiagonal", "wide band"):
        width = 3 if name == "tridiagonal" else 21
        columns = np.arange(rows)[:, None] + np.arange(width)
    else:
        n = {"blocks": 4, "pairs": 2, "random": 1}[name]
        columns = (rng.integers(0, rows // n, (rows // n, 12 // n)) * n).repeat(n, 0)[:, :, None] + np.arange(n)
    columns = columns.reshape(rows, -1)
    begins, data, x = np.arange(rows + 1) * columns.shape[1], rng.standard_normal(columns.size), rng.standard_normal(rows + 21)
    made = sparse.CSR(begins, columns.ravel(), data, shape=(rows, rows + 21))
    assert made.pattern == sparse.pattern(begins, columns.ravel()) == PATTERNS[name]
    right = (data.reshape(columns.shape) * x[columns]).sum(1)
    np.testing.assert_allclose((made @ x).numpy(), right, atol=1e-12)
    other = sparse.CSR(begins, rng.permuted(columns, axis=1).ravel(), data, shape=made.shape)
    other.pattern = made.pattern  # (no result depends on it)
    np.testing.assert_allclose((other @ x).numpy(), (data * x[other.indices.numpy()]).reshape(columns.shape).sum(1), atol=1e-12)


def test_rows_about_as_long_as_those_beside_them() -> None:
    """What schedules of products follow: the same padded to the longest of eight, at most a quarter more."""
    found = {name for name in LENGTHS if sparse.regular(structure(name, 400, COLUMNS, "int32")[0])}
    assert found == {"banded", "blocks", "empty ends"}
    even, first = np.arange(0, 25, 3), np.array([0, *[24] * 8])
    for begins in (even, first):
        made = sparse.CSR(begins, np.tile([0, 1, 2], 8), np.arange(24.0), shape=(8, 3))
        assert made.regular == (begins is even)
        np.testing.assert_array_equal(
            (made @ np.ones(3)).numpy(), np.add.reduceat([*np.arange(24.0), 0], begins[:-1]) * (np.diff(begins) > 0)
        )


@pytest.mark.parametrize("name", ["random", "empty rows", "one dense row", "empty ends"])
@pytest.mark.parametrize("width", [None, 6])
@pytest.mark.covering
def test_segments_and_their_gradients(name: str, width: int | None) -> None:
    begins, column, _, _ = matrix(name, "float64", "int64")
    x = np.random.default_rng(4).integers(-3, 4, (len(column), width) if width else len(column)).astype("float64")
    parts = [x[s:e] for s, e in pairwise(begins)]
    total, most = sparse.segment_sum(x, begins).numpy(), sparse.segment_max(x, begins).numpy()
    np.testing.assert_array_equal(total, [p.sum(0) for p in parts])
    np.testing.assert_array_equal(most, [p.max(0) if len(p) else np.full(p.shape[1:], -np.inf) for p in parts])
    w = np.random.default_rng(5).standard_normal(total.shape)
    added = tw.grad(lambda x: (sparse.segment_sum(x, begins) * Tensor(w)).sum())(Tensor(x))
    np.testing.assert_array_equal(added.numpy(), np.repeat(w, np.diff(begins), axis=0))
    finite = Tensor(np.isfinite(most))
    taken = tw.grad(lambda x: finite.where(sparse.segment_max(x, begins) * Tensor(w), 0.0).sum())(Tensor(x))
    share = [(p == p.max(0)) / (p == p.max(0)).sum(0) * v for p, v in zip(parts, w, strict=True) if len(p)]
    np.testing.assert_allclose(taken.numpy(), np.concatenate(share), atol=1e-12)


def test_entries_of_no_row_have_no_gradient() -> None:
    """Where tensors that are computed later say how rows lie, nobody has looked at them."""
    begins, column, data = Tensor(np.array([1, 2, 4])), np.array([0, 1, 1, 0, 2]), Tensor(np.arange(1.0, 6.0))

    def product(d: Tensor, b: Tensor) -> Tensor:
        return (sparse.CSR(b, column, d, shape=(2, 3)) @ np.array([1.0, 10.0, 100.0])).sum()

    found = tw.jit(tw.grad(product))(data, begins)
    assert found.numpy().tolist() == [0.0, 10.0, 10.0, 1.0, 0.0]


def test_what_is_no_matrix() -> None:
    begins, column, data = np.array([0, 1, 3]), np.array([0, 2, 1]), np.ones(3)

    def made(**other: Any) -> sparse.CSR:
        given = {"indptr": begins, "indices": column, "data": data, "shape": (2, 3), **other}
        return sparse.CSR(given["indptr"], given["indices"], given["data"], shape=given["shape"])

    assert repr(made()) == "CSR(2 × 3, 3 entries of float64)" and made().nnz == 3
    with pytest.raises(UsageError, match="indptr has 2 elements, and 2 rows have 3"):
        made(indptr=begins[:2])
    with pytest.raises(OutOfRangeError, match="indptr has 4 before 2, at 1: rows begin in order"):
        sparse.segment_sum(Tensor(np.ones(6, np.float32)), Tensor(np.array([0, 4, 2, 6])))
    with pytest.raises(OutOfRangeError, match="indptr has 2 before 1, at 1: rows begin in order"):
        made(indptr=np.array([0, 2, 1, 3]), shape=(3, 3))
    with pytest.raises(OutOfRangeError, match="indptr goes from 0 to 2, and there are 3 entries"):
        made(indptr=np.array([0, 1, 2]))
    with pytest.raises(OutOfRangeError, match=r"the column 2 is outside of 0\.\.1"):
        made(shape=(2, 2))
    with pytest.raises(UsageError, match=r"data is float64\[2\]; give floats, one for each of the 3 indices"):
        made(data=data[:2])
    with pytest.raises(UsageError, match=r"indices is float64\[3\]; give a vector of integers"):
        made(indices=data)
    with pytest.raises(UsageError, match=r"shape is 3; give \(rows, columns\)"):
        made(shape=3)
    with pytest.raises(UsageError, match=r"shape is \(2.5, 3\); give \(rows, columns\)"):
        made(shape=(2.5, 3))
    with pytest.raises(UsageError, match="make a CSR matrix of the transpose"):
        np.ones(2) @ made()
    with pytest.raises(UsageError, match=r"regular: indptr is float64\[2\]; give a vector of integers"):
        sparse.regular([0.0, 1.0])
    nothing = sparse.CSR(np.zeros(4, int), np.zeros(0, int), np.zeros(0), shape=(3, 0))
    assert (nothing @ np.zeros((0, 2))).numpy().tolist() == [[0.0, 0.0]] * 3
    with pytest.raises(UsageError, match="a CSR matrix of float64 @ float32: cast one of them"):
        made() @ np.ones(3, "float32")
    with pytest.raises(UsageError, match=r"a CSR matrix \[2, 3\] @ \[4\]: give \(columns,\) or \(columns, n\)"):
        made() @ np.ones(4)
    with pytest.raises(OutOfRangeError, match="element of indices 3 is out of range"):
        (made(indices=Tensor(np.array([0, 3, 1]))) @ np.ones(3)).numpy()
    with pytest.raises(UsageError, match="segment_sum of int64"):
        sparse.segment_sum(np.arange(3), begins)


def test_offsets_that_are_known_at_a_call_ascend() -> None:
    """In a captured function, in steps of a loop and in a batch, as where they are known before."""
    total = lambda x, p: sparse.segment_sum(x, p)  # noqa: E731
    x, right, wrong = np.arange(6.0), np.array([0, 2, 6], np.int32), np.array([0, 7, 2, 6]) - np.array([0, 3, 0, 0])
    once, many = jit(total), jit(vmap(total, in_axes=(None, 0)))
    loop = jit(lambda x, ps: scan(lambda c, p: (c, total(x, p)), 0, ps)[1])
    assert once(x, right).tolist() == [1.0, 14.0]
    assert loop(x, right[None]).tolist() == [[1.0, 14.0]] == many(x, right[None]).tolist()
    for call in (lambda: once(x, wrong), lambda: loop(x, np.stack([wrong, wrong])), lambda: many(x, np.stack([wrong * 0, wrong]))):
        with pytest.raises(OutOfRangeError, match="one element of indptr is less than the one before"):
            call()


def test_columns_that_are_computed_are_looked_at_before_they_are_read() -> None:
    """The kernel reads wherever its columns say: a place far away would end the process."""
    begins, columns, x = np.array([0, 1, 3]), np.array([0, 2, 1]), np.ones(3)
    product = jit(lambda far, x: sparse.CSR(begins, columns * far, np.arange(3.0), shape=(2, 3)) @ x)
    assert product(Tensor(np.int64(1)), x).tolist() == [0.0, 3.0]
    with pytest.raises(OutOfRangeError, match="element of indices 2000000000 is out of range"):
        product(Tensor(np.int64(10**9)), x)
