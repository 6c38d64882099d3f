"""Conversions that users write round, and numbers take the type of the array beside them: alike in NumPy's evaluation, in kernels and in
captured functions."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import jit, nn, xp
from tilewright.ir import UsageError, bfloat16, float8_e4m3, float8_e5m2, float16, float32
from tilewright.ir.dtypes import dtype as dtype_of
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import placeholder
from tilewright.lower import lower
from tilewright.lower.expr import terms
from tilewright.opts import apply
from tilewright.program.program import Instr, statements
from tilewright.targets import named
from tilewright.tensor import Tensor, grad
from tilewright.tensor.fusion.call_list import KernelCall, call_list
from tilewright.tensor.graph.nodes import walk
from tilewright.tensor.graph.promotion import promote

NARROW = ["float16", "bfloat16", "float8_e4m3", "float8_e5m2"]
X = np.array([1.0001, 70000.0, -3.4e38, 1e-8, 2049.0, 0.3, -1.7, np.inf, np.nan, 500.0, -0.0], np.float32)


def ways(f: Callable[..., Any], *arrays: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """What `f` gives by NumPy, by kernels, and captured; the captured one on more elements too."""
    found = [f(*map(Tensor, arrays)).numpy()]
    with monkeypatch.context() as m:
        m.setenv("TILEWRIGHT_SMALL", "0")
        found.append(f(*map(Tensor, arrays)).numpy())
    found.append(jit(f)(*map(Tensor, arrays)).numpy())
    long = [np.concatenate([a] * 1000) for a in arrays]
    return [*found, f(*map(Tensor, long)).numpy()[: len(arrays[0])]]


def same(f: Callable[..., Any], want: np.ndarray, *arrays: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    for way, got in zip(("numpy", "kernel", "jit", "long"), ways(f, *arrays, monkeypatch=monkeypatch), strict=True):
        np.testing.assert_array_equal(got.astype(want.dtype), want, way)


def rounded(x: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return x.astype(dtype_of(name).np).astype(x.dtype)


@pytest.mark.parametrize("name", NARROW)
def test_there_and_back_rounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    same(lambda x: x.astype(name).astype("float32"), rounded(X, name), X, monkeypatch=monkeypatch)


@pytest.mark.parametrize("name", NARROW)
def test_in_the_middle_of_an_expression(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = X[np.isfinite(X)]
    with np.errstate(all="ignore"):
        want = x - rounded(x * np.float32(3), name)
        chosen = np.where(rounded(x, name) == x, np.float32(1), np.float32(0))
    same(lambda x: x - (x * 3).astype(name).astype("float32"), want, x, monkeypatch=monkeypatch)
    same(lambda x: (x.astype(name).astype("float32") == x).astype("float32"), chosen, x, monkeypatch=monkeypatch)


def test_float32_between_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([0.1, 1e300, 1 + 2.0**-30, -1e-60])
    with np.errstate(all="ignore"):
        want = x.astype(np.float32).astype(np.float64)
    same(lambda x: x.astype("float32").astype("float64"), want, x, monkeypatch=monkeypatch)
    number = np.full(4, np.float64(np.float32(0.1)))
    same(lambda x: xp.full((), 0.1, dtype="float32").astype("float64") * (x == x).astype("float64"), number, x, monkeypatch=monkeypatch)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_float64_is_rounded_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    half = 2.0**-11 if name == "float16" else 2.0**-8
    x = np.array([1 + half + 2.0**-40, 1 + half, 1 + half - 2.0**-40, 1 + 3 * half - 2.0**-40, 65519.999999999])
    unit = 2 * half
    want = np.array([1 + unit, 1.0, 1.0, 1 + unit, 65504.0 if name == "float16" else 65536.0])
    same(lambda x: x.astype(name).astype("float64"), want, x, monkeypatch=monkeypatch)


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "int64"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.covering
def test_whole_numbers_round(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = np.array([0, 1, 127, 100], kind) if kind == "int8" else np.array([2049, 65535, 4097, 257], kind)
    with np.errstate(all="ignore"):
        want = n.astype(dtype_of(name).np).astype(np.float32)
    same(lambda n: n.astype(name).astype("float32"), want, n, monkeypatch=monkeypatch)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_numbers_take_the_type_of_the_array(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = dtype_of(name).np
    x = np.array([1.7, 1.5, 0.1], np.float32).astype(kind)
    wide, number = x.astype(np.float32), np.float32(np.float32(1.7).astype(kind))
    functions: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (lambda x, k: x == k, lambda x, k: x == k),
        (lambda x, k: x > k, lambda x, k: x > k),
        (lambda x, k: x - k, lambda x, k: x - k),
        (lambda x, k: xp.maximum(x, k) - x, lambda x, k: np.maximum(x, k) - x),
        (lambda x, k: xp.where(x > 1, k, x) - x, lambda x, k: np.where(x > 1, k, x) - x),
        (lambda x, k: x.clip(0.0, k) - x, lambda x, k: np.clip(x, 0, k) - x),
    ]
    for ours, numpys in functions:
        want = numpys(wide, number).astype(np.float32)
        at_once = numpys(x, number.astype(kind)).astype(np.float32)  # NumPy rounds the result of every operation
        found = ways(lambda x, f=ours: f(x, 1.7).astype("float32"), x, monkeypatch=monkeypatch)
        for got, expected in zip(found, (at_once, want, want, at_once), strict=True):
            np.testing.assert_array_equal(got, expected)
        changing = jit(lambda x, k, f=ours: f(x, k).astype("float32"))
        for _ in range(2):
            changing(Tensor(x), 1.5)
            np.testing.assert_array_equal(changing(Tensor(x), 1.7).numpy(), want)


def test_functions_keep_the_digits_of_their_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function's definition holds is not rounded to the array's type: eps of 1e-12 is no 0."""
    from tilewright.tensor import nn

    x = np.zeros((2, 4), np.float16)
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    assert (nn.normalize(Tensor(x)).numpy() == 0).all()


