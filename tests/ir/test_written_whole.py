"""Stores that write every element of their output, and stores that do not."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.ir import axis, dtypes
from tilewright.ir import index as ix
from tilewright.ir.body import Store
from tilewright.ir.buffer import Buffer
from tilewright.ir.checks import written_once as written_whole
from tilewright.ir.checks.written_once import writes_whole
from tilewright.ir.node import Node, const, sym
from tilewright.tensor.graph import index_maps as maps


def store(shape: tuple[int | Node, ...], at: tuple[Node, ...], axes: tuple[Node, ...], **more: object) -> Store:
    return Store(Buffer("out", dtypes.float32, shape, "out"), at, const(1.0, dtypes.float32), axes, **more)  # type: ignore[arg-type]


A, B, C = axis("a", 6), axis("b", 10), axis("c", 4)


@pytest.fixture(params=["digits", "points"])
def only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By digits alone, and by trying every point alone."""
    if request.param == "digits":
        monkeypatch.setattr(written_whole, "_tried", lambda *a: False)
    else:
        monkeypatch.setattr(written_whole, "_by_digits", lambda s: None)
    writes_whole.cache_clear()
    return str(request.param)


def test_permutations_and_reshapes(only: str) -> None:
    assert writes_whole(store((6, 10), (A, B), (B, A)))
    assert writes_whole(store((10, 6), (B, A), (A, B)))
    assert writes_whole(store((60,), (ix.add(ix.mul(A, const(10)), B),), (A, B)))
    assert writes_whole(store((15, 16), maps.unravel(maps.ravel((6, 10, 4), (A, B, C)), (15, 16)), (A, B, C)))
    assert writes_whole(store((1, 6, 1), (const(0), A, const(0)), (A,)))
    assert writes_whole(store((), (), ()))
    assert writes_whole(store((0, 5), (axis("z", 0), axis("y", 5)), (axis("z", 0), axis("y", 5))))


@pytest.mark.parametrize("last", [(5, 12, 4), (40, 6), (8, 3, 10)])
def test_reshapes_of_permutations_of_reshapes(last: tuple[int, ...]) -> None:
    flat = maps.ravel((10, 4, 6), (B, C, A))
    middle = maps.unravel(flat, (15, 16))
    again = maps.ravel((16, 15), middle[::-1])
    assert writes_whole(store(last, maps.unravel(again, last), (A, B, C)))


def test_parts_are_not_the_whole() -> None:
    assert not writes_whole(store((6, 11), (A, B), (A, B)))
    assert not writes_whole(store((6, 10), (A, ix.floordiv(B, 2)), (A, B)))
    assert not writes_whole(store((6, 6), (A, A), (A,)))
    assert not writes_whole(store((60,), (ix.add(ix.mul(A, const(9)), B),), (A, B)))
    assert not writes_whole(store((6, 10), (A, B), (A, B), mask=A < 5))
    assert writes_whole(store((6, 10), (A, B), (A, B), mask=A < 6))
    assert writes_whole(store((6, 100), (A, B), (A, B), combine="add"))


def test_more_points_than_elements() -> None:
    both = axis("d", 12)
    assert writes_whole(store((6,), (ix.floordiv(both, 2),), (both,)))
    assert not writes_whole(store((7,), (ix.floordiv(both, 2),), (both,)))


def test_symbolic_sizes() -> None:
    n = sym("n", 1, 50)
    i, j = axis("i", n), axis("j", 4)
    assert writes_whole(store((n, 4), (i, j), (i, j))) and writes_whole(store((4, n), (j, i), (i, j)))
    assert writes_whole(store((ix.mul(n, const(4)),), (ix.add(ix.mul(i, const(4)), j),), (i, j)))
    assert writes_whole(store((ix.mul(n, const(4)),), (ix.add(ix.mul(j, n), i),), (i, j)))
    assert not writes_whole(store((ix.add(n, const(1)), 4), (i, j), (i, j)))
    assert not writes_whole(store((n, 8), (i, j), (i, j)))


def test_digits_agree_with_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever digits say is so."""
    rng = np.random.default_rng(0)
    axes = (A, B, C)
    said = 0
    for _ in range(200):
        flat = maps.ravel(tuple(a.arg.extent for a in axes), axes)
        shape = tuple(int(n) for n in rng.permutation([d for d in rng.choice([2, 3, 4, 5, 8, 10, 12], 3)]))
        if np.prod(shape) != 240:
            shape = (15, 4, 4)
        at = maps.unravel(flat, shape)
        order = rng.permutation(3)
        at, shape = tuple(at[d] for d in order), tuple(shape[d] for d in order)
        if rng.integers(3) == 0:
            at = (ix.floordiv(ix.mul(at[0], const(2)), 3), *at[1:])
        s = store(shape, at, axes)
        told = written_whole._by_digits(s)
        if told is not None and written_whole.apart_by_steps(told):
            said += 1
            assert written_whole._tried(s, shape)
    assert said > 50
