"""The verifier on arrays: bounds, special values, exactness, unwritten elements; the compare kernel against NumPy."""

import math
import signal
import types

import numpy as np
import pytest
from checks import in_child
from tilewright import devices, kernels
from tilewright.ir import KernelBuilder, dtype, float16, float32, int32, minimum, where
from tilewright.ir.node import const
from tilewright.measure.checking.compare import Checker, Comparer
from tilewright.measure.checking.exact_sums import is_exact
from tilewright.measure.checking.verify import WORST, Expect, check, expectations
from tilewright.measure.inputs import generate
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
    k = kernels.make("matmul", {"m": 20, "n": 20, "k": 100})
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
    assert is_exact(kernels.make(name), {}) is exact


def test_sums_that_pass_the_mantissa_are_not_exact():
    assert not is_exact(kernels.make("matmul", {"m": 2, "n": 2, "k": 1 << 21}), {})
    assert is_exact(kernels.make("matmul", {"m": 2, "n": 2, "k": 1 << 21}, "float64"), {})


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
    k = kernels.make("layernorm_stats", {"m": 16, "n": 32})
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
