"""Random programs of views, writes and small operations, on NumPy's arrays and on tensors: every array and tensor is alike after each."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tilewright import Tensor, jit, xp

KEYS: list[Any] = [0, -1, slice(1, None), (slice(None), 0), (slice(None), slice(None, None, 2)), (..., slice(0, 1)), slice(None, None, -1)]


def made(r: random.Random) -> tuple[Any, Any]:
    """An array and the tensor of its numbers, from data or of constants."""
    n, m = r.choice([(3, 4), (4, 4), (1, 5), (6, 2), (100, 100)])
    array = np.random.default_rng(r.randrange(99)).standard_normal((n, m))
    return r.choice([
        lambda: (array.copy(), xp.asarray(array)), lambda: (array.copy(), Tensor(array)), lambda: (np.eye(n, m), xp.eye(n, m, dtype="float64")),
        lambda: (np.zeros((n, m)), xp.zeros((n, m), dtype="float64")), lambda: (np.full((n, m), 2.5), xp.full((n, m), 2.5, dtype="float64")),
        lambda: (np.arange(n * m).reshape(n, m) * 1.0, xp.reshape(xp.arange(n * m), (n, m)).astype("float64")),
    ])()  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_views_and_values_are_numpys(seed: int) -> None:
    r = random.Random(seed)
    live = [made(r)]
    given: list[tuple[Any, Any]] = []
    for _ in range(50):
        i = r.randrange(len(live))
        a, t = live[i]
        key = r.choice(KEYS) if a.ndim == 2 else slice(1, None)
        wide = a.ndim > 0 and a.size > 0
        what = r.randrange(16)
        if what < 2:
            live.append(made(r))
        elif what < 4 and wide:
            live.append((np.asarray(a[key]), t[key]))
        elif what == 4 and a.ndim == 2:
            live.append((a.T, t.T))
        elif what == 5 and a.flags.c_contiguous:
            live.append((a.reshape(-1), t.reshape(-1)))
        elif what == 6 and wide:
            a[key] = t[key] = float(r.randrange(9))
        elif what == 7:
            a += 2.0
            t += 2.0
        elif what == 8:
            live += [(np.array(a * 3 - 1), t * 3 - 1), (np.array(a), t.astype("float64"))]
        elif what == 9 and wide:
            live += [(np.flip(a), xp.flip(t)), (np.array(a.sum(0)), xp.sum(t, axis=0))]
        elif what == 10:
            given.append((t.numpy(), t.numpy().copy()))
        elif what == 11 and wide:
            mask = a > 1
            a[mask] = t[xp.asarray(mask)] = -1.0
        elif what == 12 and wide:
            live.append((np.roll(a, 1, 0), xp.roll(t, 1, axis=0)))
        elif what == 14 and wide:
            a.flat[-1] = t.flat[-1] = 5.0
            a.flat = t.flat = r.choice([1.5, np.arange(float(a.size))])
        elif what == 13 and len(live) > 4:
            del live[i]
    for a, t in live:
        assert np.allclose(t.numpy(), a)
    assert all(np.array_equal(array, before) for array, before in given)


@pytest.mark.parametrize("size", (12, 8192))
@pytest.mark.parametrize("late", (False, True))
def test_views_of_what_is_not_row_major_are_written_to(size: int, late: bool) -> None:
    array = np.arange(float(size)).reshape(4, -1)
    cases: list[tuple[Any, Any]] = [
        (lambda: Tensor(array).T + 1.0, lambda t: (t.reshape(-1), t[0], t[...])),
        (lambda: xp.flip(Tensor(array) + 0.0), lambda t: (t[...], t[1:], t.reshape(-1))),
        (lambda: xp.asarray(np.asfortranarray(array)), lambda t: (t.reshape(-1), t[...], t.reshape(-1)[1:])),
    ]
    for make, parts in cases:
        for i in range(3):
            t = make()
            wanted = t.numpy().copy() if late else np.array(t.tolist())
            t = make()
            live = parts(t)
            assert not late or all(v.node is not None for v in (t, *live))
            live[i][1:] = 7.0
            parts(wanted)[i][1:] = 7.0
            for v, w in zip((t, *live), (wanted, *parts(wanted)), strict=True):
                assert np.array_equal(v.numpy(), w), i


OF: dict[str, Any] = {
    "rows": lambda x: x[1:3], "row": lambda x: x[2], "steps": lambda x: x[::2, 1:], "transposed": lambda x: x.T,
    "flat": lambda x: x.reshape(-1), "of a view": lambda x: x[1:4].T[1:],
}  # fmt: skip


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("name", OF)
def test_a_captured_function_sees_what_is_written_to_a_view_and_to_its_base(name: str, seen: bool) -> None:
    """`seen`: the view was computed before the capture."""
    array = np.arange(20.0).reshape(5, 4)
    base = Tensor(array.copy())
    part, view = OF[name](array), OF[name](base)
    if seen:
        view.numpy()
    captured = jit(lambda x: x + view)
    zeros = Tensor(np.zeros(part.shape))
    np.testing.assert_array_equal(captured(zeros).numpy(), part)
    for into, of, key, value in (
        (base, array, (2, 1), 100.0), (view, part, 0, 50.0), (base, array, slice(1, 3), 3.0), (base[1:], array[1:], slice(2), 4.0),
    ):  # fmt: skip
        into[key] = of[key] = value
        for x, y in ((captured(zeros), part), (view, part), (base, array)):
            np.testing.assert_array_equal(x.numpy(), y)
    base.assign(base * 2)
    array *= 2
    np.testing.assert_array_equal(captured(zeros).numpy(), part)
