"""Reductions, running reductions, sorting, searching and sets against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import Tensor, jit, xp
from tilewright.ir.errors import UsageError

from tests.tensor.agree import Agree

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(4)
X = RNG.standard_normal((3, 5, 7)).astype(np.float32)
N = RNG.integers(-5, 6, (3, 5, 7))


def test_reductions_as_numpys(agree: Agree) -> None:
    t, n = Tensor(X), Tensor(N)
    for axis in (None, 1, (0, 2), -1):
        agree(f"sum {axis}", t.sum(axis), X.sum(axis))
        agree(f"max {axis}", xp.max(t, axis=axis, keepdims=True), X.max(axis, keepdims=True))
        agree(f"min {axis}", t.min(axis), X.min(axis))
        agree(f"mean {axis}", t.mean(axis), X.mean(axis))
        agree(f"std {axis}", xp.std(t, axis=axis, correction=1), X.std(axis, ddof=1))
        agree(f"var {axis}", t.var(axis), X.var(axis))
        agree(f"any {axis}", xp.any(n > 4, axis=axis), (N > 4).any(axis))
        agree(f"all {axis}", xp.all(n > -5, axis=axis, keepdims=True), (N > -5).all(axis, keepdims=True))
        agree(f"count {axis}", xp.count_nonzero(n, axis=axis), np.count_nonzero(N, axis))
    agree("prod", xp.prod(n[:, :2, :2] + 6, axis=(1, 2)), (N[:, :2, :2] + 6).prod((1, 2)))
    agree("integers", n.sum((0, 1)), N.sum((0, 1)))
    for axis in (None, 0, 2):
        agree(f"argmax {axis}", n.argmax(axis), N.argmax(axis))
        agree(f"argmin {axis}", xp.argmin(t, axis=axis, keepdims=True), X.argmin(axis, keepdims=True))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_small_integers_are_summed_as_wide_ones(agree: Agree, dtype: str) -> None:
    x = (N * 37 % 120).astype(dtype)
    agree("sum", Tensor(x).sum(0), x.sum(0))
    agree("max", Tensor(x).max(-1), x.max(-1))
    agree("min", Tensor(x).min(), x.min())
    agree("cumulative", xp.cumulative_sum(Tensor(x), axis=1), x.cumsum(1))
    agree("prod of few", xp.prod(Tensor(x[..., :2]), axis=2), x[..., :2].prod(2))


def test_nan_and_infinities_go_through_reductions(agree: Agree) -> None:
    x = np.array([[1, np.nan, 3], [np.inf, 2, -np.inf], [-np.inf, -np.inf, -np.inf], [4, 5, np.inf]], np.float32)
    t = Tensor(x)
    with np.errstate(all="ignore"):
        agree("max", t.max(1), x.max(1))
        agree("min", t.min(1), x.min(1))
        agree("sum", t.sum(1), x.sum(1))
        agree("mean", t.mean(1), x.mean(1))
        agree("argmax", t.argmax(1), x.argmax(1))
        agree("argmin", t.argmin(1), x.argmin(1))
        agree("logsumexp", t.logsumexp(1), np.logaddexp.reduce(x, 1))


def test_running_reductions_as_numpys(agree: Agree) -> None:
    t, n = Tensor(X), Tensor(N)
    agree("sum", xp.cumulative_sum(t, axis=1), X.cumsum(1), 64)
    agree("prod", xp.cumulative_prod(t, axis=-1), X.cumprod(-1), 64)
    initial = np.concatenate([np.zeros((3, 1, 7), int), N.cumsum(1)], 1)
    agree("with 0", xp.cumulative_sum(n, axis=1, include_initial=True), initial)
    ones = np.concatenate([np.ones((3, 5, 1), int), N.cumprod(2)], 2)
    agree("with 1", xp.cumulative_prod(n, axis=2, include_initial=True), ones)
    agree("flat", n.cumsum(), N.cumsum())
    agree("diff", xp.diff(n, axis=1, n=2), np.diff(N, 2, 1))
    agree("diff with ends", xp.diff(n, axis=0, prepend=n[:1], append=n[1:2]), np.diff(N, 1, 0, N[:1], N[1:2]))


def test_empty_reductions(agree_small: Agree) -> None:
    e = np.zeros((3, 0), np.float32)
    t = Tensor(e)
    agree_small("sum", t.sum(1), e.sum(1))
    agree_small("prod", xp.prod(t, axis=1), e.prod(1))
    agree_small("all", xp.all(t, axis=1), e.all(1))
    agree_small("any", xp.any(t), e.any())
    agree_small("max over the rest", t.max(0), e.max(0))
    with pytest.raises(UsageError, match=r"max of \[3, 0\]: no elements along axis 1"):
        t.max(1)
    with pytest.raises(UsageError, match=r"max of \[3, 0\]"):
        (t > 0).max(1)
    with pytest.raises(UsageError, match="axis 2 is out of range for an array with 2 dimensions"):
        t.sum(2)
    with pytest.raises(UsageError, match="names a dimension twice"):
        t.sum((0, -2))


def test_sorting_as_numpys(agree_small: Agree) -> None:
    t, n = Tensor(X), Tensor(N)
    for axis in (0, -1):
        agree_small("sort", xp.sort(t, axis=axis), np.sort(X, axis))
        agree_small("descending", xp.sort(t, axis=axis, descending=True), -np.sort(-X, axis))
        agree_small("argsort", xp.argsort(n, axis=axis), np.argsort(N, axis, kind="stable"))
        agree_small("argsort descending", xp.argsort(n, axis=axis, descending=True), np.argsort(-N, axis, kind="stable"))
    values, places = t.topk(3, axis=1)
    agree_small("topk", values, -np.sort(-X, 1)[:, :3])
    agree_small("places", places, np.argsort(-X, 1, kind="stable")[:, :3])
    values, places = t.topk(2, axis=0, largest=False)
    agree_small("least", values, np.sort(X, 0)[:2])
    agree_small("places of the least", places, np.argsort(X, 0, kind="stable")[:2])
    row = np.sort(X[0, 0])
    agree_small("searchsorted", xp.searchsorted(Tensor(row), t, side="right"), np.searchsorted(row, X, "right"))
    agree_small("isin", xp.isin(n, Tensor(np.array([1, 3]))), np.isin(N, [1, 3]))
    agree_small("nextafter", xp.nextafter(t, t + 1), np.nextafter(X, X + 1))


@pytest.mark.parametrize("largest", [True, False])
def test_the_first_of_long_lines_are_those_that_sorting_them_gives(largest: bool) -> None:
    """Equal ones keep their order, a NaN is larger than all; lines of nothing but NaN, and with few numbers, too."""
    x = (np.random.default_rng(0).standard_normal((5, 3000)) * 4).astype(np.float32).round(1)
    x[1, 100:200], x[2], x[3, 4:] = np.nan, np.nan, np.nan
    order = xp.argsort(Tensor(x), axis=1, descending=largest).numpy()
    values, places = Tensor(x).topk(7, axis=1, largest=largest)
    np.testing.assert_array_equal(places.numpy(), order[:, :7])
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order[:, :7], 1))
    np.testing.assert_array_equal(Tensor(x.T).topk(7, axis=0, largest=largest)[1].numpy(), order[:, :7].T)


def test_sorted_values_go_on_in_kernels(agree: Agree) -> None:
    agree("around a sort", xp.sort(Tensor(X) * 2, axis=1)[:, ::-1] + 1, np.sort(X * 2, 1)[:, ::-1] + 1)


def test_sets_and_places_as_numpys(agree_small: Agree) -> None:
    n = Tensor(N)
    found = xp.unique_all(n)
    values, first, inverse, counts = np.unique(N, return_index=True, return_inverse=True, return_counts=True)
    agree_small("unique", list(found), [values, first, inverse.reshape(N.shape), counts])
    agree_small("by name", [found.values[found.inverse_indices], xp.unique_counts(n).counts], [N, counts])
    agree_small("nonzero", list(n.nonzero()), list(np.nonzero(N)))
    assert xp.unique_values(Tensor(np.array([np.nan, 1.0, np.nan]))).shape == (3,)


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e5m2", "float8_e4m3", "float16"])
def test_nan_is_the_largest_of_narrow_floats_too(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy itself puts NaN of the types that it does not know anywhere, and what is near as well."""
    rng = np.random.default_rng(3)
    for small in ("0", "100000"):
        monkeypatch.setenv("TILEWRIGHT_SMALL", small)
        x = rng.integers(-4, 5, (3, 40)).astype("float32")
        x[rng.random(x.shape) < 0.2] = np.nan
        t, alone = Tensor(x, dtype=kind), x[0][~np.isnan(x[0])]
        np.testing.assert_array_equal(xp.sort(t, axis=1).astype("float32").numpy(), np.sort(x, 1))
        np.testing.assert_array_equal(t.argsort(axis=1).numpy(), np.argsort(x, 1, kind="stable"))
        np.testing.assert_array_equal(t.topk(9)[0].astype("float32").numpy(), np.sort(x, 1)[:, ::-1][:, :9])
        np.testing.assert_array_equal(xp.searchsorted(xp.sort(t[0]), t[1]).numpy(), np.searchsorted(np.sort(x[0]), x[1]))
        np.testing.assert_array_equal(xp.isin(t, t[0]).numpy(), np.isin(x, x[0]))
        found = xp.unique_all(t[0])
        np.testing.assert_array_equal(found.values.astype("float32").numpy(), np.unique(x[0], equal_nan=False))
        assert found.counts.tolist() == [*np.unique(alone, return_counts=True)[1], *[1] * (40 - len(alone))]


def test_isin_compares_in_a_type_that_has_both() -> None:
    assert jit(xp.isin)(np.array([44, 5], np.int8), np.array([300, 5])).tolist() == [False, True]
    assert jit(xp.isin)(np.array([0.1], np.float32), np.array([0.1])).tolist() == [False]
