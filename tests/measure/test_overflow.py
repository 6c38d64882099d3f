"""References in which values overflow on the way, inputs with a stated range, and what is said of references that are no numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright.ir import KernelBuilder, exp, float32, log, sqrt
from tilewright.ir.kernel import Kernel
from tilewright.measure.checking import compiled_references as compiled_reference
from tilewright.measure.checking.exact_sums import is_exact
from tilewright.measure.checking.verify import Verdict, check, expectations, likely_cause
from tilewright.measure.inputs import generate, generate_special

N = 4096
F = np.float32
Array = np.ndarray[Any, Any]


def kernel(f: Callable[[Any], Any], mask: Any = None, **more: Any) -> Kernel:
    """y[i] = f(x[i])."""
    kb = KernelBuilder("k")
    i = kb.axis("n", N)
    x = kb.input("x", (N,), float32, **more)
    kb.store("y", float32, (N,), i, f(x[i]), mask=None if mask is None else mask(i))
    return kb.build()


def judged(k: Kernel, results: Callable[[Array], Array], spoil: Callable[[Array], object] = lambda y: None) -> tuple[Verdict, Any]:
    """The verdict on float32 `results` of the random inputs, after `spoil`; and what was expected."""
    given = generate(k, {}, 0)
    e = expectations(k, given, {})["y"]
    with np.errstate(all="ignore"):
        y = np.ascontiguousarray(results(given["x"]), np.float32)
    spoil(y)
    return check(e, y.ctypes.data), e


def gate(x: Any) -> Any:
    return (x * 30.0) / (1.0 + exp(x * -30.0))


def gated(x: Array) -> Array:
    g = F(30) * x
    return np.asarray(g / (F(1) + np.exp(-g)))


def test_what_overflows_on_the_way_to_a_right_limit_is_right() -> None:
    verdict, e = judged(kernel(gate), gated)
    with np.errstate(all="ignore"):
        over = np.isinf(np.exp(F(-30) * generate(kernel(gate), {}, 0)["x"]))
    assert verdict.ok and over.sum() >= 2 and e.note == "" and e.special is None
    assert not e.value[over].any(), "the limit is 0, and is expected"


@pytest.mark.parametrize("value", [1e-20, np.nan, -np.inf, -89.0])
def test_what_is_wrong_where_it_overflows_is_found(value: float) -> None:
    def spoil(y: Array) -> None:
        y[int(np.argmin(generate(kernel(gate), {}, 0)["x"]))] = value

    assert not judged(kernel(gate), gated, spoil)[0].ok


def test_an_infinity_that_stays_is_expected() -> None:
    k = kernel(lambda x: log(exp(x * 100.0)))
    right, e = judged(k, lambda x: np.log(np.exp(F(100) * x)))
    wrong, _ = judged(k, lambda x: np.where(np.exp(F(100) * x) == np.inf, F(100) * x, np.log(np.exp(F(100) * x))))
    assert right.ok and not wrong.ok and "infinite in" in e.note


def test_most_of_a_reference_being_no_number_is_said() -> None:
    _, e = judged(kernel(lambda x: sqrt(x - 0.7)), lambda x: np.sqrt(x - F(0.7)))
    assert f"of {N} elements of y the reference is NaN in {int(np.isnan(e.value).sum())} on random inputs" in e.note and "range=" in e.note
    verdict, e = judged(kernel(lambda x: sqrt(x - 0.7), range=(0.7, 9)), lambda x: np.sqrt(x - F(0.7)))
    assert verdict.ok and e.note == ""


def test_a_mask_that_leaves_nothing_is_said() -> None:
    _, e = judged(kernel(lambda x: x * 2.0, mask=lambda i: i < 0), lambda x: x)
    assert e.note.startswith("no element of y is written")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("range", [(0.25, 1.75), (-2, 0), (0, 0.999), (100, 200)])
def test_stated_ranges_hold_for_all_test_data(dtype: Any, range: Any) -> None:
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 24), kb.axis("n", 40)
    x = kb.input("x", (24, 40), dtype, range=range)
    kb.store("y", float32, (24, 40), (i, j), x[i, j].cast(float32))
    k = kb.build()
    random, whole = generate(k, {}, 0)["x"], generate(k, {}, 0, whole=True)["x"]
    special = generate_special(k, {}, 0)["x"]
    for a in (random, whole, special):
        v = a.astype(np.float64)
        assert v.min() >= range[0] and v.max() <= range[1]
    assert len(np.unique(random.astype(np.float64))) > 3
    assert np.array_equal(whole.astype(np.float64), np.rint(whole.astype(np.float64))) and (dtype == "float8_e5m2" or is_exact(k, {}))


def test_causes() -> None:
    nan, inf = float("nan"), float("inf")
    said = [
        likely_cause(*a)
        for a in ((nan, 1.0, 1e30, 3, 3), (nan, 1.0, 1e30, 0, 3), (inf, 1.0, 1e30, 0, 3), (1.0, nan, 1e30, 0, 1), (1.1, 1.0, 9.0, 0, 1))
    ]
    assert [s[:14] for s in said] == ["nothing was st", "NaN comes of m", "a value on the", "the kernel as ", "just outside w"]
    assert "threads race" in likely_cause(2.0, 1.0, 1e6, 0, 9)


@pytest.mark.slow
def test_compiled_references_ask_numpy_where_values_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows where a gate overflows are as NumPy has them; where these are too many, NumPy makes the whole."""
    monkeypatch.setattr(compiled_reference, "HOST_ELEMENTS", 0)
    inside = kernel(gate, range=(-2, 2))
    found = compiled_reference.compiled_expectations(inside, generate(inside, {}, 0), False)
    assert found is not None and found["y"].note == ""
    beyond = kernel(gate)
    given = generate(beyond, {}, 0)
    with np.errstate(all="ignore"):
        y = gated(given["x"]).astype(F)
    mended = compiled_reference.compiled_expectations(beyond, given, False)
    assert mended is not None and check(mended["y"], y.ctypes.data).ok
    y[int(np.argmin(given["x"]))] = -1e-20
    assert not check(mended["y"], y.ctypes.data).ok
    monkeypatch.setattr(compiled_reference, "MENDED", 1)
    assert compiled_reference.compiled_expectations(beyond, given, False) is None
