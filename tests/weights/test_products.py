"""Products with packed matrices against float64 products of the numbers that the formats define (whose bits `test_formats` holds)."""

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import weights

FORMS = ("q8_0", "q4_0", "q4_k", "q6_k", "int8", "int4")


@pytest.mark.parametrize("form", FORMS)
def test_products_of_one_row_and_an_odd_number_of_results(form: str) -> None:
    r = np.random.default_rng(7)
    w = weights.quantize(r.standard_normal((37, 512), np.float32), form)
    x, numbers = r.standard_normal((1, 512), np.float32), w.decoded().numpy().astype("float64")
    exact = x.astype("float64") @ numbers.T
    np.testing.assert_allclose(tw.jit(weights.linear)(tw.Tensor(x), w).numpy(), exact, rtol=0, atol=2e-5 * np.abs(exact).max())


def in_bytes(x: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """The whole numbers and the scales that activations are rounded to."""
    groups = x.reshape(len(x), -1, group)
    step = np.abs(groups).max(-1, keepdims=True) / np.float32(127)
    q = np.rint(groups / np.where(step > 0, step, 1))
    return q.reshape(x.shape), np.repeat(step[..., 0], group, -1)


@pytest.mark.parametrize("form", [f for f in FORMS if not f.endswith("k")])
@pytest.mark.parametrize(("rows", "results", "columns"), [(1, 37, 512), (1, 64, 2048), (3, 8, 256), (8, 5, 512)])
@pytest.mark.covering
def test_activations_of_eight_bits(form: str, rows: int, results: int, columns: int) -> None:
    r = np.random.default_rng(rows + columns)
    w = weights.quantize(r.standard_normal((results, columns), np.float32), form)
    x = r.standard_normal((rows, columns), np.float32)
    x[0, :32] = 0
    q, scale = in_bytes(x, 32)
    exact = (q * scale.astype("float64")) @ w.decoded().numpy().astype("float64").T
    linear = tw.jit(lambda x, w: weights.linear(x, w, act="int8"))
    np.testing.assert_allclose(linear(tw.Tensor(x), w).numpy(), exact, rtol=0, atol=2e-5 * np.abs(exact).max())


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype("float64")


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(
    ("form", "act", "rows"),
    [("q8_0", "int8", 9), ("q4_0", "bfloat16", 9), ("q6_k", "int8", 9), ("q4_k", "int8", 8), ("q8_0", "bfloat16", 8)],
)
def test_many_rows_beside_packed_matrices(form: str, act: str, rows: int, pairs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than eight are rounded to bfloat16 where the processor multiplies pairs; else, and beside formats without whole numbers, none is."""
    monkeypatch.setattr("tilewright.weights.packed._pairs", lambda x: pairs)
    r = np.random.default_rng(rows)
    w, x = weights.quantize(r.standard_normal((12, 512), np.float32), form), r.standard_normal((rows, 512), np.float32)
    near = rounded if pairs and rows > 8 else lambda x: x.astype("float64")
    exact = near(x) @ near(w.decoded().numpy()).T
    np.testing.assert_allclose(weights.linear(tw.Tensor(x), w, act=act).numpy(), exact, rtol=0, atol=2e-6 * np.abs(exact).max())


def test_steps_of_a_batch_are_few_rows() -> None:
    """A symbol of at most eight says so."""
    r = np.random.default_rng(3)
    w, x = weights.quantize(r.standard_normal((12, 64), np.float32), "q8_0"), r.standard_normal((3, 64), np.float32)
    linear = tw.jit(lambda x, w: weights.linear(x, w, act="int8"), symbols={"x": {0: tw.Var("n", 1, 8)}})
    q, scale = in_bytes(x, 32)
    exact = (q * scale.astype("float64")) @ w.decoded().numpy().astype("float64").T
    np.testing.assert_allclose(linear(tw.Tensor(x), w).numpy(), exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize(("form", "columns"), [("int8", 40), ("int8", 33), ("int4", 64), ("int4", 48)])
def test_activations_of_rows_that_are_no_whole_groups(form: str, columns: int) -> None:
    r = np.random.default_rng(columns)
    w = weights.quantize(r.standard_normal((6, columns), np.float32), form, *((16,) if form == "int4" else ()))
    x = r.standard_normal((2, columns), np.float32)
    q, scale = in_bytes(x, 32 if columns % 32 == 0 else columns)
    exact = (q * scale.astype("float64")) @ w.decoded().numpy().astype("float64").T
    np.testing.assert_allclose(weights.linear(tw.Tensor(x), w, act="int8").numpy(), exact, rtol=0, atol=2e-5 * np.abs(exact).max())


def test_shapes_and_biases_of_products_of_bytes() -> None:
    r = np.random.default_rng(1)
    w, b, x = (
        weights.quantize(r.standard_normal((5, 64), np.float32), "q8_0"),
        r.standard_normal(5, np.float32),
        r.standard_normal((2, 3, 64), np.float32),
    )
    y = weights.linear(tw.Tensor(x), w, tw.Tensor(b), act="int8").numpy()
    one = np.stack([weights.linear(tw.Tensor(v), w, tw.Tensor(b), act="int8").numpy() for v in x.reshape(6, 64)]).reshape(2, 3, 5)
    np.testing.assert_allclose(y, one, rtol=0, atol=1e-5)
    assert np.abs(y - (x @ w.decoded().numpy().T + b)).max() < 0.02 * np.abs(y).max()


def test_activations_that_are_no_numbers_stay_seen() -> None:
    x = np.ones((1, 64), np.float32)
    x[0, 40] = np.nan
    w = weights.quantize(np.ones((3, 64), np.float32), "q8_0")
    assert np.isnan(weights.linear(tw.Tensor(x), w, act="int8").numpy()).all()


@pytest.mark.parametrize(("rows", "pairs"), [(8, True), (9, True), (9, False)])
def test_activations_of_bfloat16(rows: int, pairs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than eight rows are rounded where the processor multiplies pairs, and beside a matrix of floats never."""
    monkeypatch.setattr("tilewright.weights.packed._pairs", lambda x: pairs)
    r = np.random.default_rng(rows)
    x, w = r.standard_normal((rows, 64), np.float32), r.standard_normal((12, 64), np.float32).astype(ml_dtypes.bfloat16)
    near = rounded(x) if rows > 8 and pairs else x.astype("float64")
    for matrix, used in ((w, near), (w.astype("float32"), x)):
        exact = used.astype("float64") @ matrix.astype("float64").T
        y = weights.linear(tw.Tensor(x), tw.Tensor(matrix), act="bfloat16").numpy()
        np.testing.assert_allclose(y, exact, rtol=0, atol=2e-6 * np.abs(exact).max())


def test_unknown_activations_are_refused() -> None:
    w = weights.quantize(np.ones((3, 64), np.float32), "q8_0")
    with pytest.raises(tw.UsageError, match="act is 'int8'"):
        weights.linear(tw.Tensor(np.ones((1, 64), np.float32)), w, act="int4")
