"""Conversions that users write round, and numbers take the type of the array beside them: alike in NumPy's evaluation, in kernels and in
captured functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright import jit, nn, xp
from tilewright.ir.dtypes import dtype as dtype_of
from tilewright.tensor import Tensor, grad
from tilewright.tensor.graph.node import walk

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
        same(lambda x, f=ours: f(x, 1.7).astype("float32"), want, x, monkeypatch=monkeypatch)
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


def test_what_loses_nothing_costs_nothing() -> None:
    x = Tensor(np.ones(4, np.float16))
    assert x.astype("float32").astype("float16").node is x.node
    assert x.astype("float16").astype("float16").node is x.node
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
def test_a_functions_own_numbers_are_not_rounded(what: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1106 is 1104 in bfloat16; 2/√π and 1/3 are others too."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = np.full(size, 1.25)
    f = OWN[what]
    want = f(Tensor(x)).numpy()
    for run in (f, jit(f)):
        got = run(Tensor(x.astype(dtype_of("bfloat16").np))).numpy().astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=2.0**-8 if "gradient" in what else 2.0**-9)
