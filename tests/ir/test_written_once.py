"""Stores that write an element twice are found, with two points; stores of parts of one output are told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tilewright.ir import KernelBuilder, KernelError, float32, int32, int64, sym
from tilewright.ir.checks.written_once import writes
from tilewright.ir.kernel import Kernel


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