def test_a_gradient_passes_through() -> None:
    x = np.array([1.0001, 2.5], np.float32)
    got = grad(lambda x: (x.astype("float16").astype("float32") * Tensor(np.array([3.0, 5.0], np.float32))).sum())(Tensor(x))
    assert got.dtype.name == "float32"
    np.testing.assert_array_equal(got.numpy(), [3, 5])


def test_sums_in_a_type_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([[1.0001, 2049.0], [70000.0, 1.0]], np.float32)
    with np.errstate(all="ignore"):
        want = x.astype(np.float16).astype(np.float32).sum(1).astype(np.float16)
        assert want[0] == 2048
    same(lambda x: x.sum(1, dtype="float16"), want, x, monkeypatch=monkeypatch)


@pytest.mark.usefixtures("graphs")
def test_what_loses_nothing_costs_nothing() -> None:
    x = Tensor(np.ones(4, np.float16))
    assert x.astype("float32").astype("float16").node is x.node
    assert x.astype("float16", copy=False).astype("float32").astype("float16").node is x.node
    y = (Tensor(np.ones(4, np.float32)) * 3).astype("float16")
    assert y.astype("float32").astype("float16").node is y.node


# what is decided by 16-bit values ---------------------------------------------------------------------------------
DECIDED: dict[str, Callable[..., Any]] = {
    "equal": lambda y, z: z == y,
    "not equal": lambda y, z: z != y,
    "less": lambda y, z: y < z,
    "at most": lambda y, z: z <= y,
    "condition": lambda y, z: xp.where(y - z, 1, 0),
    "truth": lambda y, z: (y - z).astype("bool"),
    "sign": lambda y, z: xp.sign(z - y),
    "any": lambda y, z: (y != z).any(),
    "argmax": lambda y, z: xp.argmax(y),
    "argmin": lambda y, z: xp.argmin(y),
    "infinite": lambda y, z: xp.isinf(y),
    "finite": lambda y, z: xp.isfinite(y),
    "whole": lambda y, z: xp.floor(y),
    "up": lambda y, z: xp.ceil(y),
    "nearest": lambda y, z: xp.round(y),
    "number": lambda y, z: y.astype("int32"),
    "quotient": lambda y, z: y // 2,
    "remainder": lambda y, z: y % 2,
}


