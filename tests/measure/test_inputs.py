"""Generated test data."""

import numpy as np
import pytest
from tilewright import kernels
from tilewright.ir import KernelBuilder, MeasureError, bool_, float32, int32, sym
from tilewright.measure.inputs import generate, shape


def gather(low, high):
    kb = KernelBuilder("pick")
    i = kb.axis("i", 1000)
    at = kb.input("at", (1000,), int32, range=(low, high))
    flag = kb.input("flag", (1000,), bool_)
    kb.store("y", int32, (1000,), (i,), at[i] + 0 * flag[i].cast(int32))
    return kb.build()


def test_same_seed_same_inputs_other_seed_others():
    k = kernels.make("matmul", {"m": 5, "n": 6, "k": 7})
    a, b, c = generate(k, {}, 0), generate(k, {}, 0), generate(k, {}, 1)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
        assert not np.array_equal(a[name], c[name])
    assert not np.array_equal(a["a"].ravel()[:30], a["b"].ravel()[:30])


def test_integers_fill_their_range_with_both_ends():
    made = generate(gather(-3, 9), {}, 0)
    assert made["at"].min() == -3 and made["at"].max() == 9
    assert made["flag"].dtype == np.bool_ and 300 < made["flag"].sum() < 700


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_floats_are_normal_or_small_whole_numbers(dtype):
    k = kernels.make(
        "add", {"n": 4000} if "n" in kernels.get("add").shape_names and len(kernels.get("add").shape_names) == 1 else None, dtype
    )
    normal = next(iter(generate(k, {}, 0).values())).astype(np.float64)
    assert abs(normal.mean()) < 0.1 and 0.9 < normal.std() < 1.1
    whole = next(iter(generate(k, {}, 0, whole=True).values())).astype(np.float64)
    assert (whole == np.round(whole)).all() and whole.min() == -4 and whole.max() == 4


def test_symbols_need_values():
    kb = KernelBuilder("copy")
    n = sym("n", 1, 100)
    i = kb.axis("i", n)
    x = kb.input("x", (n,), float32)
    kb.store("y", float32, (n,), (i,), x[i])
    k = kb.build()
    assert shape(k.inputs[0], k, {"n": 7}) == (7,)
    with pytest.raises(MeasureError, match="symbolic extent n: give it a value"):
        generate(k, {}, 0)
