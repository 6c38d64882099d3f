"""Long chains become kernels of bounded size, and the partition's work grows with the graph, not with the paths through it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
import tilewright as tw
from tilewright import xp
from tilewright.ir.node import walk
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import CallList, KernelCall, call_list, key_of
from tilewright.tensor.running import numpy_evaluation as small
from tilewright.tensor.running.realise import detached

pytestmark = pytest.mark.usefixtures("graphs")

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
@pytest.mark.parametrize(("make", "n"), [(make, n // 2) for make, n in CHAINS], ids=lambda p: p.__name__ if callable(p) else "")
def test_long_chains_compute_what_numpy_does(make: Callable[[int], Tensor], n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (expected,) = small.evaluate([make(n).node])
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    np.testing.assert_allclose(make(n).numpy(), expected, rtol=1e-3, atol=1e-5)


def test_what_one_kernel_computes_for_two_of_its_results_is_not_stored() -> None:
    made = listed(two_steps_back(60))
    assert stored(made) <= 8  # from each kernel to the next go few numbers, and not all that both read


@pytest.mark.slow
def test_a_chain_of_many_thousand_nodes_is_made_keyed_copied_and_freed() -> None:
    x = Tensor([1.0])
    for _ in range(6_000):
        x = (x * 1.5)[None, :][0]
    assert len(key_of([x.node])[0]) == 6_000 + 3 and detached([x.node])[0]  # the leaf, the products, their number and its view
    del x
    gc.collect()


@pytest.mark.slow
def test_alternating_reshapes_and_permutations_are_cut() -> None:
    x = Tensor(np.arange(12.0, dtype=np.float32))
    want = x.numpy()
    for _ in range(60):
        x, want = x.reshape(4, 3).permute(1, 0).reshape(12), want.reshape(4, 3).T.reshape(12)
    assert 1 < len(call_list([x.node]).calls) < 30
    assert x.tolist() == want.tolist()


@pytest.mark.slow
def test_a_few_reshapes_stay_one_kernel() -> None:
    x = Tensor(np.zeros((2, 3, 4, 5), np.float32))
    y = x.permute(1, 0, 3, 2).reshape(6, 20).permute(1, 0).reshape(4, 30) + 1
    assert len(call_list([y.node]).calls) == 1


@pytest.mark.slow
def test_places_beyond_2_to_the_31(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = xp.arange(2**34)
    assert (x[2**32 + 7 :: 2**33] + 0).tolist() == [2**32 + 7, 2**32 + 7 + 2**33]
    assert (x.reshape(2**17, 2**17)[80000, 5] + 0).item() == 80000 * 2**17 + 5


@pytest.mark.slow
def test_writing_to_a_constant_changes_no_other() -> None:
    a, b = xp.zeros(3), xp.zeros(3)
    a.numpy()[:] = 1
    xp.arange(3).numpy()[:] = 7
    assert a.tolist() == [1, 1, 1] and b.tolist() == [0, 0, 0] and xp.arange(3).tolist() == [0, 1, 2]
