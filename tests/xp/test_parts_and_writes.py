"""Parts of tensors, and writes to both: NumPy's arrays are the reference, through random sequences of what programs do."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, UsageError, xp

KEYS: tuple[Any, ...] = (
    np.s_[1], np.s_[1:3], np.s_[:, 2], np.s_[..., ::2], np.s_[::-1], np.s_[None, 2], np.s_[2, 3], np.s_[0, ...], np.s_[1:3, 1:4],
    np.s_[np.int64(1):], np.s_[[0, 2]],
)  # fmt: skip


MOVES: tuple[Any, ...] = (
    lambda x: x.reshape(-1), lambda x: x.reshape(2, -1) if x.size % 2 == 0 else x.reshape((1, *x.shape)), lambda x: x.transpose(), np.ravel,
    lambda x: np.expand_dims(x, 0), np.squeeze, lambda x: np.moveaxis(x, 0, -1) if x.ndim else x.reshape(1), lambda x: next(iter(x)) if x.ndim > 1 else x.transpose(),
)  # fmt: skip
"""Views but for slices: NumPy copies where a reshape's elements do not follow each other evenly."""


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_do_what_numpy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(5):
        a = rng.standard_normal((4, 6))
        tensors, arrays = [Tensor(a.copy()) * 1 if rng.random() < 0.5 else Tensor(a.copy())], [a.copy()]
        kept: list[tuple[Tensor, Any]] = []
        for _ in range(8):
            i, key, number = int(rng.integers(len(tensors))), KEYS[rng.integers(len(KEYS))], float(rng.standard_normal())
            t, n = tensors[i], arrays[i]
            try:
                part = n[key]
            except IndexError:
                continue
            what = rng.integers(10)
            if what == 0:
                tensors.append(t[key])
                arrays.append(part if isinstance(part, np.ndarray) else np.asarray(part))
            elif what == 1:
                t[key] = number
                n[key] = number
            elif what == 2:
                t[key] += number
                n[key] += number
            elif what == 3:
                t *= 2
                n *= 2
            elif what == 4:
                kept.append((t * 3, n * 3))  # what was computed of the old values keeps them
            elif what == 5:
                values = rng.standard_normal(np.shape(part))
                t[key] = Tensor(values) * 1
                n[key] = values
            elif what == 6:
                kept.append((t.copy(), n.copy()))
            elif what == 9:
                np.asarray(t[key])[...] = number
                np.asarray(part)[...] = number
            else:
                move = MOVES[rng.integers(len(MOVES))]
                tensors.append(move(t))
                arrays.append(move(n))
            if rng.random() < 0.3:
                tensors[rng.integers(len(tensors))].numpy()
        for t, n in [*zip(tensors, arrays, strict=True), *kept]:
            assert np.array_equal(t.numpy(), n)


