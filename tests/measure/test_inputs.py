"""Generated test data, and what is certain about a result on special values: no right schedule of any kernel is blamed."""

from __future__ import annotations

import random
import shutil
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from checks import in_child
from random_schedules import draw
from thorough import amount
from tilewright import devices, named_kernels
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder, MeasureError, bool_, dtype, float32, int32, maximum, sym, where
from tilewright.ir.evaluation import evaluate_kinds
from tilewright.ir.functions import erf, exp
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.measure.checking.verify import Expect, check, special_expectations
from tilewright.measure.inputs import generate, generate_special, shape
from tilewright.measure.operands import Operands
from tilewright.opts import apply
from tilewright.renderers import render

INF, NAN, BIG = np.inf, np.nan, 3e38
DEVICES = ["cpu", *(["cpu:c"] if shutil.which("gcc") else [])]


def pointwise(f, *columns, type_=float32):
    """(value, loose, unsure) of f over columns of numbers."""
    kb = KernelBuilder("f")
    n = len(columns[0])
    i = kb.axis("i", n)
    xs = [kb.input(f"x{c}", (n,), type_) for c in range(len(columns))]
    kb.store("y", type_, (n,), (i,), f(*(x[i] for x in xs)))
    value, _, loose, unsure = evaluate_kinds(kb.build(), {f"x{c}": np.array(v, type_.np) for c, v in enumerate(columns)})["y"]
    return value, *(np.zeros(n, bool) if m is None else m for m in (loose, unsure))


def summed(rows, of=lambda x: x):
    kb = KernelBuilder("s")
    m, n = len(rows), len(rows[0])
    i, j = kb.axis("i", m), kb.axis("j", n)
    x = kb.input("x", (m, n), float32)
    total = kb.sum("total", (i,), j, of(x[i, j]))
    kb.store("y", float32, (m,), (i,), total[i])
    value, _, loose, unsure = evaluate_kinds(kb.build(), {"x": np.array(rows, np.float32)})["y"]
    return value, *(np.zeros(m, bool) if k is None else k for k in (loose, unsure))


def test_products_and_sums_of_two():
    value, loose, unsure = pointwise(lambda a, b: a * b, [0.0, -0.0, 0.0, BIG, 1e-30, INF, 2.0], [5.0, 5.0, INF, BIG, 1e-30, -1.0, NAN])
    np.testing.assert_array_equal(value[[0, 1, 2, 5, 6]], [0.0, -0.0, NAN, -INF, NAN])
    assert np.signbit(value[1]) and not unsure[:3].any()
    assert loose.tolist() == [False, False, False, True, False, False, False]  # fused with an addition, the large product need not overflow
    value, loose, unsure = pointwise(lambda a, b: a + b, [-0.0, 0.0, 1.5, BIG, INF, INF], [-0.0, -0.0, -1.5, BIG, -INF, BIG])
    assert np.signbit(value[:3]).tolist() == [True, False, False] and not unsure.any()
    np.testing.assert_array_equal(value[3:], [INF, NAN, INF])  # neither operand is a product: it overflows in every schedule
    assert not loose.any()


def test_what_rounding_hides_is_loose():
    # Φ(−∞) is 0 give or take a rounding, and times −∞ that may be NaN or not
    value, loose, _ = pointwise(lambda x: x * 0.5 * (erf(x * 0.7071) + 1.0), [-INF, INF, NAN, 1.0])
    assert loose.tolist() == [True, False, False, False] and value[1] == INF and np.isnan(value[2])
    # a weight that is 0 in float32 and tiny in float64
    _, loose, _ = pointwise(lambda x, y: exp(x) * y, [-200.0, -1.0, -INF], [INF, INF, INF])
    assert loose.tolist() == [True, False, False]
    # NaN comes whatever else is in doubt
    value, loose, _ = pointwise(lambda x, y: x * x + y, [BIG, BIG], [NAN, 1.0])
    assert loose.tolist() == [False, True] and np.isnan(value[0])


def test_which_zero_is_larger_is_not_defined():
    _, loose, unsure = pointwise(maximum, [0.0, -0.0, -0.0, 0.0], [-0.0, -0.0, -1.0, NAN])
    assert unsure.tolist() == [True, False, False, False] and not loose.any()
    _, _, unsure = pointwise(lambda x: where(x < 0.0, -x, x), [0.0, -0.0, 1.0, -1.0])
    assert not unsure.any()


@pytest.mark.parametrize("type_", ["float64", "float32", "float16"])
def test_the_largest_number_of_a_type_is_one(type_):
    """And no infinity: the larger of it and another number is it, and its size is."""
    top = float(np.finfo(type_).max)
    value, loose, _ = pointwise(maximum, [top, -top, INF], [0.0, -1.0, top], type_=dtype(type_))
    assert value.tolist() == [top, -1.0, INF] and not loose.any()
    value, loose, _ = pointwise(abs, [top, -top, -INF], type_=dtype(type_))
    assert value.tolist() == [top, top, INF] and not loose.any()


