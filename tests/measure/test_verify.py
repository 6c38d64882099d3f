"""The verifier on arrays: bounds, special values, overflow, exactness, unwritten elements; the compare kernel against NumPy."""

from __future__ import annotations

import math
import signal
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from checks import in_child
from tilewright import devices, named_kernels
from tilewright.ir import KernelBuilder, dtype, exp, float16, float32, int32, log, minimum, sqrt, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.measure.checking import compiled_references as compiled_reference
from tilewright.measure.checking.compare import Checker, Comparer
from tilewright.measure.checking.exact_sums import drift, is_exact
from tilewright.measure.checking.verify import WORST, Expect, Verdict, check, expectations, likely_cause
from tilewright.measure.inputs import generate, generate_special
from tilewright.measure.operands import Operands, view


def scaled(n, type_="float32", factor=2.0):
    kb = KernelBuilder("scaled")
    i = kb.axis("i", n)
    x = kb.input("x", (n,), dtype(type_), range=(-50, 50) if "int" in type_ else None)
    kb.store("y", dtype(type_), (n,), (i,), x[i] * (factor if "float" in type_ else int(factor)))
    return kb.build()


def expect(kernel, whole=False, seed=0, **vars):
    inputs = generate(kernel, vars, seed, whole)
    return expectations(kernel, inputs, vars, whole)


def verdict(e, got):
    got = np.ascontiguousarray(got)
    return check(e, got.ctypes.data)


@pytest.mark.parametrize("type_", ["float64", "float32", "float16", "bfloat16"])
def test_the_nearest_float_is_right_and_four_ulps_off_is_not(type_):
    e = expect(scaled(3000, type_, 1.7))["y"]
    nearest = e.value.astype(dtype(type_).np)
    assert verdict(e, nearest).ok
    off = nearest.copy()
    off[1234] = (e.value[1234] * (1 + 24 * dtype(type_).eps)).astype(dtype(type_).np)
    got = verdict(e, off)
    assert got.error > 1 and "y[1234] is" in got.detail and "1 of 3000 elements wrong" in got.detail


def test_nan_where_the_reference_is_finite_is_wrong():
    e = expect(scaled(100))["y"]
    got = e.value.astype(np.float32)
    got[3] = np.nan
    assert verdict(e, got).error == WORST
    got[3] = np.inf
    assert verdict(e, got).error == WORST


def test_an_infinity_is_right_where_the_reference_just_fits():
    """65519.99 is 65504 in float16, and a sum that is off by its last place may well be infinite."""
    kb = KernelBuilder("edge")
    i, j = kb.axis("i", 4), kb.axis("j", 2)
    x = kb.input("x", (4, 2), float32)
    total = kb.sum("total", (i,), j, x[i, j])
    kb.store("y", dtype("float16"), (4,), (i,), total[i])
    e = expectations(
        kb.build(), {"x": np.array([[65519.0, 0.998], [-65519.0, -0.998], [65000.0, 400.0], [65519.0, 1.002]], np.float32)}, {}
    )["y"]
    inf = np.inf
    assert verdict(e, np.array([inf, -inf, 65408.0, inf], np.float16)).ok
    assert verdict(e, np.array([65504.0, -65504.0, 65408.0, 65504.0], np.float16)).ok
    for wrong in ([-inf, -inf, 65408.0, inf], [inf, -inf, inf, inf], [inf, -inf, 65408.0, -inf]):
        assert not verdict(e, np.array(wrong, np.float16)).ok


def test_nan_and_infinities_of_the_reference_must_be_met():
    kb = KernelBuilder("holes")
    i = kb.axis("i", 64)
    x = kb.input("x", (64,), float32)
    kb.store("y", float32, (64,), (i,), where(i < 8, 1.0 / (x[i] * 0.0), where(i < 16, x[i] * 0.0 / (x[i] * 0.0), x[i])))
    e = expect(kb.build())["y"]
    right = e.value.astype(np.float32)
    assert np.isinf(right[:8]).all() and np.isnan(right[8:16]).all() and not e.plain
    assert verdict(e, right).ok
    for at, bad in ((0, -right[0]), (0, 1e30), (9, 0.0), (20, np.nan)):
        got = right.copy()
        got[at] = bad
        assert not verdict(e, got).ok, (at, bad)


def test_overflow_of_the_output_type_is_infinity():
    e = expect(scaled(64, "float16", 60000.0))["y"]
    with np.errstate(over="ignore"):
        right = e.value.astype(np.float16)
    assert np.isinf(right).any() and verdict(e, right).ok
    right[np.isinf(right)] = np.nan
    assert not verdict(e, right).ok


@pytest.mark.parametrize("type_", ["int32", "int64", "int8"])
def test_integers_must_be_equal(type_):
    e = expect(scaled(500, type_))["y"]
    assert verdict(e, e.value).ok
    off = e.value.copy()
    off[7] += 1
    assert verdict(e, off).error == 2.0
    assert (e.stale() != e.value).all()


