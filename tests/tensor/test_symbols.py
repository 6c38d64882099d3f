"""Symbolic sizes: a captured function is captured and built once, and right for every value of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import pytest
from tilewright import UsageError, named_kernels, xp
from tilewright.ir import sym
from tilewright.ir.normal_form import canonical
from tilewright.tensor import Tensor, Var, grad, jit, nn
from tilewright.tensor.fusion.call_list import KernelCall, call_list
from tilewright.tensor.running import compiled_kernels as P
from tilewright.tensor.running.realise import detached

MOST = 48
N, M = Var("n", 1, MOST), Var("m", 1, MOST)
SIZES = (1, 7, MOST)
Array = np.ndarray[Any, Any]


class Counted:
    """A function that counts how often it is called (captured)."""

    def __init__(self, function: Callable[..., Any], symbols: Any) -> None:
        self.calls = 0

        @wraps(function)  # with its arguments' names
        def counted(*args: Any) -> Any:
            self.calls += 1
            return function(*args)

        self.jitted = jit(counted, symbols=symbols)

    def __call__(self, *args: Any) -> Any:
        return self.jitted(*[Tensor(a) if isinstance(a, np.ndarray) else a for a in args])

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.jitted.programs[0].calls]


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def close(found: Any, expected: Array, tolerance: float = 2e-5) -> None:
    found = found.numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


W = normal(1, 8, 5)
ROWS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]] = {
    "elementwise": (lambda x: (x * 2 + 1).tanh(), lambda v: np.tanh(v * 2 + 1)),
    "mean": (lambda x: x.mean(0), lambda v: v.mean(0)),
    "var": (lambda x: x.var(), lambda v: v.var()),
    "softmax along it": (lambda x: x.softmax(0), lambda v: softmax(v, 0)),
    "product": (lambda x: x @ Tensor(W), lambda v: v @ W),
    "product over it": (lambda x: x.mT @ x, lambda v: v.T @ v),
    "layer norm": (lambda x: nn.layer_norm(x.mT), lambda v: (v.T - v.T.mean(-1, keepdims=True)) / np.sqrt(v.T.var(-1, keepdims=True) + 1e-5)),
    "concat": (lambda x: xp.concat([x, x * 2, x[:, :]], axis=0), lambda v: np.concatenate([v, v * 2, v])),
    "arange": (lambda x: xp.arange(x.shape[0]) + x[:, 0], lambda v: np.arange(len(v)) + v[:, 0]),
    "number": (lambda x: x.sum(0) / x.shape[0] + (x.shape[0] - 1) * 2, lambda v: v.mean(0) + (len(v) - 1) * 2),
    "last row": (lambda x: x[-1], lambda v: v[-1]),
    "flip": (lambda x: x[::-1], lambda v: v[::-1]),
    "every third": (lambda x: x[::3], lambda v: v[::3]),
    "reshape": (lambda x: x.reshape(x.shape[0], 2, 4).permute(1, 0, 2).reshape(2, x.shape[0], -1), lambda v: v.reshape(-1, 2, 4).swapaxes(0, 1)),
    "flatten": (lambda x: (x + 0).reshape(-1) * 2, lambda v: v.reshape(-1) * 2),
    "triangle": (lambda x: (x @ x.mT).tril(), lambda v: np.tril(v @ v.T)),
    "where": (lambda x: xp.where(xp.arange(x.shape[0])[:, None] < 3, x, -x), lambda v: np.where(np.arange(len(v))[:, None] < 3, v, -v)),
    "running sum": (lambda x: xp.cumulative_sum(x, axis=0), lambda v: np.cumsum(v, axis=0)),
    "argmax": (lambda x: xp.argmax(x, axis=0), lambda v: np.argmax(v, axis=0)),
    "pad": (lambda x: x.pad([(1, 2), (0, 0)]), lambda v: np.pad(v, [(1, 2), (0, 0)])),
    "zeros": (lambda x: xp.zeros((x.shape[0], 2)) + x[:, :2], lambda v: v[:, :2]),
    "row by index": (lambda x: Tensor(normal(2, MOST, 3))[xp.arange(x.shape[0])], lambda v: normal(2, MOST, 3)[: len(v)]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_one_capture_is_right_for_every_size(name: str) -> None:
    function, expected = ROWS[name]
    f = Counted(lambda x: function(x), {"x": {0: N}})
    for n in SIZES:
        v = normal(n, n, 8)
        close(f(v), np.asarray(expected(v)), 1e-4)
    assert f.calls == 1
    assert len(f.jitted.programs) == 1


@pytest.mark.slow
def test_nothing_is_built_for_a_second_size(monkeypatch: pytest.MonkeyPatch) -> None:
    f = Counted(lambda x, w: (x @ w).softmax(-1) + 0.125, {"x": {0: N}})
    w = normal(0, 8, 5)
    close(f(normal(1, 3, 8), w), softmax(normal(1, 3, 8) @ w) + 0.125)
    monkeypatch.setattr(P, "keep", lambda *_: pytest.fail("a kernel is built"))
    monkeypatch.setattr("tilewright.tensor.capture.jit.compiled", lambda *_: pytest.fail("a graph is compiled"))
    for n in (1, 2, 5, MOST, 3):
        for _ in range(2):
            close(f(normal(n, n, 8), w), softmax(normal(n, n, 8) @ w) + 0.125)


def attention(q: Any, k: Any, v: Any) -> Any:
    return ((q @ k.mT) * 0.25).softmax(-1) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    at = xp.arange(q.shape[-2])
    return xp.where(at[None, :] <= at[:, None], (q @ k.mT) * 0.25, -np.inf).softmax(-1) @ v


@pytest.mark.slow
def test_attention_of_symbolic_lengths_is_one_kernel() -> None:
    f = Counted(lambda q, k, v: attention(q, k, v), {"q": {2: N}, "k": {2: M}, "v": {2: M}})
    for a, b in ((1, 1), (5, 9), (MOST, MOST), (1, 33)):
        q, k, v = normal(a, 2, 3, a, 16), normal(b, 2, 3, b, 16), normal(7, 2, 3, b, 16)
        close(f(q, k, v), softmax(q @ k.swapaxes(-1, -2) * 0.25) @ v)
    assert f.calls == 1 and len(f.names) == 1


@pytest.mark.slow
def test_causal_attention_of_a_symbolic_length_is_one_kernel() -> None:
    f = Counted(lambda q, k, v: causal(q, k, v), {x: {2: N} for x in "qkv"})
    for n in SIZES:
        q, k, v = (normal(n + i, 2, 3, n, 16) for i in range(3))
        seen = np.where(np.tril(np.ones((n, n), bool)), q @ k.swapaxes(-1, -2) * 0.25, -np.inf)
        close(f(q, k, v), softmax(seen) @ v)
    assert f.calls == 1 and len(f.names) == 1


@pytest.mark.slow
def test_a_cache_of_keys_written_and_read_up_to_a_symbolic_place() -> None:
    def step(cache: Any, q: Any, k: Any, at: Any) -> Any:
        cache[:, at : at + 1] = k
        keys = cache[:, : at + 1]
        return attention(q, keys, keys)

    f = Counted(step, {"at": Var("at", 0, MOST - 1)})
    cache, expected = Tensor(np.zeros((3, MOST, 16), np.float32)), np.zeros((3, MOST, 16), np.float32)
    for at in (0, 1, 2, 20, MOST - 1):
        q, k = normal(at, 3, 1, 16), normal(at + 1, 3, 1, 16)
        found = f(cache, q, k, at)
        expected[:, at : at + 1] = k
        keys = expected[:, : at + 1]
        close(found, softmax(q @ keys.swapaxes(-1, -2) * 0.25) @ keys)
        np.testing.assert_array_equal(cache.numpy(), expected)
    assert f.calls == 1
    with pytest.raises(UsageError, match="at is 48 by at, outside of its range 0 to 47"):
        f(cache, q, k, MOST)


@pytest.mark.slow
def test_append_to_what_may_be_empty() -> None:
    f = Counted(lambda past, x: xp.concat([past, x], axis=0), {"past": {0: Var("past", 0, MOST - 1)}})
    found, expected = Tensor(np.zeros((0, 8), np.float32)), np.zeros((0, 8), np.float32)
    for i in range(4):
        found = f(found, normal(i, 1, 8))
        expected = np.concatenate([expected, normal(i, 1, 8)])
        np.testing.assert_array_equal(found.numpy(), expected)
    assert f.calls == 1


@pytest.mark.slow
def test_gradients_of_a_symbolic_batch() -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return (((x @ w).tanh() - y) ** 2).mean()

    f = Counted(lambda w, x, y: grad(loss)(w, x, y), {"x": {0: N}, "y": {0: N}})
    w = normal(0, 8, 5)
    for n in SIZES:
        x, y = normal(n, n, 8), normal(n + 1, n, 5)
        h = np.tanh(x @ w)
        close(f(w, x, y), x.T @ (2 * (h - y) / y.size * (1 - h * h)))
    assert f.calls == 1


@pytest.mark.slow
def test_gradients_of_attention_are_those_of_integer_sizes() -> None:
    def loss(q: Any, k: Any, v: Any) -> Any:
        return (attention(q, k, v) ** 2).sum()

    gradients = grad(loss, argnums=(0, 1, 2))
    f = Counted(lambda q, k, v: gradients(q, k, v), {x: {1: N} for x in "qkv"})
    for n in SIZES:
        qkv = [normal(n + i, 2, n, 16) for i in range(3)]
        for found, expected in zip(f(*qkv), gradients(*map(Tensor, qkv))):
            close(found, expected.numpy(), 1e-3)


KEYS: dict[str, tuple[dict[str, Any], Callable[..., Any], Sequence[tuple[int, ...]], dict[str, Any]]] = {
    "matmul": ({"m": "n", "n": 24, "k": 16}, lambda a, b: a @ b, ((5, 16), (16, 24)), {"a": {0: N}}),
    "matmul over it": ({"m": 8, "n": 24, "k": "n"}, lambda a, b: a @ b, ((8, 5), (5, 24)), {"a": {1: N}, "b": {0: N}}),
    "softmax": ({"m": "n", "n": "m"}, lambda a: a.softmax(-1), ((5, 7),), {"a": {0: N, 1: M}}),
    "layernorm": (
        {"m": "n", "n": "m"}, lambda a, b, c: nn.layer_norm(a, b, c), ((5, 7), (7,), (7,)), {"a": {0: N, 1: M}, "b": {0: M}, "c": {0: M}},
    ),
    "sum_rows": ({"m": "n", "n": "m"}, lambda a: a.sum(-1), ((5, 7),), {"a": {0: N, 1: M}}),
    "attention": ({"b": 2, "h": 3, "s": "n", "d": 16}, lambda a, b, c: causal(a, b, c), ((2, 3, 5, 16),) * 3, {x: {2: N} for x in "abc"}),
    "attention_full": ({"b": 2, "h": 3, "s": "n", "d": 16}, lambda a, b, c: attention(a, b, c), ((2, 3, 5, 16),) * 3, {x: {2: N} for x in "abc"}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", KEYS)
def test_symbolic_expressions_have_the_named_kernels_keys(name: str) -> None:
    sizes, function, shapes, symbols = KEYS[name]
    shape = {k: sym(v, 1, MOST) if isinstance(v, str) else v for k, v in sizes.items()}
    f = Counted(function, symbols)
    f(*(np.zeros(s, np.float32) for s in shapes))
    (kernel,) = [c.kernel for c in call_list(detached(f.jitted.programs[0].graph.outs)[0]).calls if isinstance(c, KernelCall)]
    assert canonical(kernel).hash == canonical(named_kernels.make(name.split()[0], shape, "float32")).hash


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x.shape[0] > 3 else -x, "n > 3 holds for some values"),
        (lambda x: [x for _ in range(x.shape[0])], "no Python number"),
        (lambda x: x[:3], "index 3 lies in a dimension of n for some values"),
        (lambda x: x + xp.zeros((5, 8)), r"add of shapes \[n, 8\] and \[5, 8\]"),
        (lambda x: x.reshape(x.shape[0] + 1, 8), r"reshape of \[n, 8\]"),
        (lambda x: xp.searchsorted(x[:, 0], x[:, 1]), "searchsorted of"),
        (lambda x: x / (x.shape[0] / 2), "whole numbers"),
    ],
)
def test_what_needs_a_value_is_an_error_with_the_users_line(function: Callable[[Any], Any], message: str) -> None:
    f = jit(lambda x: function(x), symbols={"x": {0: N}})
    with pytest.raises(UsageError, match=message) as e:
        f(Tensor(normal(0, 5, 8)))
    assert "test_symbols.py:" in str(e.value)


FLATTENED: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, w: (x.reshape(-1, 8) @ w).reshape(*x.shape[:2], 8),
    "pointwise before and behind": lambda x, w: (((x * 2).exp().reshape(-1, 8) @ w).tanh().reshape(*x.shape[:2], 8) + x).softmax(-1),
    "a result": lambda x, w: (x.swapaxes(0, 1) + 1).reshape(-1, 8),
    "the flat one and what it is made of": lambda x, w: ((x + 1).reshape(-1, 8).sum(0), (x + 1).sum((0, 1)), (x + 1).reshape(-1)),
    "a product in another order": lambda x, w: (x.reshape(-1, 8) @ w).reshape(*x.shape[:2], 2, 4).transpose(2, 0, 1, 3) + 0,
    "a sum over all of them": lambda x, w: x.reshape(-1, 8).T @ (x @ w).reshape(-1, 8),
    "padded": lambda x, w: x.reshape(-1, 8).pad([(1, 2), (0, 0)])[1:] * 2,
}


@pytest.mark.parametrize("name", FLATTENED)
def test_two_symbols_are_flattened_into_one_size(name: str) -> None:
    """No index is divided by a symbol: what is read in another shape is memory."""
    f = Counted(FLATTENED[name], {"x": {0: Var("b", 1, 16), 1: Var("s", 1, 32)}})
    for b, s in ((2, 5), (1, 7), (3, 4)):
        x, w = normal(b, b, s, 8), normal(1, 8, 8)
        with_sizes = f(x, w)
        for mine, theirs in zip(*(v if isinstance(v, tuple) else (v,) for v in (with_sizes, jit(FLATTENED[name])(x, w))), strict=True):
            close(mine, np.asarray(theirs))
    assert f.calls == 1


@pytest.mark.slow
def test_sizes_are_checked_at_every_call() -> None:
    f = Counted(lambda a, b: xp.concat([a, a], axis=0) + b, {"a": {0: N}, "b": {0: 2 * N}})
    a, b = normal(0, 5, 8), normal(1, 10, 8)
    close(f(a, b), np.concatenate([a, a]) + b)
    with pytest.raises(UsageError, match=r"dimension 0 of b is 9, where n\*2 is 10"):
        f(a, b[:9])
    with pytest.raises(UsageError, match="n is 0 by dimension 0 of a, outside of its range 1 to 48"):
        f(a[:0], b[:0])
    g = jit(lambda a, b: a + b, symbols={"a": {0: N}, "b": {0: N}})
    with pytest.raises(UsageError, match="n is 5 by dimension 0 of a, and 10 by dimension 0 of b"):
        g(Tensor(a), Tensor(b))
    assert f.calls == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ({"y": {0: N}}, "no such argument"),
        ({"x": {0: 5}}, "give"),
        ({"x": {0: N, 1: Var("n", 1, 9)}}, "has the ranges"),
    ],
)
def test_wrong_symbols_are_refused(symbols: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        jit(lambda x: x, symbols=symbols)


@pytest.mark.slow
def test_a_report_of_symbolic_sizes_says_the_symbols() -> None:
    f = Counted(lambda x: x.softmax(-1), {"x": {0: N}})
    f(normal(0, 5, 8))
    assert "[n, 8]" in f.jitted.report()


@pytest.mark.slow
@pytest.mark.parametrize(
    "use", [lambda x: x[:N], lambda x: x[N - 1], lambda x: x * N, lambda x: xp.zeros((N, 2)), lambda x: x.reshape(N, -1)]
)
def test_outside_of_a_captured_function_a_size_has_no_value(use: Callable[[Any], Any]) -> None:
    with pytest.raises(UsageError, match="n"):
        use(Tensor(normal(0, MOST, 8)))
