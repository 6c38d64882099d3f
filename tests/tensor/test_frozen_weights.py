"""Functions whose weights are frozen pack them once, and never answer with old ones after an assignment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, UsageError
from tilewright.tensor import nn

from tests.tensor.test_jit import own_home

__all__ = ["own_home"]


def made(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape, np.float32))


def of(w: Tensor, **options: Any) -> Any:
    return tw.jit(lambda x: nn.conv(x, w, padding=1), threads=1, **options)


def check(f: Any, x: Tensor, w: Tensor) -> None:
    want = nn.conv(x, Tensor(w.numpy().copy()), padding=1).numpy()
    np.testing.assert_allclose(f(x).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_packed_weights_follow_every_assignment() -> None:
    x, w = made((1, 32, 7, 7)), made((64, 32, 3, 3), 1)
    f = of(w, frozen=True)
    check(f, x, w)
    assert "@once" in f.report() and "@once" not in of(w).report()

    @tw.jit
    def halved() -> None:
        w.assign(w * 0.5)

    for i in range(3):  # (memory that was freed is taken again: old and new contents may lie at one address)
        w.assign(w + i)
        w.assign(w * 2)
        check(f, x, w)
        w[i, 3] = 7.0
        check(f, x, w)
        halved()
        check(f, x, w)


@pytest.mark.slow
def test_two_functions_pack_for_themselves_and_a_warm_start_packs_too() -> None:
    x, y, w = made((1, 32, 7, 7)), made((2, 32, 14, 14), 3), made((64, 32, 3, 3), 1)
    f, g = of(w, frozen=True), of(w, frozen=True)
    for _ in range(2):
        check(f, x, w)
        check(g, y, w)
        w.assign(w - 1)
    again = of(w, frozen=True)
    check(again, x, w)
    assert "from disk" in again.report() and "@once" in again.report()


def test_what_the_function_itself_updates_is_not_frozen() -> None:
    x, w = made((16, 40)), made((40, 16), 1)

    @tw.jit(frozen=True)
    def step(x: Tensor) -> Tensor:
        y = x @ w
        w.assign(w + 1)
        return y

    for _ in range(3):
        want = x.numpy() @ w.numpy()
        np.testing.assert_allclose(step(x).numpy(), want, rtol=1e-4, atol=1e-4)
    assert "@once" not in step.report()


def test_frozen_is_a_truth_value() -> None:
    with pytest.raises(UsageError, match="frozen"):
        tw.jit(lambda x: x, frozen="w")