def test_elements_that_no_store_reaches_are_free():
    kb = KernelBuilder("even")
    i = kb.axis("i", 50)
    x = kb.input("x", (50,), float32)
    kb.store("y", float32, (100,), (i,), x[i], indices=(i * 2,))
    e = expect(kb.build())["y"]
    got = np.full(100, np.nan, np.float32)
    got[::2] = e.value[::2]
    assert verdict(e, got).ok
    got[2] = np.nan
    assert not verdict(e, got).ok


def test_a_masked_store_of_integers_is_free_where_masked():
    kb = KernelBuilder("some")
    i = kb.axis("i", 50)
    x = kb.input("x", (50,), int32, range=(1, 9))
    kb.store("y", int32, (50,), (i,), x[i], mask=x[i] < const(5, int32))
    e = expect(kb.build())["y"]
    got = np.where(e.value != 0, e.value, -1).astype(np.int32)
    assert (e.value == 0).any() and verdict(e, got).ok
    got[np.flatnonzero(e.value)[0]] ^= 1
    assert not verdict(e, got).ok


def test_whole_number_inputs_make_sums_of_products_exact():
    k = named_kernels.make("matmul", {"m": 20, "n": 20, "k": 100})
    assert is_exact(k, {})
    e = expect(k, whole=True)["c"]
    right = e.value.astype(np.float32)
    assert verdict(e, right).ok
    right[5] += 1
    assert not verdict(e, right).ok
    right = e.value.astype(np.float32)
    right[7] = np.nextafter(right[7], np.float32(1e9))
    assert not verdict(e, right).ok


@pytest.mark.parametrize(
    "name,exact", [("matmul", True), ("softmax", False), ("layernorm", False), ("sum_rows", True), ("gelu", False), ("transpose", True)]
)
def test_which_kernels_are_exact(name, exact):
    assert is_exact(named_kernels.make(name), {}) is exact


def test_sums_that_pass_the_mantissa_are_not_exact():
    assert not is_exact(named_kernels.make("matmul", {"m": 2, "n": 2, "k": 1 << 21}), {})
    assert is_exact(named_kernels.make("matmul", {"m": 2, "n": 2, "k": 1 << 21}, "float64"), {})


def test_a_scalar_output():
    kb = KernelBuilder("total")
    i = kb.axis("i", 30)
    x = kb.input("x", (30,), float32)
    s = kb.sum("s", (), i, x[i])
    kb.store("y", float32, (), (), s[()])
    e = expect(kb.build())["y"]
    got = verdict(e, np.float32(e.value[0] + 1))
    assert "y[] is" in got.detail


# the compare kernel ---------------------------------------------------------------------------------------------------
@pytest.mark.many
@pytest.mark.parametrize("n", [1024, 1027, 16384, 16385, 40000, 49155])
@pytest.mark.parametrize("type_", ["float32", "float64", "float16", "bfloat16", "int32", "int8"])
@pytest.mark.covering
def test_the_compare_kernel_agrees_with_numpy(type_, n):
    e = expect(scaled(n, type_, 3.0))["y"]
    comparer = Comparer(e, devices.get("cpu"))
    assert not comparer.why, comparer.why
    got = e.value.astype(dtype(type_).np)
    rng = np.random.default_rng(n)
    for _ in range(4):
        a = comparer.check(got.ctypes.data)
        b = check(e, got.ctypes.data)
        assert a.error == pytest.approx(b.error, rel=1e-5) and a.ok == b.ok and a.detail == b.detail
        at = rng.integers(n)
        got[at] = got[at] + dtype(type_).np.type(1)
    assert not a.ok


@pytest.mark.parametrize("at", [0, 1, 15, 16383, 16384, 20000, 20002])
def test_the_compare_kernel_sees_every_element(at):
    e = expect(scaled(20003))["y"]
    comparer = Comparer(e, devices.get("cpu"))
    for bad in (np.nan, np.inf, 1.0):
        got = e.value.astype(np.float32)
        assert comparer.check(got.ctypes.data).ok
        got[at] += bad
        v = comparer.check(got.ctypes.data)
        assert not v.ok and f"y[{at}]" in v.detail


def test_special_references_go_to_numpy():
    kb = KernelBuilder("tail")
    i = kb.axis("i", 2000)
    x = kb.input("x", (2000,), float32)
    kb.store("y", float32, (2000,), (i,), x[i] / minimum(i, 1).cast(float32))
    e = expect(kb.build())["y"]
    comparer = Comparer(e, devices.get("cpu"))
    assert comparer.why
    assert comparer.check(e.value.astype(np.float32).ctypes.data).ok