@pytest.mark.parametrize("what", DECIDED)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.covering
def test_what_is_decided_is_decided_by_what_is_seen(name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every step were stored: in one kernel, and where one of the two is stored by another."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = Tensor(np.random.default_rng(2).uniform(0.1, 1.6, 3000).astype(dtype_of(name).np))
    scale = 40000 if what in ("infinite", "finite") else 100

    def stored(y: Tensor) -> Tensor:
        return Tensor(y.numpy())

    def whole(x: Tensor, step: Callable[[Tensor], Tensor] = lambda y: y) -> Any:
        y = step((1.7 - x) * scale)
        z = step(xp.maximum(y, x - 300))
        return DECIDED[what](y, z), z

    want = whole(x, stored)[0].numpy()
    for got in (whole(x)[0], jit(whole)(x)[0], jit(lambda x: whole(x)[0])(x)):
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.usefixtures("graphs")
def test_what_is_exact_is_not_rounded_again() -> None:
    """Loads, and choices between what was loaded, are numbers of their type."""
    x, y = (Tensor(np.ones(4, dtype_of("float16").np)) for _ in range(2))
    top = xp.maximum(x, -y).max()
    assert all(n.arg != "rounded" for n in walk([(x == y).node, (x[1:] < y[1:]).node, (top == x).node, xp.argmax(x).node]))
    assert any(n.arg == "rounded" for n in walk([(x * y == x).node]))


# numbers of a function's own --------------------------------------------------------------------------------------
OWN: dict[str, Callable[..., Any]] = {
    "mean": lambda x: x.mean(),
    "gradient of a mean": lambda x: grad(lambda x: (x * x).mean())(x)[:1] * 1000,
    "gradient of erf": lambda x: grad(lambda x: x.erf().sum())(x)[:1],
    "gradient of a loss": lambda x: grad(lambda x: nn.mse_loss(x, x * 0.5))(x)[:1] * 1000,
    "norm": lambda x: xp.linalg.vector_norm(x, ord=3),
    "gradient of a norm": lambda x: grad(lambda x: xp.linalg.vector_norm(x, ord=3))(x)[:1] * 1000,
}


@pytest.mark.parametrize("what", OWN)
@pytest.mark.parametrize("size", [259, 1106])
@pytest.mark.covering
def test_a_functions_own_numbers_are_not_rounded(what: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1106 is 1104 in bfloat16; 2/√π and 1/3 are others too."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = np.full(size, 1.25)
    f = OWN[what]
    want = f(Tensor(x)).numpy()
    for run in (f, jit(f)):
        got = run(Tensor(x.astype(dtype_of("bfloat16").np))).numpy().astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=2.0**-8 if "gradient" in what else 2.0**-9)


ARRAYS = (np.array(2.0), np.arange(3.0), np.arange(6.0).reshape(2, 3), np.arange(24.0).reshape(2, 3, 4))
PARTS = (True, np.array(True), np.array(False), 0, slice(None), slice(1, 2), None, ..., np.array([1, 0]), np.array([[0], [1]]))


def given(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Tensor(k) if isinstance(k, np.ndarray) else k for k in key)


def read(x: Any, key: tuple[Any, ...]) -> Any:
    try:
        return np.asarray(x[key])
    except (IndexError, tw.UsageError):
        return None


@pytest.mark.parametrize("rank", range(4))
def test_reading_and_writing(rank: int) -> None:
    x = ARRAYS[rank]
    keys = [k for r in (1, 2, 3) for k in itertools.product(PARTS, repeat=r)]
    for key in (k for k in keys if any(p is True or getattr(p, "dtype", None) == np.bool_ for p in k)):
        want, got = read(x, key), read(Tensor(x), given(key))
        assert (want is None) == (got is None), key
        if want is None:
            continue
        assert want.shape == got.shape and (want == got).all(), key
        y, z = x.copy(), Tensor(x.copy())
        y[key] = 7.0
        z[given(key)] = 7.0
        assert (z.numpy() == y).all(), key


def test_values_must_fit_where_nothing_is_written() -> None:
    x = Tensor(np.zeros((2, 3), np.float32))
    with pytest.raises(tw.UsageError, match="cannot be broadcast"):
        x[False] = Tensor(np.zeros((4, 3), np.float32))
    assert xp.ones((2, 3))[xp.asarray(False)].shape == (0, 2, 3) and x.index_put((False, Tensor([0])), 1.0).numpy().sum() == 0


def test_a_captured_function_does_not_know_a_mask() -> None:
    f = tw.jit(lambda x: x[x.sum() > 0])
    with pytest.raises(tw.UsageError, match="being captured"):
        f(Tensor(np.ones(3, np.float32)))


TYPES = {"float8_e4m3": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_values_and_arithmetic(name: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(TYPES[name]) for shape in ((5, 24), (24, 7)))
    x, y = Tensor(a), Tensor(b)
    assert x.dtype.name == name and x.numpy().dtype == a.dtype and np.shares_memory(x.numpy(), a)
    wide = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose((x.astype("float32") @ y.astype("float32")).numpy(), wide, rtol=1e-5, atol=1e-5)
    assert ((x @ y).numpy() == wide.astype(TYPES[name])).mean() > 0.9  # a sum in another order may round to a neighbour
    np.testing.assert_array_equal((x * 2.0).numpy(), (a.astype(np.float32) * 2).astype(TYPES[name]))
    np.testing.assert_array_equal(x[1:3, ::2].numpy(), a[1:3, ::2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).numpy(), a)


@pytest.mark.slow
def test_casts() -> None:
    x = Tensor([1.0, 2.1, 500.0, -3e5])
    np.testing.assert_array_equal(x.astype("fp8").numpy().astype(np.float32), [1, 2, np.nan, np.nan])
    np.testing.assert_array_equal(x.astype("float8_e5m2").numpy().astype(np.float32), [1, 2, 512, -np.inf])


def test_types_of_results() -> None:
    assert promote(float8_e4m3, float8_e5m2) is float32  # neither holds the other
    assert promote(float8_e4m3, bfloat16) is bfloat16 and promote(float16, float8_e5m2) is float16
    assert xp.isdtype(float8_e4m3, "real floating") and xp.finfo(float8_e4m3).max == 448.0 and xp.finfo("float8_e5m2").max == 57344.0


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="which is another type than float8_e4m3"):
        Tensor(np.zeros(3, ml_dtypes.float8_e4m3))  # the one with infinities


Function = Callable[..., Any]

CANCELS: dict[str, Function] = {
    "difference of squares": lambda m, x, y: m.sqrt(x * x - y * y),
    "difference of products": lambda m, x, y: m.sqrt(x * y - y * x),
    "negated": lambda m, x, y: m.sqrt(x * y + (-x) * y),
    "the square of a modulus": lambda m, x, y: m.sqrt((x * x + y * y) - (x * x - y * (-y))),
    "imaginary part of z times its conjugate": lambda m, x, y: m.sqrt(x * (-y) + y * x),
    "discriminant": lambda m, x, y: m.sqrt((2 * x) * (2 * y) - 4 * (x * y)),
    "determinant": lambda m, x, y: m.sqrt(x * (3 * y) - (3 * y) * x),
    "a product that is used twice": lambda m, x, y: m.sqrt((x * y + 1) - x * y - 1 + 0 * x),
    "twice in one sum": lambda m, x, y: m.sqrt(x * y - (x * y)),
    "a product that is an argument as well": lambda m, x, y, p: m.sqrt(x * y - p) + m.sqrt(p - x * y),
    "three products": lambda m, x, y: m.sqrt(0.3 * x + 0.4 * (x - y) + 0.3 * (-y)),
    "polynomial": lambda m, x, y: ((0.3 * x - 1.7) * x + 2.1) * x - 0.7,
    "taps": lambda m, x, y: 0.11 * x[:-2] - 0.37 * x[1:-1] + 0.11 * x[2:],
}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CANCELS)
@pytest.mark.covering
def test_arithmetic_is_numpys(name: str, kind: type[np.floating[Any]]) -> None:
    f = CANCELS[name]
    x = np.random.default_rng(0).standard_normal(20_003).astype(kind)
    given = [x, x.copy(), x * x][: f.__code__.co_argcount - 1]
    with np.errstate(all="ignore"):
        want = f(np, *given)
    tensors = [Tensor(a) for a in given]
    for got in (f(xp, *tensors).numpy(), jit(lambda *a: f(xp, *a))(*tensors).numpy()):
        np.testing.assert_array_equal(got, want)


