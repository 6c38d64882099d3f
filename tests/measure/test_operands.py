"""Guard pages, canaries, protection and placement of operands."""

import ctypes
import faulthandler
import os
import signal

import numpy as np
import pytest
from tilewright.ir import float32, float64, int8
from tilewright.measure.operands import PAGE, Operands, Region, view


def in_child(action):
    """The signal that ends a forked child doing `action` (0: none)."""
    pid = os.fork()
    if not pid:
        faulthandler.disable()  # the faults below are meant
        try:
            action()
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


def poke(address):
    return lambda: ctypes.memset(address, 1, 1)


def make(n, copies=1, dtype=float32):
    x = np.arange(n, dtype=dtype.np)
    return x, Operands(["x", "y"], [dtype, dtype], [(n,), (n,)], {"x": x}, copies)


@pytest.mark.parametrize("nbytes", [1, PAGE, 3 * PAGE + 1, (4 << 20) + 5])
def test_both_ends_of_a_region_are_inaccessible(nbytes):
    r = Region(nbytes)
    assert r.size % PAGE == 0 and r.size >= nbytes
    assert in_child(poke(r.base)) == 0
    assert in_child(poke(r.base + r.size - 1)) == 0
    assert in_child(poke(r.base - 1)) == signal.SIGSEGV
    assert in_child(poke(r.base + r.size)) == signal.SIGSEGV


@pytest.mark.parametrize("n", [1, 1000, 1024, 5000])
def test_placement_checked_ends_and_timed_begins_at_a_guard_page(n):
    x, ops = make(n)
    for i in (0, 1):
        assert in_child(lambda i=i: ctypes.string_at(ops.checked[i] + 4 * n, 1)) == signal.SIGSEGV
        assert in_child(lambda i=i: ctypes.string_at(ops.timed[0][i] - 1, 1)) == signal.SIGSEGV
        assert ops.timed[0][i] % PAGE == 0
    for addresses in (ops.checked, ops.timed[0]):
        np.testing.assert_array_equal(view(addresses[0], float32, (n,)), x)
    assert (ops.checked[0] == ops.timed[0][0]) == (4 * n % PAGE == 0)
    assert ops.checked[1] != ops.timed[0][1]


@pytest.mark.parametrize("n", [1, 1024, 5000])
def test_beside_others_the_pages_around_timed_copies_can_be_read_and_not_written(n):
    _, ops = make(n, copies=2)
    ends = [(ops.timed[0][i] - 1, -(-(ops.timed[1][i] + 4 * n) // PAGE) * PAGE) for i in (0, 1)]
    with ops.beside_others():
        for address in [a for pair in ends for a in pair]:
            assert in_child(lambda a=address: ctypes.string_at(a, 1)) == 0
            assert in_child(poke(address)) == signal.SIGSEGV
    for address in [a for pair in ends for a in pair]:
        assert in_child(lambda a=address: ctypes.string_at(a, 1)) == signal.SIGSEGV


def test_inputs_are_read_only_and_outputs_writable():
    _, ops = make(5000)
    assert in_child(poke(ops.checked[0])) == signal.SIGSEGV
    assert in_child(poke(ops.timed[0][0])) == signal.SIGSEGV
    assert in_child(poke(ops.checked[1])) == 0


def test_rotated_sets_are_distinct_and_hold_the_same_inputs():
    x, ops = make(1000, copies=7, dtype=float64)
    assert len({s[0] for s in ops.timed}) == len({s[1] for s in ops.timed}) == 7
    for s in ops.timed:
        np.testing.assert_array_equal(view(s[0], float64, (1000,)), x)
        assert s[1] % 64 == 0


def test_poison_is_nan_for_floats_and_wrong_for_integers():
    _, ops = make(5000)
    ops.poison(ops.checked, {})
    assert np.isnan(view(ops.checked[1], float32, (5000,))).all()
    right = np.arange(100, dtype=np.int8)
    ints = Operands(["y"], [int8], [(100,)], {})
    ints.poison(ints.checked, {"y": ~right})
    assert (view(ints.checked[0], int8, (100,)) != right).all()


@pytest.mark.parametrize("where,text", [("before", "wrote outside y, before its start"), ("after", "wrote outside y, past its end")])
def test_canaries_tell_which_side_was_overrun(where, text):
    _, ops = make(5000)
    ops.set_canaries()
    assert ops.broken() == ""
    ctypes.memset(ops.checked[1] - 1 if where == "before" else ops.timed[0][1] + 4 * 5000, 0, 1)
    assert ops.broken() == text
    ops.set_canaries()
    assert ops.broken() == ""


def test_empty_parameters_have_an_address():
    ops = Operands(["x"], [float32], [(0, 3)], {})
    ops.poison(ops.checked, {})
    assert view(ops.checked[0], float32, (0, 3)).shape == (0, 3)
