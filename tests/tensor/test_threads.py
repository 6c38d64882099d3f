"""Updates of one tensor by several threads: none is lost, however the threads take turns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp

pytestmark = pytest.mark.many

THREADS, CALLS = 8, 25
ONE = np.ones(3, np.float32)


@pytest.fixture(autouse=True)
def short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(f: Callable[[int], Any], calls: int = CALLS) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda i: [f(i) for _ in range(calls)], range(THREADS)))


def test_slices_of_one_tensor() -> None:
    for _ in range(20):
        x = xp.zeros((64, 8))

        def write(i: int, x: Tensor = x) -> None:
            x[:, i] = xp.ones(64)

        together(write, 1)
        assert x.numpy().sum() == 64 * 8


def test_reading_meanwhile() -> None:
    x = xp.zeros((16, 8))

    def use(i: int) -> None:
        if i % 2:
            x[:, i] += 1.0
        else:
            x.numpy()

    together(use)
    assert x.numpy().sum() == 16 * CALLS * THREADS / 2


@pytest.mark.parametrize("grad", [False, True])
def test_operators_in_place(grad: bool) -> None:
    x = Tensor(np.zeros(4, np.float32), requires_grad=grad)

    def add(i: int) -> None:
        y = x
        y += 1.0

    together(add)
    assert x.tolist() == [THREADS * CALLS] * 4


def test_captured_functions_and_eager_updates_of_one_tensor() -> None:
    total, one = Tensor(np.zeros(3, np.float32)), Tensor(ONE)
    f = tw.jit(lambda a: total.assign(total + a))
    f(one)

    def both(i: int) -> None:
        f(one)
        y = total
        y += 1.0

    together(both)
    assert total.tolist() == [1 + 2 * THREADS * CALLS] * 3


@pytest.mark.parametrize("returned", [False, True])
def test_arguments_that_are_updated(returned: bool) -> None:
    def step(s: Tensor, a: Tensor) -> Tensor:
        s.assign(s + a)
        return s if returned else s * 2.0

    f = tw.jit(step)
    state, one = Tensor(np.zeros(3, np.float32)), Tensor(ONE)
    together(lambda i: f(state, one))
    assert state.tolist() == [THREADS * CALLS] * 3


def test_gradients_are_added_up() -> None:
    w = Tensor(ONE, requires_grad=True)
    together(lambda i: (w * 2.0).sum().backward(), 10)
    assert w.grad.tolist() == [2 * 10 * THREADS] * 3


def test_equal_constants_have_memory_of_their_own() -> None:
    made: list[np.ndarray] = []
    together(lambda i: made.append(xp.zeros(5).numpy()), 10)
    assert len({a.__array_interface__["data"][0] for a in made}) == len(made)