class Lazy:
    """A device whose compare kernel finds nothing wrong: it writes zeros to `worst`, and to so many elements after it."""

    def __init__(self, real, past=0):
        self.build, self.target, self.past = real.build, real.target, past

    def load(self, obj, signature, threads):
        n = math.prod(signature.params[-1].shape)
        nothing = types.SimpleNamespace()
        nothing.run = lambda pointers, vars=(): view(pointers[-1], dtype("float64"), (n + self.past,)).fill(0.0)
        return nothing


def test_a_device_that_writes_past_the_results_of_a_comparison_ends_there():
    e = expect(scaled(5000))["y"]
    assert in_child(lambda: Comparer(e, Lazy(devices.get("cpu"))).why) == "the compare kernel missed a planted error on this device"
    assert (
        in_child(lambda: Comparer(e, Lazy(devices.get("cpu"), past=1)).why, fatal=True)
        == f"the compiled code ended with signal {signal.SIGSEGV:d}"
    )


def test_a_device_whose_compare_kernel_does_nothing_is_not_trusted():
    e = expect(scaled(5000))["y"]
    comparer = Comparer(e, Lazy(devices.get("cpu")))
    assert "missed a planted error" in comparer.why
    got = e.value.astype(np.float32)
    got[9] = 1e9
    assert not comparer.check(got.ctypes.data).ok


def test_all_outputs_are_checked():
    k = named_kernels.make("layernorm_stats", {"m": 16, "n": 32})
    inputs = generate(k, {}, 0)
    expects = expectations(k, inputs, {})
    assert len(expects) == 3
    ops = Operands([b.name for b in k.buffers], [b.dtype for b in k.buffers], [b.shape for b in k.buffers], inputs)
    checker = Checker(expects, None)
    for name in ops.outputs:
        view(ops.places[name].checked, ops.places[name].dtype, ops.places[name].shape)[...] = expects[name].value.reshape(
            ops.places[name].shape
        )
    assert checker.check(ops, ops.checked).ok
    for name in ops.outputs:
        place = view(ops.places[name].checked, ops.places[name].dtype, ops.places[name].shape)
        kept = place.flat[1]
        place.flat[1] = kept + 1
        got = checker.check(ops, ops.checked)
        assert not got.ok and got.detail.startswith(name)
        place.flat[1] = kept


def test_an_infinity_of_the_other_sign_is_wrong_where_the_reference_just_fits() -> None:
    just = np.array([65510.0, -65510.0])
    e = Expect("y", float16, (2,), just, np.full(2, 1 / 50, np.float32))
    for signs, ok in (((1, -1), True), ((1, 1), False), ((-1, -1), False)):
        got = np.array([s * np.inf for s in signs], np.float16)
        assert check(e, got.ctypes.data).ok == ok


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
@pytest.mark.covering
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


def test_sums_of_a_few_values_may_drift() -> None:
    """Each of 4096 additions of the same few squares to the same large sum is rounded the same way: √K roundings do not bound that."""
    kb = KernelBuilder("spread")
    i, k, l, m = kb.axis("i", 8), kb.axis("n@mean", 4096), kb.axis("n@sum", 4096), kb.axis("m", 8)
    x = kb.input("x", (4096, 8), float32)
    mean = kb.sum("mean", (m,), k, x[k, m] * (1.0 / 4096))
    total = kb.sum("total", (i,), l, (x[l, i] - mean[i]) * (x[l, i] - mean[i]))
    kb.store("y", float32, (8,), (i,), total[i] * (1.0 / 4095))
    kernel = kb.build()
    assert drift(kernel, {}) == 64.0
    values = generate(kernel, {}, 0, whole=True)
    narrow, wide = (expectations(kernel, values, {}, whole)["y"].weight for whole in (False, True))
    assert (wide < narrow / 20).all() and (wide > narrow / 64.1).all()
    assert drift(named_kernels.make("matmul", {"m": 4, "n": 4, "k": 9}), {}) == 3.0


def test_scattered_sums_may_drift_too() -> None:
    kb = KernelBuilder("bins")
    i = kb.axis("n", 256)
    x, at = kb.input("x", (256,), float32), kb.input("at", (256,), int32, range=(0, 1))
    kb.store("y", float32, (2,), (i,), 0.1 * x[i], indices=(at[i],), combine="add")
    assert drift(kb.build(), {}) == 16.0


def test_a_quotient_of_whole_numbers_is_rounded() -> None:
    """What is added to a mean is off by a rounding in any order: a check for equality would refuse every schedule."""
    kb = KernelBuilder("mean_beside")
    i, k = kb.axis("m", 8), kb.axis("k", 5)
    x, many = kb.input("x", (8, 5), float32), kb.input("many", (8,), float32, range=(1.0, 9.0))
    total = kb.sum("total", (i,), k, x[i, k])
    kb.store("y", float32, (8,), (i,), x[i, 0] + total[i] / many[i])
    kb.store("z", float32, (8,), (i,), x[i // 2, 0] + total[i])
    kernel = kb.build()
    assert not is_exact(kernel, {})
    assert is_exact(replace(kernel, stores=kernel.stores[1:]), {})
