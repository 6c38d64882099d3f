"""What is kept of a first run: in its place until that is written, then in a copy."""

import ctypes

import numpy as np
from tilewright.ir import float32
from tilewright.measure.checking.compare import FirstOutputs
from tilewright.measure.operands import Operands, view

N = 3000


def made() -> tuple[Operands, FirstOutputs]:
    host = Operands(["y"], [float32], [(N,)], {})
    for addresses in (host.checked, host.timed[0]):
        view(addresses[0], float32, (N,))[...] = np.arange(N)
    return host, FirstOutputs(host)


def test_nothing_is_copied_until_its_place_is_written() -> None:
    host, kept = made()
    kept.keep(host.checked)
    kept.leave(host.timed[0])
    assert not kept._copies and not kept.difference(host.timed[0])
    kept.leave(host.checked)
    ctypes.memset(host.checked[0], 0xFF, 4 * N)
    assert not kept.difference(host.timed[0])
    assert "y[0] was 0.0 and is nan; 3000 of 3000 elements changed" in kept.difference(host.checked)


def test_one_other_element_is_found_wherever_the_kept_ones_lie() -> None:
    host, kept = made()
    kept.keep(host.checked)
    view(host.timed[0][0], float32, (N,))[N - 1] = 7
    for _ in range(2):
        assert f"y[{N - 1}] was {N - 1}.0 and is 7.0; 1 of {N}" in kept.difference(host.timed[0])
        kept.leave(host.checked)
        ctypes.memset(host.checked[0], 0, 4 * N)


def test_what_was_forgotten_is_not_copied() -> None:
    host, kept = made()
    kept.keep(host.checked)
    kept.forget()
    kept.leave(host.checked)
    assert not kept._copies


def test_where_a_place_is_used_for_other_things_it_is_copied_at_once() -> None:
    host, _ = made()
    kept = FirstOutputs(host, stay=False)
    kept.keep(host.checked)
    ctypes.memset(host.checked[0], 0xFF, 4 * N)
    assert not kept.difference(host.timed[0]) and kept.difference(host.checked)