@pytest.mark.parametrize("small", ["0", "1"])
def test_a_part_is_written_through(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", small)
    x = Tensor(np.zeros((3, 4)))
    before, part, other = x + 1, x[1], x[:, 1:3]
    part[2] = 5.0
    other[0, :] = 7.0
    x[2] = 1.0
    assert x.tolist() == [[0, 7, 7, 0], [0, 0, 5, 0], [1, 1, 1, 1]] and other.tolist() == [[7, 7], [0, 5], [1, 1]]
    part += 1
    assert x[1].tolist() == [1, 1, 6, 1] and other.tolist()[1] == [1, 6] and (before.numpy() == 1).all()


def test_memory_of_others_is_not_written_to() -> None:
    array = np.ones(3)
    x = Tensor(array)
    x[0] = 5.0
    seen = x.numpy()
    x[1] = 7.0
    assert array.tolist() == [1, 1, 1] and seen.tolist() == [5, 1, 1] and x.tolist() == [5, 7, 1]
    a, b = xp.zeros(3), xp.zeros(3)
    a[1] = 1
    assert b.tolist() == [0, 0, 0] and xp.zeros(3).tolist() == [0, 0, 0]


def test_a_write_costs_no_copy_once_the_memory_is_its_own() -> None:
    x = xp.zeros(1000)
    x[0] = 1.0
    address = x.numpy().ctypes.data
    for i in range(1, 200):
        x[i] = x[i - 1] + 1
    assert x.numpy().ctypes.data == address and x.tolist()[:200] == list(range(1, 201))


def test_a_part_that_nobody_has_any_more_is_forgotten() -> None:
    x = xp.zeros((4, 4))
    for _ in range(200):
        x[1:3].numpy()
    gc.collect()
    assert x.links is not None and len(x.links.parts) < 50


def test_graphs_of_writes_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.tensor.views.written", lambda *args: False)
    x, row = Tensor(np.zeros((100, 2))), Tensor(np.zeros((100, 2)))[0]
    part = x[:, 0]
    for i in range(100):
        part[i] = float(i)
    assert x.numpy()[:, 0].tolist() == list(range(100)) and row.tolist() == [0, 0]


def test_wrong_writes_are_errors_and_write_nothing() -> None:
    x = xp.zeros(3, dtype=xp.int32)
    x[0] = 1
    for wrong in (lambda: x.__setitem__(5, 1), lambda: x.__setitem__(slice(0, 2), xp.ones(3, dtype=xp.int32))):
        with pytest.raises((IndexError, UsageError)):
            wrong()
    assert x.tolist() == [1, 0, 0]


def test_a_captured_function_writes_what_parts_see() -> None:
    x = xp.zeros(4)
    part = x[1:3]

    @tw.jit
    def step(y: Tensor) -> Tensor:
        x.assign(x + y)
        return x * 2

    step(xp.ones(4))
    step(xp.ones(4))
    assert part.tolist() == [2, 2]


VIEWED = (
    lambda x: x.T[1:], lambda x: x.reshape(-1)[3:6], lambda x: np.moveaxis(x, 0, 1)[1], lambda x: x.T.reshape(3, -1, 1), lambda x: list(x.T)[1],
    lambda x: x[:, 1:].reshape(-1), lambda x: x.T.ravel(), lambda x: x.reshape(-1, 1, 3).squeeze(1)[:, 0].reshape(-1, 1),
)  # fmt: skip


def test_views_in_captured_functions_and_loops_are_written_through() -> None:
    def write(x: Any) -> list[Any]:
        made = []
        for view in VIEWED:
            made.append(x * 2)
            view(made[-1])[:1] = 99
        return made

    looped = lambda x: tw.fori_loop(0, 1, lambda i, v: tuple(write(v[0])), (x,) * len(VIEWED))  # noqa: E731
    rows = tw.jit(write, symbols={"x": {0: tw.Var("n", 2, 16)}})
    for f, count in ((tw.jit(write), 4), (rows, 2), (rows, 6), (looped, 4)):
        x = np.arange(3.0 * count).reshape(count, 3)
        for found, wanted in zip(f(Tensor(x)), write(x), strict=True):
            assert (found.numpy() == wanted).all(), (f, count)


def test_gaussian_mixture_keeps_its_regularisation(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    from sklearn.mixture import _gaussian_mixture as gm

    a = np.random.default_rng(0).standard_normal((30, 3))
    weights = np.full((30, 2), 0.5)
    wanted = gm._estimate_gaussian_covariances_full(weights, a, weights.sum(0), np.zeros((2, 3)), 10.0)
    given = [Tensor(v) for v in (weights, a, weights.sum(0), np.zeros((2, 3)))]
    found = gm._estimate_gaussian_covariances_full(*given, 10.0, xp=xp)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_what_somebody_holds_is_computed_once_by_numpy() -> None:
    x = Tensor(np.ones((30, 3)))
    held = x * 2 + 1
    total, hidden = held.sum(0), (x + 7).sum(0)
    assert (total + hidden).tolist() == [330.0] * 3
    assert held.node.data is not None and total.node.data is not None
    found = xp.linalg.svd(x)
    found.S.numpy()
    held *= 2  # what is kept of it is nobody else's
    assert total.tolist() == [90.0] * 3 and held.tolist() == [[6.0] * 3] * 30


def test_a_view_of_a_tensors_own_type_is_a_view() -> None:
    x = Tensor(np.arange(6.0)) + 0.0
    for kind in (float, "float64", np.float64, np.dtype(float), xp.float64):
        y = x.view(kind)
        y[0] += 1
    assert x[0] == 5.0 and x.view(2, 3).shape == x.view((2, 3)).shape == (2, 3)
    with pytest.raises(UsageError, match="astype"):
        x.view(np.int64)


@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "complex128"])
@pytest.mark.parametrize("make", ["zeros", "full", "data", "result"])
def test_an_array_of_a_part_is_a_part_of_the_whole(make: str, kind: str) -> None:
    made: dict[str, Any] = {
        "zeros": lambda: xp.zeros((4, 6, 5), dtype=kind),
        "full": lambda: xp.full((4, 6, 5), 3, dtype=kind),
        "data": lambda: xp.asarray(np.ones((4, 6, 5), kind)),
        "result": lambda: xp.asarray(np.ones((4, 6, 5), kind)) + 1,
    }
    for view in (
        lambda x: x[1],
        lambda x: x[:, 1:3],
        lambda x: x.T if isinstance(x, np.ndarray) else xp.permute_dims(x, (2, 1, 0)),
        lambda x: x.reshape(-1),
        lambda x: x[1:3][0],
    ):
        x = made[make]()
        wanted = x.numpy().copy()
        x = made[make]()
        part, beside = view(x), view(x)
        np.asarray(part)[...] = 7
        view(wanted)[...] = 7
        for found, array in ((x, wanted), (x + 0, wanted), (part, view(wanted)), (beside * 1, view(wanted))):
            np.testing.assert_array_equal(found.numpy(), array)
        np.asarray(x)[...] = 8
        assert (beside == 8).all() and (part.sum() == 8 * part.size)


def test_a_part_of_a_large_lazy_tensor_is_computed_alone() -> None:
    x = xp.sqrt(xp.zeros((1 << 12, 1 << 12)) + xp.asarray(np.ones(1 << 12)))
    assert x[3].numpy().sum() == 1 << 12 and x.node.data is None


def test_a_captured_function_sees_what_is_written_to_its_tensor() -> None:
    weights = xp.asarray(np.zeros(4, np.float32))
    row = weights[1:3]
    call = tw.jit(lambda x: x + row)
    call(Tensor([1.0, 2.0]))
    np.asarray(row)[...] = 5
    assert call(Tensor([1.0, 2.0])).tolist() == [6, 7]
