"""Movement, joining and indexing against NumPy; chains of random movements, ranks 0 to 8, sizes 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp
from tilewright.ir.errors import UsageError
from tilewright.tensor.fusion.call_list import call_list
from tilewright.tensor.ops.creation import along

from tests.tensor.agree import Agree

pytestmark = pytest.mark.slow

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)


def test_movement_as_numpys(agree: Agree) -> None:
    t = Tensor(X) + 0
    agree("permute", xp.permute_dims(t, (2, 0, 1)), X.transpose(2, 0, 1))
    agree("moveaxis", xp.moveaxis(t, (0, 2), (1, 0)), np.moveaxis(X, (0, 2), (1, 0)))
    agree("swapaxes", t.swapaxes(0, -1), X.swapaxes(0, -1))
    agree("mT", t.mT, X.swapaxes(-1, -2))
    agree("flip", xp.flip(t, axis=(0, 2)), np.flip(X, (0, 2)))
    agree("roll", xp.roll(t, (1, -2), axis=(0, 2)), np.roll(X, (1, -2), (0, 2)))
    agree("roll flat", xp.roll(t, 5), np.roll(X, 5))
    agree("tile", xp.tile(t, (2, 1, 1, 2)), np.tile(X, (2, 1, 1, 2)))
    agree("repeat", xp.repeat(t, 3, axis=1), np.repeat(X, 3, 1))
    agree("repeat flat", xp.repeat(t, 2), np.repeat(X, 2))
    agree("repeat counts", xp.repeat(t, Tensor(np.array([1, 0, 2])), axis=1), np.repeat(X, [1, 0, 2], 1))
    agree("broadcast", xp.broadcast_to(t[:, :1], (5, 2, 3, 4)), np.broadcast_to(X[:, :1], (5, 2, 3, 4)))
    agree("squeeze", xp.squeeze(t[:1, :, :1], axis=(0, 2)), X[0, :, 0])
    agree("expand", xp.expand_dims(t, axis=-2), X[:, :, None, :])
    agree("unstack", xp.unstack(t, axis=1), [X[:, i] for i in range(3)])
    agree("split", t.split([1, 3], axis=2), [X[..., :1], X[..., 1:]])
    agree("diagonal", xp.linalg.diagonal(t, offset=1), np.diagonal(X, 1, -2, -1))
    agree("tril", xp.tril(t, k=-1), np.tril(X, -1))
    agree("triu", xp.triu(t, k=1), np.triu(X, 1))
    agree("flatten", t.flatten(1), X.reshape(2, 12))


def test_joining_and_padding_as_numpys(agree: Agree) -> None:
    t = Tensor(X) * 1
    agree("concat", xp.concat([t, t[:, 1:], t[:, :1]], axis=1), np.concatenate([X, X[:, 1:], X[:, :1]], 1))
    agree("concat flat", xp.concat([t, t[0]], axis=None), np.concatenate([X, X[0]], None))
    agree("concat promotes", xp.concat([Tensor(np.arange(3)), t[0, 0]]), np.concatenate([np.arange(3), X[0, 0]]).astype(np.float32))
    agree("concat empty", xp.concat([t[:, :0], t], axis=1), X)
    agree("stack", xp.stack([t, t + 1], axis=-1), np.stack([X, X + 1], -1))
    widths = [(1, 0), (0, 2), (2, 1)]
    agree("pad", xp.pad(t, widths), np.pad(X, widths))
    agree("pad by a value", xp.pad(t, widths, 7), np.pad(X, widths, constant_values=7))
    agree("edge", xp.pad(t, widths, mode="edge"), np.pad(X, widths, "edge"))
    agree("wrap", xp.pad(t, widths, mode="wrap"), np.pad(X, widths, "wrap"))
    agree("reflect", xp.pad(t, [(1, 0), (2, 2), (2, 1)], mode="reflect"), np.pad(X, [(1, 0), (2, 2), (2, 1)], "reflect"))
    agree("meshgrid", xp.meshgrid(Tensor(np.arange(3)), Tensor(np.arange(4))), np.meshgrid(np.arange(3), np.arange(4)))
    agree("eye", xp.eye(3, 4, k=1), np.eye(3, 4, 1, dtype=np.float32))
    agree("arange", xp.arange(3, 20, 4), np.arange(3, 20, 4))
    agree("arange of floats", xp.arange(0.0, 1.0, 0.125), np.arange(0, 1, 0.125, dtype=np.float32))
    agree("arange down", xp.arange(5, -4, -3, dtype="int16"), np.arange(5, -4, -3, dtype=np.int16))
    agree("linspace", xp.linspace(-1, 2, 7), np.linspace(-1, 2, 7, dtype=np.float32))
    agree("linspace open", xp.linspace(0, 1, 4, endpoint=False, dtype="float64"), np.linspace(0, 1, 4, endpoint=False))
    agree("full", xp.full((2, 2), 3), np.full((2, 2), 3))


KEYS: list[Any] = [
    1, (1, 2, 3), (..., -1), (slice(None), None, 2), slice(None, None, -1), (slice(1), slice(2, 0, -2), slice(-1, -4, -2)), (None, ..., None),
    (slice(0, 0),), np.array([1, 0, -1]), (np.array([[1], [0]]), np.array([0, 2])), (slice(None), np.array([2, 0, 1, -1])),
    (np.array([1, 0]), slice(None), np.array([3, 1])), (0, slice(None), np.array([3, 1])), (np.array([1]), 2, slice(1, 3)),
    X > 10, (X[:, :, 0] > 3), (0, X[0, :, 0] > 3), (..., X[0, 0] > 1), (np.zeros(0, int),), (slice(1, 9), None, np.array([0, 0])),
]  # fmt: skip


def key_of(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(key_of, key))
    return Tensor(key) if isinstance(key, np.ndarray) else key


def test_reading_by_keys_as_numpys(agree: Agree) -> None:
    t = Tensor(X) + 0
    for key in KEYS:
        agree(f"{key}", t[key_of(key)], X[key])
    agree("take", xp.take(t, Tensor(np.array([2, 0])), axis=1), np.take(X, [2, 0], 1))
    for mode in ("wrap", "clip"):
        for places in (np.array([[-7, 9], [1, -1]]), np.array([200], np.uint8)):
            agree(mode, xp.take(t, Tensor(places), axis=1, mode=mode), np.take(X, places, 1, mode=mode))
            agree(mode, tw.jit(lambda x, i: x.take(i, mode=mode))(t, Tensor(places)), np.take(X, places, mode=mode))  # noqa: B023
    places = np.argsort(-X, axis=1)[:, :2]
    agree("take along", xp.take_along_axis(t, Tensor(places), axis=1), np.take_along_axis(X, places, 1))


def test_writing_by_keys_as_numpys(agree: Agree) -> None:
    values = np.random.default_rng(1).standard_normal(100).astype(np.float32)
    for key in KEYS:
        shape = X[key].shape
        for value in (np.float32(-1), values.flat[: int(np.prod(shape))].reshape(shape)):
            x, t = X.copy(), Tensor(X) + 0
            x[key] = value
            t[key_of(key)] = Tensor(np.asarray(value))
            agree(f"{key}", t, x)


def test_writing_twice_to_a_place_leaves_the_last_value(agree: Agree) -> None:
    x, t = np.zeros(4, np.float32), Tensor(np.zeros(4, np.float32))
    at, v = np.array([1, 3, 1, 1]), np.array([1.0, 2, 3, 4], np.float32)
    x[at] = v
    t[Tensor(at)] = Tensor(v)
    agree("last", t, x)
    agree("added", t.index_put(Tensor(at), Tensor(v)), np.float32([0, 4 + 8, 0, 2 + 2]))
    y = np.zeros((3, 2), np.float32)
    np.add.at(y, (slice(None), [0, 1, 1]), np.ones((3, 3)))
    agree("scatter_add", Tensor(np.zeros((3, 2), np.float32)).scatter_add(Tensor(np.array([0, 1, 1])), xp.ones((3, 3)), axis=1), y)
    z, at2 = np.zeros((2, 3), np.float32), np.array([[0, 1], [1, 1]])
    for r in range(2):
        for c in range(2):
            z[r, at2[r, c]] += r + c + 1
    rows = Tensor(np.array([[1.0, 2], [2, 3]], np.float32))
    agree("scatter_add of lines", Tensor(np.zeros((2, 3), np.float32)).scatter_add(Tensor(at2), rows, axis=1), z)


def test_a_handle_changes_and_its_parts_with_it_and_what_was_computed_stays() -> None:
    t = Tensor([1.0, 2.0, 3.0])
    part, computed, same = t[:2], t * 1, t
    t[0] = 9
    t += 1
    assert same is t and t.tolist() == [10, 3, 4] and part.tolist() == [10, 3] and computed.tolist() == [1, 2, 3]
    with pytest.raises(UsageError, match="in place"):
        t += xp.ones((2, 3))
    with pytest.raises(UsageError, match=r"setitem of shapes \[3\] and \[2\]"):
        t[:2] = Tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "key", [3, (0, 0, 0, 0), (..., ...), 1.5, "a", Tensor([1.5]), np.array([7]), np.array([True, False, True]), (slice(None), -4)]
)
def test_wrong_keys_are_index_errors(key: Any) -> None:
    with pytest.raises(IndexError):
        Tensor(X)[key]


def moved(x: Any, t: Tensor, rng: np.random.Generator) -> tuple[Any, Tensor]:
    """One random movement of both."""
    kind = rng.integers(0, 7)
    if kind == 0 and x.ndim > 1:
        order = [int(d) for d in rng.permutation(x.ndim)]
        return x.transpose(order), xp.permute_dims(t, order)
    if kind == 1 and x.ndim:
        d = int(rng.integers(0, x.ndim))
        step = int(rng.choice([1, 2, -1, -2]))
        key = (*(slice(None) for _ in range(d)), slice(None, None, step))
        return x[key], t[key]
    if kind == 2 and x.size:
        sizes = [n for n in range(1, x.size + 1) if x.size % n == 0]
        n = int(rng.choice(sizes))
        return x.reshape(n, x.size // n), t.reshape(n, -1)
    if kind == 3 and x.ndim < 8:
        d = int(rng.integers(0, x.ndim + 1))
        return np.expand_dims(x, d), xp.expand_dims(t, axis=d)
    if kind == 4 and x.ndim and x.size < 200:
        widths = [(int(a), int(b)) for a, b in rng.integers(0, 2, (x.ndim, 2))]
        return np.pad(x, widths), xp.pad(t, widths)
    if kind == 5 and x.ndim and x.size < 100:
        d = int(rng.integers(0, x.ndim))
        return np.concatenate([x, x], d), xp.concat([t, t], axis=d)
    if kind == 6 and x.ndim:
        d, n = int(rng.integers(0, x.ndim)), int(rng.integers(-3, 4))
        return np.roll(x, n, d), xp.roll(t, n, axis=d)
    return x, t


def test_chains_of_random_movements(agree: Agree) -> None:
    rng = np.random.default_rng(2)
    for i in range(25):
        x = np.arange(24, dtype=np.int32).reshape([(24,), (4, 6), (2, 3, 4), (1, 24, 1)][i % 4])
        t = Tensor(x) + 0
        for _ in range(6):
            x, t = moved(x, t, rng)
        agree(f"chain {i}", t, x)


def test_chains_of_random_movements_by_numpys_evaluation(agree_small: Agree) -> None:
    rng = np.random.default_rng(3)
    for i in range(150):
        x = np.arange(24, dtype=np.int32).reshape([(24,), (4, 6), (2, 3, 4), (0, 3)][i % 4] if i % 4 < 3 else (24,))
        t = Tensor(x)
        for _ in range(8):
            x, t = moved(x, t, rng)
        agree_small(f"chain {i}", t, x)


@pytest.mark.parametrize("rank", range(9))
def test_ranks_and_empty_and_single_sizes(agree_small: Agree, rank: int) -> None:
    for sizes in ((1,) * rank, (2,) * rank, (0,) * rank, tuple(range(rank))[::-1]):
        if int(np.prod(sizes)) > 300:
            continue
        x = np.arange(int(np.prod(sizes)), dtype=np.float32).reshape(sizes)
        t = Tensor(x)
        agree_small(f"{sizes}", (t + 1).sum() + xp.permute_dims(t, tuple(range(rank))[::-1]), (x + 1).sum() + x.T)


@pytest.mark.usefixtures("graphs")
def test_movement_is_one_kernel_without_memory_of_its_own() -> None:
    t = Tensor(np.zeros((32, 48), np.float32))
    out = xp.pad(xp.roll(t.mT[::-1, 1:], 3, axis=0).reshape(4, 12, 31), [(0, 1), (1, 0), (0, 0)]) * 2
    assert len(call_list([out.node]).calls) == 1


@pytest.mark.usefixtures("graphs")
def test_triangles_are_comparisons_of_index_ranges() -> None:
    made = call_list([xp.tril(Tensor(np.ones((64, 64), np.float32))).node])
    assert made.leaves == 1 and len(made.calls) == 1
    assert along(3, (3, 4), 0).shape == (3, 4)