def test_the_largest_product_is_taken_from_itself() -> None:
    """A row's maximum in one kernel, or in another one: the product is rounded in both."""
    x = np.random.default_rng(1).standard_normal((64, 300)).astype(np.float32)
    s = np.random.default_rng(2).standard_normal(300).astype(np.float32)

    def f(x: Any, s: Any) -> Any:
        p = x * s
        top = p.max(-1, keepdims=True)
        return xp.sqrt(top - p), top + 1

    got, _ = jit(f)(Tensor(x), Tensor(s))
    p = x * s
    np.testing.assert_array_equal(got.numpy(), np.sqrt(p.max(-1, keepdims=True) - p))


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_a_variance_of_equal_elements_is_zero(n: int) -> None:
    """E[x²] − E[x]² of rows of one number: where the sums are exact, nothing is left."""
    x = np.repeat(np.random.default_rng(3).standard_normal((40, 1)).astype(np.float32), n, 1)
    x = np.asarray(x.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)  # squares that float32 holds
    got = jit(lambda x: xp.sqrt((x * x).mean(-1) - x.mean(-1) * x.mean(-1)))(Tensor(x)).numpy()
    np.testing.assert_array_equal(got, np.zeros(40, np.float32))


def kernels_of(*outs: Tensor) -> list[Kernel]:
    return [c.kernel for c in call_list([o.node for o in outs]).calls if isinstance(c, KernelCall)]


