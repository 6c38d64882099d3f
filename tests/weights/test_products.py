"""Products with packed matrices against float64 products of the numbers that the formats define (whose bits `test_formats` holds)."""

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
