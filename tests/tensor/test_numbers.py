"""Python numbers among the arguments of captured functions: at every call a number is what it is at the first one, and eagerly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, nn, xp
from tilewright.ir.errors import UsageError

pytestmark = pytest.mark.many

X = {"uint8": [1, 2, 3, 4], "int32": [1, 2, -3, 4], "float32": [1, 2, -3, 4.5]}
INTS: tuple[Any, ...] = (1, 2, 0, -1, 300, 2**70)
FLOATS: tuple[Any, ...] = (0.5, 2.0, -0.0, -1.5, math.nan, math.inf)
PAIR = Tensor(np.array([0, 1]))


def put(x: Tensor, key: Any, value: Any) -> Tensor:
    y = xp.where(x == x, x, x)
    y[key] = value
    return y


BESIDE: dict[str, Callable[[Tensor, Any], Any]] = {
    "add": lambda x, k: x + k, "radd": lambda x, k: k + x, "sub": lambda x, k: x - k, "rsub": lambda x, k: k - x, "mul": lambda x, k: x * k,
    "div": lambda x, k: x / k, "rdiv": lambda x, k: k / x, "floordiv": lambda x, k: x // k, "mod": lambda x, k: x % k,
    "pow": lambda x, k: x**k, "rpow": lambda x, k: k**x, "max": lambda x, k: xp.maximum(x, k), "lt": lambda x, k: x < k,
    "eq": lambda x, k: x == k, "and": lambda x, k: x & k, "or": lambda x, k: k | x, "xor": lambda x, k: x ^ k, "shl": lambda x, k: x << k,
    "shr": lambda x, k: x >> k, "rshl": lambda x, k: k << x, "clip": lambda x, k: xp.clip(x, k), "clip max": lambda x, k: x.clip(max=k),
    "where": lambda x, k: xp.where(x > 1, x, k), "where of a number": lambda x, k: xp.where(k, x, 0),
    "where of a comparison": lambda x, k: xp.where(k > 1, x, 0), "full": lambda x, k: xp.full((3,), k), "full_like": lambda x, k: xp.full_like(x, k),
    "full of int8": lambda x, k: xp.full((3,), k, dtype="int8"), "asarray": lambda x, k: xp.asarray(k), "Tensor": lambda x, k: Tensor(k) + x,
    "list": lambda x, k: Tensor([k, 1]), "setitem": lambda x, k: put(x, 1, k), "setitem by mask": lambda x, k: put(x, x > 1, k),
    "index_put": lambda x, k: x.index_put((PAIR,), k), "scatter_add": lambda x, k: x.scatter_add(PAIR, k), "pad": lambda x, k: xp.pad(x, [(1, 1)], k),
    "isclose": lambda x, k: xp.isclose(x, k), "rtol": lambda x, k: xp.isclose(x, x + 1, rtol=k), "searchsorted": lambda x, k: xp.searchsorted(x, k),
    "copysign": lambda x, k: xp.copysign(x, k), "atan2": lambda x, k: xp.atan2(k, x), "logical_and": lambda x, k: xp.logical_and(x, k),
    "nextafter": lambda x, k: xp.nextafter(x, k), "linspace": lambda x, k: xp.linspace(0, k, 3), "var": lambda x, k: xp.var(x, correction=k),
    "std": lambda x, k: x.std(correction=k), "leaky_relu": lambda x, k: nn.leaky_relu(x, k), "elu": lambda x, k: nn.elu(x, k),
    "normalize": lambda x, k: nn.normalize(x, eps=k), "huber": lambda x, k: nn.huber_loss(x, 0.0, delta=k), "mse": lambda x, k: nn.mse_loss(x, k),
    "dropout": lambda x, k: nn.dropout(x, k, (0, 1)), "uniform": lambda x, k: nn.uniform((4,), (0, 1), high=k),
    "normal": lambda x, k: nn.normal((4,), (0, 1), std=k), "bernoulli": lambda x, k: nn.bernoulli((4,), k, (0, 1)),
    "randint": lambda x, k: nn.randint((4,), 0, k, (0, 1)), "key": lambda x, k: nn.uniform((4,), (k, 3)), "seed": lambda x, k: nn.uniform((4,), (0, k)),
}  # fmt: skip
"""Numbers that are values."""
PLACES: dict[str, Callable[[Tensor, Any], Any]] = {
    "getitem": lambda x, k: x[k], "slice": lambda x, k: x[:k], "step": lambda x, k: x[::k], "reshape": lambda x, k: x.reshape(k, -1),
    "sum": lambda x, k: x.sum(k), "zeros": lambda x, k: xp.zeros((2, k)), "arange": lambda x, k: xp.arange(k, k + 3), "arange step": lambda x, k: xp.arange(0, 4, k),
    "eye": lambda x, k: xp.eye(3, k=k), "tril": lambda x, k: xp.tril(x.reshape(2, 2), k=k), "linspace": lambda x, k: xp.linspace(0, 1, k),
    "pad": lambda x, k: xp.pad(x, [(k, 0)]), "roll": lambda x, k: xp.roll(x, k), "repeat": lambda x, k: xp.repeat(x, k), "tile": lambda x, k: xp.tile(x, (k,)),
    "broadcast": lambda x, k: xp.broadcast_to(x, (k, 4)), "expand_dims": lambda x, k: xp.expand_dims(x, k), "take": lambda x, k: xp.take(x, PAIR, axis=k),
    "flip": lambda x, k: xp.flip(x, axis=k), "one_hot": lambda x, k: nn.one_hot(PAIR, k), "topk": lambda x, k: x.topk(k)[0], "diff": lambda x, k: xp.diff(x, n=k),
    "split": lambda x, k: x.split(k)[0], "ignore_index": lambda x, k: nn.cross_entropy(x.reshape(2, 2), PAIR, ignore_index=k),
    "max_pool": lambda x, k: nn.max_pool(x.reshape(1, 1, 2, 2), k), "matrix_power": lambda x, k: xp.linalg.matrix_power(x.reshape(2, 2), k),
}  # fmt: skip
"""Numbers that are sizes, axes or places."""
PYTHON: dict[str, Callable[[Tensor, Any], Any]] = {
    "arithmetic": lambda x, k: x * (k / (1 - 0.9**k)), "whole": lambda x, k: x * (k // 3 % 2), "inverse": lambda x, k: x * (1 / k),
    "branch": lambda x, k: x * 2 if k > 1 else x - 1, "round": lambda x, k: x * round(k), "float": lambda x, k: x * float(k),
    "math": lambda x, k: x * math.exp(-abs(k) % 9), "numpy": lambda x, k: x * float(np.tanh(k)), "text": lambda x, k: x * len(f"{k}"),
    "returned": lambda x, k: (x, k * 2, k), "kind": lambda x, k: x * (2 if isinstance(k, int) else 3), "min": lambda x, k: x * min(k, 2),
    "hash": lambda x, k: x * {1: 5, 0.5: 6}.get(k, 7), "bits": lambda x, k: x * ((k << 2 | 1) & 7), "string": lambda x, k: x * (k == "ab"),
    "numpy's number": lambda x, k: x * float(np.float32(2) * k), "method": lambda x, k: x * k.is_integer(), "divmod": lambda x, k: x * divmod(k, 3)[1],
}  # fmt: skip
"""Numbers that Python computes with."""


def outcome(f: Callable[[], Any]) -> Any:
    """The results with their types and shapes, or the kind and text of an error."""
    try:
        found = f()
        found = found if isinstance(found, tuple) else (found,)
        return [(t.dtype.name, t.shape, t.numpy().copy()) if isinstance(t, Tensor) else (type(t).__name__, (), t) for t in found]
    except Exception as e:
        return f"{type(e).__name__}: {e}".split(" (at ")[0]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return type(a) is type(b) and a == b
    alike = all(p[:2] == q[:2] for p, q in zip(a, b, strict=True))
    return alike and all(close(p[2], q[2]) for p, q in zip(a, b))


def close(a: Any, b: Any) -> bool:
    return repr(a) == repr(b) if isinstance(a, (int, float)) else np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)


def agrees(f: Callable[[Tensor, Any], Any], kind: str, numbers: Sequence[Any]) -> int:
    """Calls with numbers, one after the other, against first calls and eager ones. Returns how many programs they took."""
    x = Tensor(np.array(X[kind]).astype(kind))
    later = tw.jit(f)
    for k in numbers:
        got, first = outcome(lambda k=k: later(x, k)), outcome(lambda k=k: tw.jit(f)(x, k))
        assert same(got, first), (k, got, first)
        eager = outcome(lambda k=k: f(x, k))
        assert isinstance(eager, str) is isinstance(got, str), (k, got, eager)
        assert isinstance(eager, str) or same(got, eager), (k, got, eager)
    return len(later.programs)


@pytest.mark.covering
@pytest.mark.parametrize("kind", X)
@pytest.mark.parametrize("name", BESIDE)
def test_numbers_beside_tensors(name: str, kind: str) -> None:
    agrees(BESIDE[name], kind, INTS)
    agrees(BESIDE[name], kind, FLOATS)


@pytest.mark.parametrize("name", PLACES)
def test_sizes_axes_and_places(name: str) -> None:
    agrees(PLACES[name], "float32", [k for k in INTS if abs(k) < 1000])
    agrees(PLACES[name], "float32", (0.5, 2.0, math.nan))


@pytest.mark.parametrize(
    "make", [xp.zeros, xp.eye, lambda k: xp.full((k, 2), 1.0), lambda k: xp.linspace(0, 1, k), lambda k: xp.ones(3).repeat(k)]
)
def test_a_size_that_is_no_whole_number_is_an_error(make: Callable[[Any], Any]) -> None:
    for k in (0.5, 2.0, np.float32(2)):
        with pytest.raises(UsageError, match="whole number"):
            make(k)
    assert make(np.int64(2)).shape == make(2).shape


@pytest.mark.parametrize("name", PYTHON)
def test_python_computes_at_every_call(name: str) -> None:
    agrees(PYTHON[name], "float32", INTS)
    agrees(PYTHON[name], "float32", FLOATS)


def test_how_many_programs_numbers_take() -> None:
    numbers = (0.1, 0.2, 0.3, 0.4, 0.5)
    assert agrees(lambda x, k: x * k + xp.full(x.shape, k / 2), "float32", numbers) == 2
    assert agrees(lambda x, k: nn.dropout(x, k, (0, 1)), "float32", numbers) == 2
    assert agrees(lambda x, k: x * 2 if k > 0.25 else x, "float32", numbers) == 3
    assert agrees(lambda x, k: x**k, "float32", (2.5, 2.6, 2.7, 2.8)) == 2
    assert agrees(lambda x, k: x + k, "uint8", (1, 2, 300, 3, -1, 255)) == 2
    assert agrees(lambda x, k: x * math.sin(k), "float32", numbers) == len(numbers)


def test_too_many_branches_make_a_number_a_constant() -> None:
    f = tw.jit(lambda x, k: x + sum(1.0 for i in range(60) if i < k))
    for k in range(40):
        assert f(Tensor([0.0]), k).tolist() == [float(min(k, 60))]
    family = next(iter(f._families.values()))
    assert family.fixed == {0} and not family.dynamic


def test_an_error_leaves_the_program_as_it_was() -> None:
    f = tw.jit(lambda x, k: x + k)
    x = Tensor(np.ones(2, np.uint8))
    for k in (1, 2, 300, 5, 2**70, 7):
        if k > 255:
            with pytest.raises(tw.UsageError, match=r"is no uint8 \(0 to 255\)"):
                f(x, k)
        else:
            assert f(x, k).tolist() == [1 + k] * 2
    assert len(f.programs) == 2


def test_constants_that_a_type_does_not_have() -> None:
    x = Tensor(np.array([1, 2], np.uint8))
    for wrong in (300, -1, math.nan, math.inf, 2**70, 1e300):
        with pytest.raises(tw.UsageError, match="is no uint8"):
            xp.full_like(x, wrong)
        with pytest.raises(tw.UsageError, match="is no uint8"):
            put(x, 0, wrong)
    for row in ([300, 1], [1, -1]):
        with pytest.raises(tw.UsageError, match="is no uint8"):
            Tensor(row, dtype="uint8")
        with pytest.raises(tw.UsageError, match="is no uint8"):
            put(x, slice(None), row)
    assert put(x, slice(None), [255, 0]).tolist() == [255, 0] and Tensor(np.array([300, -1]), dtype="uint8").tolist() == [44, 255]
    assert xp.full((2,), 300).astype("uint8").tolist() == [44, 44] and xp.full((2,), -1).astype("uint16").tolist() == [65535] * 2
