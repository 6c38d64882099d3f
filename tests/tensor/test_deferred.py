"""Chains of element-wise functions of long arrays: the values of NumPy, before and after kernels compute them, whatever is written meanwhile."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp
from tilewright.tensor.frontends import deferred as D
from tilewright.tensor.frontends import quick_arrays as Q
from tilewright.tensor.running import numpy_evaluation, pools

A = np.random.default_rng(3).standard_normal((3, 8))
SPECIAL = np.array([0.0, -0.0, 1, -1, 2.5, -3.5, np.inf, -np.inf, np.nan, 1e-310, 1e300, 0.25])


@pytest.fixture(autouse=True)
def _short_arrays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(D, "FROM", 8)
    monkeypatch.setattr(Q, "FROM", 8)
    monkeypatch.setattr(D, "_programs", type(D._programs)())
    with np.errstate(all="ignore"):
        yield


def double() -> Tensor:
    """2 · A, which nobody has read."""
    out: Tensor = Tensor(A.copy()) * 2
    assert out.deferred is not None
    return out


def test_chains_are_one_kernel_with_numpys_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_evaluation, "ENOUGH_WORK", 1)

    def chain(m: Any, x: Any, y: Any) -> Any:
        away = x - m.mean(x)
        big = (away > y) & ~m.isnan(x)
        return m.sum(m.where(big, away * away, 0.5 / (y + 3)), axis=-1), m.max(m.exp(-abs(x)) + y)

    rows = np.stack([SPECIAL, np.roll(SPECIAL, 5)])
    for x, y in ((A.astype(np.float32), A[0].astype(np.float32)), (rows, rows[:, :1].copy())):
        wanted = chain(np, x, y)
        for kernels in (False, True):
            with tw.report() as done:
                found = chain(xp, Tensor(x), Tensor(y))
            assert (done.counts["kernels"] > 0) is kernels
            for f, w in zip(found, wanted, strict=True):
                assert f.dtype.np == w.dtype
                np.testing.assert_allclose(f.numpy(), w, rtol=1e-5 if x.dtype == np.float32 else 1e-12)
            for f, w in zip(chain(xp, Tensor(x.T.copy()).T, Tensor(y)), wanted, strict=True):
                np.testing.assert_allclose(f.numpy(), w, rtol=1e-5 if x.dtype == np.float32 else 1e-12)
    with tw.report() as done:
        chain(xp, Tensor(rows), Tensor(rows[:, 1:2].copy()))
    assert done.counts["kernels"] == 3 and not done.counts["compilations"]


WRITES: dict[str, Callable[[], tuple[Any, Any]]] = {}


def case(function: Callable[[], tuple[Any, Any]]) -> None:
    """(found, wanted) of a write near something deferred."""
    WRITES[function.__name__] = function


@case
def base_is_written() -> tuple[Any, Any]:
    x = Tensor(A.copy())
    y, part = x * 2, x[1] * 3
    x[:, 2] = 9
    return (y, part), (A * 2, A[1] * 3)


@case
def what_was_permuted_is_written() -> tuple[Any, Any]:
    x = Tensor(np.stack([A, A + 1]))
    y = x.permute(2, 0, 1) * 2 + 1
    z = xp.exp(x.permute(1, 2, 0)) + 1
    x[np.int64(1)][0] = 9
    wanted = np.stack([A, A + 1])
    late = wanted.copy()
    late[1, 0] = 9
    return (y, z, x), (wanted.transpose(2, 0, 1) * 2 + 1, np.exp(wanted.transpose(1, 2, 0)) + 1, late)


@case
def reshaped_is_written() -> tuple[Any, Any]:
    y = double()
    z = y.reshape(-1)
    z[5] = 7
    wanted = A.ravel() * 2
    wanted[5] = 7
    return (y, z), (wanted.reshape(3, 8), wanted)


@case
def what_was_reshaped_is_written() -> tuple[Any, Any]:
    y = double()
    z = y.reshape(4, 6)
    y += 1
    return (y, z), (A * 2 + 1, (A * 2 + 1).reshape(4, 6))


@case
def in_place() -> tuple[Any, Any]:
    y = double()
    z = y * y
    y *= 3
    y -= 1
    y[y > 0] = 0
    return (y, z), (np.minimum(A * 6 - 1, 0), A * A * 4)


@case
def copies() -> tuple[Any, Any]:
    y = double()
    several = [y.copy(), copy.copy(y), copy.deepcopy(y), xp.asarray(y, copy=True), y.astype("float64")]
    for c in several:
        c[0, 0] = 1
    wanted = A * 2
    wanted[0, 0] = 1
    return (y, *several), (A * 2, *[wanted] * 5)


@case
def numpys_array_is_written() -> tuple[Any, Any]:
    y = double()
    z = y + 1
    z.numpy()[1] = 0
    wanted = A * 2 + 1
    wanted[1] = 0
    return (y, z), (A * 2, wanted)


@case
def elements_and_rows() -> tuple[Any, Any]:
    y = double() * Tensor(A[:, :1].copy())
    wanted = A * 2 * A[:, :1]
    found = [y[2, -1], y.reshape(-1)[9], y[1], y.T, xp.stack(list(iter(y)))]
    return tuple(found), (wanted[2, -1], wanted[1, 1], wanted[1], wanted.T, wanted)


@case
def long_and_short_chains() -> tuple[Any, Any]:
    total = y = double()
    for i in range(70):
        total = total + y * i
    return (total, xp.concat([y, y]), y @ y.T, y + 1j), (A * 2 * (1 + sum(range(70))), np.concatenate([A, A]) * 2, A @ A.T * 4, A * 2 + 1j)


@case
def gradients() -> tuple[Any, Any]:
    y = double().requires_grad_()
    (y * y).sum().backward()
    return (y.grad,), (A * 4,)


@pytest.mark.parametrize("name", WRITES)
def test_writes_change_what_numpys_would(name: str) -> None:
    found, wanted = WRITES[name]()
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f.numpy(), w, rtol=1e-12)


def test_errors_are_those_of_the_function() -> None:
    y = double()
    assert (y.shape, y.size, y.ndim, len(y)) == ((3, 8), 24, 2, 3) and y.deferred is not None
    for wrong in (lambda: y[3, 0], lambda: y.reshape(5, 5), lambda: xp.sum(y, axis=2), lambda: y + Tensor(np.ones(7))):
        with pytest.raises((tw.UsageError, IndexError)):
            wrong()


def test_memory_of_an_argument_that_is_gone_goes_back_to_the_pool() -> None:
    pools.HOST.drain()
    x = Tensor(np.arange(80_000.0)).copy()
    y = x * 2
    assert y.deferred is not None and x.node.data is not None
    del x
    y.realise()
    assert pools.HOST.held == 80_000 * 8


def test_memory_of_somebody_else_goes_to_no_pool() -> None:
    pools.HOST.drain()
    x = Tensor(np.arange(80_008.0)[8:])  # (64 bytes after its base begins, as blocks of the pool)
    y = x * 2
    del x
    y.realise()
    assert not pools.HOST.held
