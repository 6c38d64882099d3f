"""Stores that share their innermost loop are estimated as one body: what they share is computed and read once."""

from __future__ import annotations

import pytest
from tilewright import targets
from tilewright.heuristics import estimate
from tilewright.heuristics.model.loop_bodies import one_body
from tilewright.ir import Kernel, KernelBuilder, exp, float32
from tilewright.opts import apply, opt
from tilewright.opts.schedule import Scheduled

TARGET = targets.named("znver4")


def outputs(many: int, h: int = 64, w: int = 512) -> Kernel:
    """So many outputs that share an exponential."""
    kb = KernelBuilder("outputs")
    i, j = kb.axis("h", h), kb.axis("w", w)
    shared = exp(kb.input("x", (h, w), float32)[i, j])
    for k in range(many):
        kb.store(f"y{k}", float32, (h, w), (i, j), shared * (k + 1.0))
    return kb.build()


def scheduled(many: int, wide: int) -> Scheduled:
    return apply(outputs(many), [opt("UPCAST", "w", wide), opt("PARALLEL", "h")], TARGET)


def test_stores_in_one_loop_are_one_body() -> None:
    s = scheduled(3, 64)
    assert all(one_body(s, n) == tuple(s.nests) for n in s.nests)


def test_stores_with_loops_of_their_own_are_not() -> None:
    kb = KernelBuilder("apart")
    i, j = kb.axis("n", 64), kb.axis("m", 96)
    x, z = kb.input("x", (64,), float32), kb.input("z", (96,), float32)
    kb.store("y", float32, (64,), (i,), x[i] + 1.0)
    kb.store("w", float32, (96,), (j,), z[j] + 1.0)
    s = apply(kb.build(), [], TARGET)
    assert all(one_body(s, n) == (n,) for n in s.nests)


def test_what_they_share_counts_once() -> None:
    """Four exponentials would take four times as long as one."""
    one, four = (estimate(scheduled(k, 64), 1) for k in (1, 4))
    assert four < 3 * one


@pytest.mark.parametrize(("wide", "dearer"), [(32, False), (128, True)])
def test_more_results_than_registers_are_spilled(wide: int, dearer: bool) -> None:
    """Nine results of eight vectors each have no room in 32 registers, those of two have."""
    narrow, other = estimate(scheduled(9, 16), 1), estimate(scheduled(9, wide), 1)
    assert (other > 1.01 * narrow) == dearer


def layers() -> Kernel:
    """A scan down columns, and two outputs of what it reads."""
    kb = KernelBuilder("layers")
    k, j = kb.axis("l", 32), kb.axis("w", 4096)
    x = kb.input("x", (32, 4096), float32)
    weight = kb.value("weight", (k, j), exp(x[k, j]))
    above = kb.scan("add", "above", (k, j), k, weight[k, j])
    kb.store("rho", float32, (32, 4096), (k, j), weight[k, j])
    kb.store("press", float32, (32, 4096), (k, j), above[k, j] - weight[k, j])
    return kb.build()


def test_a_scan_and_what_runs_in_its_loop_are_one_body() -> None:
    s = apply(layers(), [opt("UPCAST", "w", 16)], TARGET)
    assert all(one_body(s, n) == tuple(s.nests) for n in s.nests)


@pytest.mark.parametrize(("level", "many", "slower"), [("haswell", 9, True), ("haswell", 3, False), ("cascadelake", 9, False)])
def test_many_rows_stored_past_the_caches_by_short_vectors_leave_in_pieces(level: str, many: int, slower: bool) -> None:
    """A vector of 32 bytes is half a line, and compilers may put those of other rows before the next half."""
    kernel, target = outputs(many, 512, 4096), targets.named(level)
    plain = [opt("UPCAST", "w", 16), opt("PARALLEL", "h")]
    past = [*plain, *(opt("CACHE", f"y{k}", policy="stream") for k in range(many))]
    assert (estimate(apply(kernel, past, target), 1) > estimate(apply(kernel, plain, target), 1)) == slower
