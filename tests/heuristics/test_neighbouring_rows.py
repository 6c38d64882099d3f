"""Start schedules and estimates of stencils: rows that share what they read, looked at away from borders."""

from __future__ import annotations

import pytest
from odd_borders import borders
from tilewright import targets
from tilewright.heuristics import estimate, starts
from tilewright.heuristics.start import StartFacts
from tilewright.heuristics.start.register_tiles import NeighbouringRows
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.functions import maximum, minimum
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply, opt, parse
from tilewright.opts.analysis.thresholds import holds_inside

AVX2 = targets.named("avx2")


def heat(n: int, w: int, clamps: bool = True) -> Kernel:
    """Neighbours in three dimensions; without `clamps` of a padded input."""
    kb = KernelBuilder("heat")
    axes = [kb.axis("d", n), kb.axis("h", n), kb.axis("w", w)]
    sizes = (n, n, w)
    x = kb.input("x", sizes if clamps else (n + 2, n + 2, w + 2), float32)
    total = x[tuple(axes)] if clamps else x[tuple(a + 1 for a in axes)]
    for d in range(3):
        for by in (-1, 1):
            at = [a if clamps else a + 1 for a in axes]
            at[d] = at[d] + by
            if clamps:
                at[d] = maximum(at[d], 0) if by < 0 else minimum(at[d], sizes[d] - 1)
            total = total + x[tuple(at)]
    kb.store("y", float32, sizes, axes, total)
    return kb.build()


def test_planes_side_by_side_come_first() -> None:
    first = starts(heat(160, 176), AVX2, 1)[0]  # (planes of 160 by 160 meet in the sets of the first cache)
    assert opt("UPCAST", "d", 4) in first and first[0] == opt("UPCAST", "w", 16), "two vectors are a line"


def test_rows_that_are_no_whole_lines_are_not_stored_in_turns() -> None:
    assert list(NeighbouringRows().guesses(StartFacts(borders(64, 64, 0, 1), AVX2)))
    assert not list(NeighbouringRows().guesses(StartFacts(borders(64, 67, 0, 1), AVX2)))


def test_rows_that_are_no_whole_lines_are_stored_in_turns_where_they_share_much() -> None:
    """Nine neighbours: four rows side by side read eighteen vectors, and one after the other thirty-six."""
    kb = KernelBuilder("box")
    i, j = kb.axis("m", 61), kb.axis("n", 67)
    x = kb.input("x", (63, 69), float32)
    kb.store("y", float32, (61, 67), (i, j), sum((x[i + p, j + q] for p in range(3) for q in range(3)), x[i, j] * 2.0))
    kernel = kb.build()
    assert {o for opts in NeighbouringRows().guesses(StartFacts(kernel, AVX2)) for o in opts if o.on == "m"} >= {
        opt("UPCAST", "m", 4),
        opt("UPCAST", "m", 2),
    }
    assert opt("UPCAST", "m", 4) in starts(kernel, AVX2, 1)[0]


def test_several_outputs_are_not_stored_in_pieces_of_lines() -> None:
    def two(w: int) -> Kernel:
        kb = KernelBuilder("two")
        i, j = kb.axis("m", 61), kb.axis("n", w)
        x = kb.input("x", (63, w + 2), float32)
        total = sum((x[i + p, j + q] for p in range(3) for q in range(3)), x[i, j] * 2.0)
        kb.store("y", float32, (61, w), (i, j), total)
        kb.store("z", float32, (61, w), (i, j), total * x[i + 1, j])
        return kb.build()

    assert list(NeighbouringRows().guesses(StartFacts(two(64), AVX2)))
    assert not list(NeighbouringRows().guesses(StartFacts(two(67), AVX2)))


def test_what_is_read_once_has_no_such_tiles() -> None:
    kb = KernelBuilder("copy")
    i, j = kb.axis("m", 64), kb.axis("n", 64)
    kb.store("y", float32, (64, 64), (i, j), kb.input("x", (64, 64), float32)[i, j])
    assert not list(NeighbouringRows().guesses(StartFacts(kb.build(), AVX2)))


def test_borders_cost_little_by_the_model() -> None:
    opts = parse([["UPCAST", "w", 16], ["UPCAST", "d", 4], ["PARALLEL", "d"]])
    inside, padded = (estimate(apply(heat(64, 128, c), opts, AVX2)) for c in (True, False))
    assert inside == pytest.approx(padded, rel=0.1)


def test_a_mask_that_borders_decide_holds_inside() -> None:
    for kind, opts, free in ((3, [["UPCAST", "n", 8]], True), (3, [["UPCAST", "n", 32], ["UPCAST", "m", 16]], False)):
        s = apply(borders(64, 512, kind, 1), parse(opts), AVX2)
        masks = [n.src[-1] for n in s.nests[0].loads if n.arg[1]]
        assert masks and all(holds_inside(s, s.nests[0], m) for m in masks) is free


def test_a_pooling_has_its_lanes_over_the_results() -> None:
    """The windows of a pooling lie side by side: vectors of results pick from whole vectors, not the two steps of a window."""
    kb = KernelBuilder("pool")
    c, i, j, p, q = kb.axis("c", 8), kb.axis("h", 32), kb.axis("w", 64), kb.axis("p", 2), kb.axis("q", 2)
    x = kb.input("x", (8, 64, 128), float32)
    most = kb.max("most", (c, i, j), (p, q), x[c, 2 * i + p, 2 * j + q])
    kb.store("y", float32, (8, 32, 64), (c, i, j), most[c, i, j])
    first = starts(normalise(kb.build()), AVX2, 1)[0]
    assert any(o.op == "UPCAST" and o.on == "w" and isinstance(o.arg, int) and o.arg >= 8 for o in first)
    assert not any(o.op == "UPCAST" and o.on == "q" for o in first)


def test_the_window_of_a_signal_is_spelled_out() -> None:
    kb = KernelBuilder("highest")
    i, k = kb.axis("n", 4096), kb.axis("k", 9)
    kb.store("y", float32, (4096,), (i,), kb.max("most", (i,), k, kb.input("x", (4104,), float32)[i + k])[i])
    assert any(opt("UNROLL", "k", 9) in s for s in starts(normalise(kb.build()), AVX2, 1))


def test_every_fourth_sample_of_a_filter_has_lanes_along_the_window() -> None:
    kb = KernelBuilder("decimate")
    i, k = kb.axis("n", 4096), kb.axis("k", 48)
    x, w = kb.input("x", (4 * 4096 + 48,), float32), kb.input("w", (48,), float32)
    kb.store("y", float32, (4096,), (i,), kb.sum("total", (i,), k, x[4 * i + k] * w[k])[i])
    first = starts(normalise(kb.build()), AVX2, 1)[0]
    assert opt("UPCAST", "k", 16) in first and opt("UPCAST", "n", 4) in first
