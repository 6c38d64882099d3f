"""Symbolic sizes: extremes of no elements, and movement that divides by a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp
from tilewright.tensor import nn

pytestmark = pytest.mark.many

N = tw.Var("n", 0, 9)
SIZES = (3, 0, 1, 9, 0, 5)
WINDOW = Tensor(np.arange(18, dtype=np.float32).reshape(3, 2, 3) - 8)
EMPTY: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda x: x.max(0), "min of each row": lambda x: x.min(1), "argmax": lambda x: x.argmax(0), "argmin of all": lambda x: x.argmin(),
    "max of all": lambda x: x.max((0, 1)), "kept": lambda x: x.max(0, keepdims=True) * 2, "beside a sum": lambda x: (x + 1).max(0) + x.sum(),
    "norm": lambda x: xp.linalg.vector_norm(x, axis=0, ord=float("inf")), "logsumexp": lambda x: x.logsumexp(0),
    "mean": lambda x: x.mean(0), "softmax": lambda x: x.softmax(0), "log_softmax": lambda x: x.log_softmax(0), "prod": lambda x: x.prod(0),
    "attention over no keys": lambda x: (xp.ones((3, 2)) @ x.astype("float32").mT).softmax(-1) @ x.astype("float32"),
    "a loop of no steps": lambda x: tw.fori_loop(0, x.shape[0], lambda i, v: v + x[i], xp.zeros(2, dtype=x.dtype)),
    "any": lambda x: (x > 0).any(0), "max of bools": lambda x: (x > 0).max(0), "var": lambda x: x.var(0), "std": lambda x: x.std(0, correction=1),
}  # fmt: skip
MOVED: dict[str, Callable[[Tensor], Tensor]] = {
    "mesh": lambda x: xp.meshgrid(xp.arange(x.shape[0]), x[:, 1])[1] * 2, "pool": lambda x: nn.max_pool(x.mT.pad([(3, 3), (1, 1)])[None], 2, stride=1),
    "roll": lambda x: xp.roll(x, 1, axis=0), "roll back": lambda x: xp.roll(x, -2, axis=(0, 1)), "roll far": lambda x: xp.roll(x, 12, axis=0),
    "roll flat": lambda x: xp.roll(x, 1), "roll flat of columns": lambda x: xp.roll(x.mT, -3), "roll two": lambda x: xp.roll(x, (7, 1), axis=(0, 1)),
    "roll by a size": lambda x: xp.roll(xp.arange(7), x.shape[0]), "roll by almost all": lambda x: xp.roll(x, x.shape[0] - 1, axis=0),
    "tile": lambda x: xp.tile(x, (2, 3)), "tile rows": lambda x: xp.tile(x, (3, 1)), "tile in front": lambda x: xp.tile(x, (2, 1, 1)),
    "tile columns": lambda x: xp.tile(x, (1, 2)), "tile by a size": lambda x: xp.tile(xp.ones((2, 3)), (x.shape[0], 2)),
    "tile nothing": lambda x: xp.tile(x, (0, 1)), "tile a vector": lambda x: xp.tile(x.sum(1), (4,)), "repeat": lambda x: xp.repeat(x, 3, axis=0),
    "the first half": lambda x: x[: x.shape[0] // 2], "all but a third": lambda x: x[x.shape[0] // 3 :] * 2,
    "repeat by a size": lambda x: xp.repeat(xp.arange(6).reshape(2, 3), x.shape[0], axis=0),
}  # fmt: skip


def outcome(f: Callable[[Tensor], Any], x: np.ndarray) -> Any:
    try:
        return f(Tensor(x)).numpy()
    except tw.UsageError as e:
        return str(e).split(" (at")[0]


@pytest.mark.parametrize("kind", [np.float32, np.int32])
@pytest.mark.parametrize("name", [*EMPTY, *MOVED])
@pytest.mark.covering
def test_symbolic_sizes_give_what_plain_ones_do(name: str, kind: type) -> None:
    f = (EMPTY | MOVED)[name]
    g = tw.jit(f, symbols={"x": {0: N}})
    for size in SIZES:
        x = np.random.default_rng(size).integers(-5, 5, (size, 2)).astype(kind)
        want, got = outcome(f, x), outcome(g, x)
        assert type(got) is type(want)
        if isinstance(want, str):
            assert got == want
        else:
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert len(g.programs) == 1


def test_extremes_of_nothing_are_errors_with_a_line() -> None:
    f = tw.jit(lambda x: (x.max(0), x.argmax(0)), symbols={"x": {0: N}})
    f(Tensor(np.ones((3, 2), np.float32)))
    with pytest.raises(tw.UsageError, match=r"max of \[0, 2\]: no elements along axis 0.*test_symbols_more\.py:\d+"):
        f(Tensor(np.ones((0, 2), np.float32)))
    assert f(Tensor(np.ones((2, 2), np.float32)))[1].tolist() == [0, 0]


def test_differences_of_what_may_be_empty_are_an_error_that_says_so() -> None:
    f = tw.jit(lambda x: xp.diff(x, axis=0), symbols={"x": {0: N}})
    with pytest.raises(
        tw.UsageError, match=r"diff: .* elements may be less than 0 within the ranges of its symbols.*test_symbols_more\.py"
    ):
        f(Tensor(np.ones((3, 2), np.float32)))


def test_gradients_pass_through_symbolic_rolls_and_tiles() -> None:
    def loss(x: Tensor) -> Tensor:
        return (xp.roll(x, 1, axis=0) * xp.tile(x, (2, 1))[: x.shape[0]] * 3.0).sum()

    f = tw.jit(lambda x: tw.grad(loss)(x), symbols={"x": {0: tw.Var("m", 1, 9)}})
    for size in (4, 1, 9):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        np.testing.assert_allclose(f(Tensor(x)).numpy(), 3 * (np.roll(x, 1, 0) + np.roll(x, -1, 0)))


@pytest.mark.parametrize(
    "f", [lambda x: (x - x.max(0)).sum(), lambda x: (nn.conv(x.mT, WINDOW, padding=1) * 2).sum()], ids=["spread", "windows"]
)
def test_gradients_where_a_size_is_summed_over_or_slid_along(f: Callable[[Tensor], Tensor]) -> None:
    g = tw.jit(lambda x: (f(x), tw.grad(f)(x)), symbols={"x": {0: tw.Var("n", 2, 40)}})
    for size in (5, 2, 40):
        x = Tensor(np.random.default_rng(size).standard_normal((size, 2), np.float32))
        for got, want in zip(g(x), (f(x), tw.grad(f)(x)), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)
    assert len(g.programs) == 1


def test_heads_are_taken_apart_down_to_a_reshape_that_no_index_says() -> None:
    """Behind the views of an attention whose batch and heads are one dimension lies a reshape of a symbolic size, and a slice of it."""

    def heads(x: Tensor) -> Tensor:
        return x.reshape(8, 2, 4, 3).permute(1, 2, 0, 3).reshape(8, 8, 3)

    def f(x: Tensor) -> Tensor:
        x = (x * 2 + 1).T.reshape(x.shape[0], 24)[:8]
        scores = (heads(x) @ heads(x * 0.5).mT).reshape(2, 4, 8, 8) + xp.arange(8).astype("float32") * 0.1
        return scores.softmax(-1).reshape(8, 8, 8) @ heads(x + 1)

    g = tw.jit(f, symbols={"x": {0: tw.Var("n", 8, 64)}})
    for size in (9, 8, 64):
        x = Tensor(np.random.default_rng(size).standard_normal((size, 24), np.float32) * 0.3)
        np.testing.assert_allclose(g(x).numpy(), f(x).numpy(), rtol=1e-4, atol=1e-4)