def test_sums_that_overflow_in_some_order_are_loose():
    value, loose, unsure = summed(
        [
            [BIG, BIG, -BIG, -BIG],
            [INF, 1.0, 2.0, 3.0],
            [INF, -INF, 0.0, 0.0],
            [INF, -BIG, -BIG, 0.0],
            [-0.0, -0.0, -0.0, -0.0],
            [1e-40, 0, 0, 0],
        ]
    )
    assert loose.tolist() == [True, False, False, True, False, False] and unsure[4]
    assert value[1] == INF and np.isnan(value[2]) and value[5] == np.float32(1e-40)


def test_where_only_a_masked_weight_meets_it_an_infinity_may_show_or_not():
    kernel = named_kernels.make("attention", {"b": 1, "h": 1, "s": 9, "d": 4})
    rng = np.random.default_rng(0)
    x = {t: rng.standard_normal((1, 1, 9, 4)).astype(np.float32) for t in "qkv"}
    x["v"][0, 0, 5, 2] = INF
    _, _, loose, _ = evaluate_kinds(kernel, x)["y"]
    assert loose[0, 0, :5, 2].all() and not loose[0, 0, 5:].any() and not loose[..., [0, 1, 3]].any()


@pytest.mark.parametrize("type_", ["float32", "float16", "bfloat16", "float64"])
def test_inputs_have_everything(type_):
    kernel = (
        named_kernels.make("add", {"m": 64, "n": 80}, type_)
        if "m" in named_kernels.get("add").shape_names
        else named_kernels.make("add", {"n": 5120}, type_)
    )
    x = generate_special(kernel, {}, 3)[kernel.inputs[0].name].astype(np.float64)
    smallest = (
        float(dtype(type_).np.type(1)) and {"float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126, "float64": 2.0**-1022}[type_]
    )
    assert np.isnan(x).any() and (x == INF).any() and (x == -INF).any()
    assert ((x == 0) & np.signbit(x)).any() and ((x == 0) & ~np.signbit(x)).any()
    assert ((x != 0) & (np.abs(x) < smallest)).sum() > 8
    assert (np.isfinite(x)).mean() > 0.9
    calm = generate_special(kernel, {}, 3, wild=False, subnormal=False)[kernel.inputs[0].name].astype(np.float64)
    assert np.isfinite(calm).all() and not ((calm != 0) & (np.abs(calm) < smallest)).any()


@pytest.mark.slow
def test_integers_stay_in_their_range_and_reach_its_ends():
    kernel = named_kernels.make("embedding", {"v": 11, "m": 40, "n": 16} if "m" in named_kernels.get("embedding").shape_names else None)
    ids = next(b for b in kernel.inputs if b.dtype.is_int)
    x = generate_special(kernel, {}, 0)[ids.name]
    assert (x.min(), x.max()) == ids.range


# no right schedule is blamed ------------------------------------------------------------------------------------------
def run(case, devices):
    """What is wrong with a schedule on special inputs, wild ones and then calm ones, on any of the devices, or ''."""
    loaded = []
    for device in devices:
        source = render(lower(apply(case.kernel, case.opts, device.target)), device.target)
        loaded.append((device.load(device.build(source), source.signature, case.threads), source))
    return "; ".join(said for wild in (True, False) if (said := on_special(case, loaded, wild)))


def on_special(case, loaded, wild):
    inputs = generate_special(case.kernel, case.vars, case.seed, wild, subnormal="bf16" not in str(case.opts))
    expect = special_expectations(case.kernel, inputs, case.vars)
    return "; ".join(said for exe, source in loaded if (said := judged(case, source, exe, inputs, expect)))


def judged(case, source, exe, inputs, expect):
    kernel = case.kernel
    memory = Operands(
        [b.name for b in kernel.buffers], [b.dtype for b in kernel.buffers], [shape(b, kernel, case.vars) for b in kernel.buffers], inputs
    )
    memory.poison(memory.checked, {n: s for n, e in expect.items() if (s := e.stale()) is not None})
    exe.run(memory.checked, [case.vars[s] for s in source.signature.symbols])
    places = dict(zip(memory.names, memory.checked, strict=True))
    found = [check(e, places[n]) for n, e in expect.items() if e.value.size]
    return "; ".join(f"{case} in {source.target.lang}: {v.detail}" for v in found if not v.ok)


@pytest.mark.slow
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering(each=2)
def test_no_right_schedule_is_blamed(name, request):
    """Random ones, of which the first is compiled as C too (`tests/devices/test_cpu_c.py` compares the two on more)."""
    llvm, *c = (devices.get(n) for n in DEVICES)
    rng = random.Random(name)
    for i, case in enumerate(draw(name, rng.randrange, host_only=True, among=("host",)) for _ in range(amount(request, 1, 3))):
        said = in_child(lambda case=case, on=[llvm, *(c if i == 0 else ())]: run(case, on))
        assert not said, said


def scaled(kb):
    """A scale that is written beside the right operand: what overflows on the way depends on the order."""
    i, j, k = kb.axis("m", 13), kb.axis("n", 37), kb.axis("k", 19)
    a, b, s = kb.input("a", (13, 19), float32), kb.input("b", (19, 37), float32), kb.input("s", (19,), float32)
    kb.store("y", float32, (13, 37), (i, j), kb.sum("v", (i, j), k, a[i, k] * (b[k, j] * s[k]))[i, j])


def drawdown(kb):
    """Differences with an extreme that may be a zero of either sign."""
    t, j = kb.axis("t", 13), kb.axis("n", 21)
    x = kb.input("x", (13, 21), float32)
    kb.store("y", float32, (13, 21), (t, j), kb.scan("max", "top", (t, j), t, x[t, j])[t, j] - x[t, j])


def multiplied(kb):
    """Products that are subnormal on the way, or are not."""
    i, j = kb.axis("m", 40), kb.axis("n", 9)
    x = kb.input("x", (40, 9), float32)
    kb.store("y", float32, (40,), (i,), kb.reduce("mul", "p", (i,), j, x[i, j])[i])


@pytest.mark.slow
@pytest.mark.parametrize("written", [scaled, drawdown, multiplied])
def test_no_right_schedule_of_odd_kernels_is_blamed(written):
    kb = KernelBuilder(written.__name__)
    written(kb)
    kernel, cpu = normalise(kb.build()), devices.get("cpu")
    schedules = [(), *(o for o in starts(kernel, cpu.target, 1)[:2] if "REASSOC" not in apply(kernel, o, cpu.target).effects)]
    for opts in schedules:
        for seed in range(6):
            case = SimpleNamespace(kernel=kernel, opts=opts, vars={}, seed=seed, threads=1)
            said = in_child(lambda case=case: run(case, [cpu]))
            assert not said, said


def test_enough_is_certain():
    """A check that leaves most open finds nothing."""
    for name, least in {
        "gelu": 0.95,
        "softmax": 0.8,
        "matmul": 0.5,
        "attention": 0.4,
        "layernorm": 0.5,
        "max_pool2d": 0.3,
        "argmax": 1.0,
    }.items():
        kernel = named_kernels.make(name, {"m": 40, "n": 70, "k": 33} if name == "matmul" else named_kernels.get(name).odd_shape)
        for e in special_expectations(kernel, generate_special(kernel, {}, 1), {}).values():
            loose = 0.0 if e.free is None else e.free.mean()
            assert e.strict >= 0.3 and loose <= 1 - least, (name, e.strict, loose)


E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)