def fused(kernel: Kernel) -> int:
    """Joint multiplications and additions of a Program."""
    program = lower(apply(kernel, (), named("haswell")))
    return sum(isinstance(s, Instr) and s.op == "fma" for p in program.phases for s in statements(p.body))


def test_only_what_a_sum_accumulates_is_joined() -> None:
    x, y = (Tensor(np.zeros((32, 32), np.float32)) for _ in range(2))
    assert all(fused(k) == 0 for k in kernels_of(x * y + x, x * x + y * y - 1, (x * y - x * x).sum(1)))
    assert all(fused(k) > 0 for k in kernels_of(x @ y, (x * y).sum(1)))


def test_the_rule_of_a_scan_accumulates() -> None:
    """h = a·h + b is joined; a product that the rule reads twice, or takes from another, is not."""
    a, b, x, y = (placeholder(n, float32) for n in "abxy")
    assert terms([a * x, a * y + b]) == {a * y}
    assert not terms([a * y, a * y + b]) and not terms([a * x + b * y, a * x - b])


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize(
    "form",
    [
        lambda q, kind: q.astype(kind),
        lambda q, kind: xp.astype(q, kind),
        lambda q, kind: q.astype(kind, copy=False),
        lambda q, kind: q.copy(),
    ],
)
def test_a_conversion_to_the_type_that_a_result_has_rounds(form: Callable[..., Any], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = dtype_of(kind).np
    a = (np.arange(1, 41) * 0.37).astype(np.float32).astype(dtype)
    want = (a.astype(np.float32) / a[::-1].astype(np.float32)).astype(dtype).astype(np.float32)
    for found in ways(lambda x: form(x / x[::-1], kind).astype("float32"), a, monkeypatch=monkeypatch):
        np.testing.assert_array_equal(found, want)
