"""Stores that write an element twice are found, with two points; stores of parts of one output are told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright.ir import KernelBuilder, KernelError, axis, dtypes, float32, int32, int64, sym
from tilewright.ir import index as ix
from tilewright.ir.body import Store
from tilewright.ir.buffer import Buffer
from tilewright.ir.checks import written_once as written_whole
from tilewright.ir.checks.written_once import writes, writes_whole
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node, const
from tilewright.tensor.graph import index_maps as maps


def stored(shape: Any, indices: Callable[[Any, Any, Any], Any], mask: Any = None, extents: Any = (8, 16)) -> Kernel:
    """y[indices(i, j, ids)] = x[i, j], where mask(i, j)."""
    kb = KernelBuilder("k")
    i, j = kb.axis("m", extents[0]), kb.axis("n", extents[1])
    x, ids = kb.input("x", extents, float32), kb.input("ids", (extents[0],), int32, range=(0, 7))
    kb.store("y", float32, shape, (i, j), x[i, j], indices(i, j, ids), mask=None if mask is None else mask(i, j))
    return kb.build()


@pytest.mark.parametrize(
    ("shape", "indices", "mask", "said"),
    [
        ((8,), lambda i, j, ids: (i,), None, "at m = 0, n = 0 and at m = 0, n = 1: no index has axis n"),
        ((8, 16), lambda i, j, ids: (i, 0), None, "at m = 0, n = 0 and at m = 0, n = 1: no index has axis n"),
        ((8, 8), lambda i, j, ids: (i, j // 2), None, "at m = 0, n = 0 and at m = 0, n = 1: the index of points that differ in n"),
        ((23,), lambda i, j, ids: (i + j,), None, "at m = 0, n = 1 and at m = 1, n = 0"),
        ((8, 16), lambda i, j, ids: (i, j % 15), lambda i, j: (j < 1) | (j > 13), "at m = 0, n = 0 and at m = 0, n = 15"),
    ],
)
def test_two_points_of_one_element_are_named(shape: Any, indices: Any, mask: Any, said: str) -> None:
    with pytest.raises(KernelError, match=f"the store to y writes one element twice, {said}"):
        stored(shape, indices, mask)


def test_the_same_in_kernels_too_large_to_try_whole() -> None:
    with pytest.raises(KernelError, match="writes one element twice, at m = 0, n = 1 and at m = 1, n = 0"):
        stored((8191,), lambda i, j, ids: (i + j,), extents=(4096, 4096))


@pytest.mark.parametrize(
    ("shape", "indices", "mask"),
    [
        ((16, 8), lambda i, j, ids: (j, i), None),
        ((128,), lambda i, j, ids: (i * 16 + j,), None),
        ((128,), lambda i, j, ids: (127 - i - 8 * j,), None),
        ((23, 16), lambda i, j, ids: (i + j, j), None),
        ((8, 4, 4), lambda i, j, ids: (i, j // 4, j % 4), None),
        ((8, 8), lambda i, j, ids: (i, j // 2), lambda i, j: (j % 2).eq(0)),
        ((8,), lambda i, j, ids: (i,), lambda i, j: j.eq(3)),
    ],
)
def test_what_tells_points_apart_is_seen(shape: Any, indices: Any, mask: Any) -> None:
    assert writes(stored(shape, indices, mask).stores[0]).once


def test_data_and_symbols_leave_it_open() -> None:
    found = writes(stored((8, 16), lambda i, j, ids: (ids[i].cast(int64), j)).stores[0])
    assert not found.once and found.at is None
    n = sym("n", 1, 9)
    assert writes(stored((8, n), lambda i, j, ids: (i, j), extents=(8, n)).stores[0]).once


def joined(first: Any, second: Any, rows: Any = 16, m: Any = 8, mask: Any = None) -> Kernel:
    """Two stores to y, at rows first(i) and second(i)."""
    kb = KernelBuilder("k")
    i, j = kb.axis("m", m), kb.axis("n", 4)
    x, w = kb.input("x", (m, 4), float32), kb.input("w", (m, 4), float32)
    kb.store("y", float32, (rows, 4), (i, j), x[i, j], (first(i), j), mask=None if mask is None else mask(i))
    kb.store("y", float32, (rows, 4), (i, j), w[i, j], (second(i), j), mask=None if mask is None else ~mask(i))
    return kb.build()


def test_parts_of_one_output() -> None:
    n = sym("n", 1, 9)
    for kernel in (
        joined(lambda i: i, lambda i: i + 8),
        joined(lambda i: 2 * i, lambda i: 2 * i + 1),
        joined(lambda i: i, lambda i: 15 - i),
        joined(lambda i: i, lambda i: i, 8, mask=lambda i: i < 3),
        joined(lambda i: i, lambda i: i + n, 2 * n, n),
    ):
        assert len(kernel.stores) == 2 and len(kernel.outputs) == 1
    with pytest.raises(
        KernelError, match=r"two stores to y both write y\[7, 0\], the first at m = 7, n = 0 and the second at m = 0, n = 0"
    ):
        joined(lambda i: i, lambda i: i + 7)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (None, "add", "one combines nothing and the other combines by 'add'; .* give both combine='add', or write two outputs"),
        ("max", None, "one combines by 'max' and the other combines nothing; .* give both combine='max'"),
        ("add", "max", "one combines by 'add' and the other combines by 'max'"),
        ("add", "add", ""),
    ],
)
def test_stores_that_combine_have_one_combine(first: Any, second: Any, said: str) -> None:
    kb = KernelBuilder("k")
    i = kb.axis("m", 8)
    x = kb.input("x", (8,), float32)
    kb.store("y", float32, (16,), i, x[i], combine=first)
    kb.store("y", float32, (16,), i, x[i], i + (8 if None in (first, second) else 0), combine=second)
    if not said:
        assert [s.combine for s in kb.build().stores] == ["add", "add"]
        return
    with pytest.raises(KernelError, match=said):
        kb.build()


# Stores that write every element of their output, and stores that do not.


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
        if told is not None and written_whole.disjoint_by_steps(told):
            said += 1
            assert written_whole._tried(s, shape)
    assert said > 50