def accepts(got: Any, reference: float) -> bool:
    """Whether one element is a right result where float64 gives `reference`, with no error but the last rounding."""
    name = "float8_e4m3" if got.dtype == E4M3 else "float8_e5m2"
    value = np.array([reference])
    with np.errstate(all="ignore"):
        special = ~np.isfinite(value.astype(got.dtype).astype(np.float64))
    weight = 1.0 / np.maximum(np.abs(value) * dtype(name).eps / 2, 2.0**-20)
    expect = Expect("c", dtype(name), (1,), value, weight.astype(np.float32), special if special.any() else None)
    return check(expect, got.ctypes.data).error <= 1.0


@pytest.mark.parametrize(
    ("got", "reference", "right"),
    [
        (448.0, 460.0, True), (np.nan, 460.0, True), (np.nan, 500.0, True), (np.nan, np.inf, True), (np.nan, 400.0, False),
        (-448.0, 460.0, False), (448.0, 700.0, False), (1.0, np.nan, False),
    ],
)  # fmt: skip
def test_too_large_is_nan_where_a_type_has_no_infinity(got: float, reference: float, right: bool) -> None:
    assert accepts(np.array([got]).astype(E4M3), reference) == right


@pytest.mark.parametrize(("got", "reference", "right"), [(np.inf, 60000.0, True), (np.inf, 50000.0, False), (np.nan, 60000.0, False), (np.inf, 1e6, True), (np.nan, 1e6, False)])  # fmt: skip
def test_the_other_type_has_infinities(got: float, reference: float, right: bool) -> None:
    assert accepts(np.array([got]).astype(E5M2), reference) == right


@pytest.mark.parametrize(("name", "largest"), [("float8_e4m3", 448.0), ("float8_e5m2", 57344.0)])
def test_special_inputs_reach_the_ends_of_the_range(name: str, largest: float) -> None:
    kernel = named_kernels.make("matmul_mixed", {"m": 64, "n": 64, "k": 64}, name)
    x = generate_special(kernel, {}, 0, wild=False)["a"].astype(np.float64)
    assert np.isfinite(x).all() and np.abs(x).max() == largest
    tiny = np.abs(x[x != 0]).min()
    assert tiny == float(ml_dtypes.finfo(dtype(name).np).smallest_subnormal)


def gather(low, high):
    kb = KernelBuilder("pick")
    i = kb.axis("i", 1000)
    at = kb.input("at", (1000,), int32, range=(low, high))
    flag = kb.input("flag", (1000,), bool_)
    kb.store("y", int32, (1000,), (i,), at[i] + 0 * flag[i].cast(int32))
    return kb.build()


def test_same_seed_same_inputs_other_seed_others():
    k = named_kernels.make("matmul", {"m": 5, "n": 6, "k": 7})
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
    k = named_kernels.make("add", {"m": 40, "n": 1000}, dtype)
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
