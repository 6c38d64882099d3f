"""Long chains become kernels of bounded size, and the partition's work grows with the graph, not with the paths through it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp
from tilewright.ir.node import walk
from tilewright.tensor.fusion.call_list import CallList, KernelCall, call_list
from tilewright.tensor.graph import numpy_evaluation as small
from tilewright.tensor.running.realise import detached

X = np.random.default_rng(0).standard_normal((24, 100)).astype(np.float32)


def listed(*outs: Tensor) -> CallList:
    return call_list(detached([t.node for t in outs])[0])


def operations(made: CallList) -> list[int]:
    """Nodes of each kernel's expressions."""
    return [len(list(walk(*(s.expr for s in c.kernel.stores)))) for c in made.calls if isinstance(c, KernelCall)]


def stored(made: CallList) -> int:
    return sum(len(c.outputs) for c in made.calls)


def joined_again(n: int) -> Tensor:
    """Steps of a sorting network, each joined from parts of the one before."""
    x = Tensor(X)
    for p in range(n):
        for i in range(p % 2, 23, 2):
            a, b = x[i], x[i + 1]
            x = xp.concat([x[:i], xp.minimum(a, b)[None], xp.maximum(a, b)[None], x[i + 2 :]])
    return x


def rows_compared(n: int) -> Tensor:
    """The same on rows of their own."""
    v = [Tensor(X)[i] for i in range(24)]
    for p in range(n):
        for i in range(p % 2, 23, 2):
            a, b = v[i], v[i + 1]
            v[i], v[i + 1] = xp.minimum(a, b), xp.maximum(a, b)
    return xp.stack(v)


def two_steps_back(n: int) -> Tensor:
    a = Tensor(X)
    b = a * 0.5
    for _ in range(n):
        a, b = b, xp.sin(a) * b + a * 0.25
    return b


def sines(n: int) -> Tensor:
    def nested(x: Tensor) -> Tensor:
        total: Tensor = reduce(lambda y, i: xp.sin(y) * 1.01, range(n), x).sum()
        return total

    found: Tensor = tw.grad(nested)(Tensor(X))
    return found


def shifted_sums(n: int) -> Tensor:
    """Each step reads the one before at three places, one of them padded."""
    x = Tensor(X)
    for _ in range(n):
        x = (x + xp.roll(x, 1, axis=1) + xp.pad(x[:, 2:], ((0, 0), (0, 2)))) / 3
    return x


CHAINS: list[tuple[Callable[[int], Tensor], int]] = [
    (joined_again, 6), (rows_compared, 24), (two_steps_back, 60), (sines, 40), (shifted_sums, 30),
]  # fmt: skip


@pytest.mark.parametrize(("make", "n"), CHAINS, ids=lambda p: p.__name__ if callable(p) else "")
def test_no_kernel_has_more_than_so_many_operations(make: Callable[[int], Tensor], n: int) -> None:
    made = listed(make(n))
    assert max(operations(made)) < 5000
    assert stored(made) <= 150


@pytest.mark.slow
@pytest.mark.parametrize(("make", "n"), CHAINS, ids=lambda p: p.__name__ if callable(p) else "")
def test_long_chains_compute_what_numpy_does(make: Callable[[int], Tensor], n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (expected,) = small.evaluate([make(n).node])
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    np.testing.assert_allclose(make(n).numpy(), expected, rtol=1e-3, atol=1e-5)


def test_what_one_kernel_computes_for_two_of_its_results_is_not_stored() -> None:
    made = listed(two_steps_back(60))
    assert stored(made) <= 8  # from each kernel to the next go few numbers, and not all that both read
