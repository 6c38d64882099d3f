"""16-bit numbers in gradients and under vmap: what is compared is what users see, and conversions stay."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import grad, nn, vmap
from tilewright.tensor import Tensor


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("extreme", ["max", "min"])
def test_an_extreme_of_what_is_computed_passes_its_gradient_on(monkeypatch: pytest.MonkeyPatch, extreme: str, dtype: str) -> None:
    """The extreme may be stored rounded, and the elements be computed again in a wider type. The columns' extremes are chosen to be
    apart, so that each has one place."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = np.random.default_rng(3).standard_normal((40, 3, 5)).astype(np.float32)
    found, exact = (
        grad(lambda t: getattr(nn.layer_norm(t), extreme)(axis=1).sum().astype("float32"))(Tensor(x).astype(kind).realise())
        .astype("float32")
        .numpy()
        for kind in (dtype, "float32")
    )
    assert np.mean(np.abs(found - exact) > 0.1 * np.abs(exact).max()) < 0.05


@pytest.mark.parametrize("to", ["bfloat16", "float16"])
def test_vmap_keeps_a_conversion(to: str) -> None:
    x = Tensor(np.linspace(1, 2, 12, dtype=np.float32).reshape(4, 3))
    there = vmap(lambda row: row.astype(to))(x)
    back = vmap(lambda row: row.astype(to).astype("float32"))(x)
    assert there.dtype.name == to
    assert np.array_equal(back.numpy(), x.astype(to).numpy().astype(np.float32)) and not np.array_equal(back.numpy(), x.numpy())
