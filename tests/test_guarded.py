"""Guarded arrays: an element past the end ends the process, a byte before the start is seen."""

from __future__ import annotations

import ctypes
import signal

import guarded
import numpy as np
import pytest
from checks import in_child


def put(address: int) -> str:
    ctypes.memset(address, 1, 1)
    return "lived"


@pytest.mark.parametrize(
    "values", [np.arange(5.0), np.zeros((3, 5), bool), np.zeros((0, 3), np.int8), np.float32(3), np.zeros(4096, np.uint8)]
)
def test_the_end_touches_an_inaccessible_page(values: np.ndarray) -> None:
    a = guarded.array(values)
    assert a.shape == np.shape(values) and a.dtype == values.dtype and (a == values).all() and not guarded.broken(a)
    end = a.ctypes.data + a.nbytes
    assert in_child(lambda: put(end), fatal=True) == f"the compiled code ended with signal {signal.SIGSEGV:d}"
    assert not a.nbytes or in_child(lambda: put(end - 1)) == "lived"


@pytest.mark.parametrize(("offset", "said"), [(-1, "before its start"), (0, ""), (39, ""), (40, "past its end")])
def test_what_is_written_beside_an_array_is_seen(offset: int, said: str) -> None:
    a = guarded.array(np.arange(5.0), 64)
    assert a.ctypes.data % 64 == 0
    put(a.ctypes.data + offset)
    assert guarded.broken(a) == said


def test_an_array_may_begin_beside_an_alignment() -> None:
    assert guarded.array(np.zeros(100), 64, 8).ctypes.data % 64 == 8


def test_copies_are_written_back_and_looked_at() -> None:
    x, y = np.arange(3), np.zeros(3, int)
    x.flags.writeable = False
    with guarded.copies([x, y, y]) as inside:
        assert inside[1] is inside[2]
        inside[1][:] = inside[0] + 1
    assert y.tolist() == [1, 2, 3]
    with pytest.raises(AssertionError, match=r"array 1 of 2 .* before its start"), guarded.copies([x, y]) as inside:
        put(inside[1].ctypes.data - 1)
    with pytest.raises(AssertionError, match="array 0 is an input"), guarded.copies([x, y]) as inside:
        inside[0][1] = 9
