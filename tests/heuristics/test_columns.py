"""Start schedules for statistics down the columns, and for extremes of windows that slide over rows."""

from __future__ import annotations

import pytest
from tilewright.heuristics import estimate, quick_starts, starts
from tilewright.heuristics.model.shared_work import times_computed
from tilewright.ir import KernelBuilder, exp, float32, sqrt, where
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply, parse
from tilewright.opts.analysis.structure import stageable_values
from tilewright.opts.opt import Opts
from tilewright.targets import named


def column_lse(n: int, c: int) -> Kernel:
    """Sums of exponentials down the columns, from their maxima on."""
    kb = KernelBuilder("column_lse")
    j, a, b = kb.axis("c", c), kb.axis("n@top", n), kb.axis("n@sum", n)
    x = kb.input("x", (n, c), float32)
    top = kb.max("top", (j,), a, x[a, j])
    kb.store("y", float32, (c,), (j,), kb.sum("total", (j,), b, exp(x[b, j] - top[j]))[j] + top[j])
    return kb.build()


def named_options(opts: Opts, op: str) -> dict[str, object]:
    return {o.on: o.arg for o in opts if o.op == op}


@pytest.mark.parametrize("level", ["haswell", "cascadelake"])
def test_columns_are_gone_through_row_by_row(level: str) -> None:
    for first in (make(column_lse(2048, 1024), named(level), 1)[0] for make in (starts, quick_starts)):
        assert set(named_options(first, "MOVE")) == {"n@top", "n@sum"} and not named_options(first, "TILE")


def test_threads_share_the_rows_in_strips() -> None:
    first = starts(column_lse(2048, 8192), named("cascadelake"), 2)[0]
    assert set(named_options(first, "MOVE")) == {"n@top", "n@sum"}
    assert set(named_options(first, "PARALLEL")) == {"c"} == set(named_options(first, "TILE"))


@pytest.mark.parametrize("level", ["haswell", "cascadelake"])
def test_windows_over_rows_are_spelled_out(level: str) -> None:
    kb = KernelBuilder("dilate")
    i, j, p, q = kb.axis("h", 512), kb.axis("w", 512), kb.axis("p", 5), kb.axis("q", 5)
    x = kb.input("x", (516, 516), float32)
    kb.store("y", float32, (512, 512), (i, j), kb.max("top", (i, j), (p, q), x[i + p, j + q])[i, j])
    first = starts(kb.build(), named(level), 1)[0]
    assert named_options(first, "UNROLL") == {"p": 5, "q": 5} and named_options(first, "UPCAST")["h"] in (4, 8)


def test_rows_of_sums_share_what_their_windows_read() -> None:
    kb = KernelBuilder("box")
    i, j, p, q = kb.axis("h", 512), kb.axis("w", 512), kb.axis("p", 5), kb.axis("q", 5)
    x = kb.input("x", (516, 516), float32)
    kb.store("y", float32, (512, 512), (i, j), kb.sum("total", (i, j), (p, q), x[i + p, j + q])[i, j])
    first = starts(kb.build(), named("haswell"), 1)[0]
    assert named_options(first, "UNROLL") == {"p": 5, "q": 5} and named_options(first, "UPCAST")["h"] == 4


def test_what_copies_have_in_common_is_counted_once() -> None:
    """sqrt(x[i] + x[i + 2]), and the next row's square of the same root."""
    kb = KernelBuilder("common")
    i, j = kb.axis("h", 64), kb.axis("w", 64)
    x = kb.input("x", (67, 64), float32)
    first, second = (sqrt(x[i + k, j] + x[i + k + 2, j]) for k in (0, 1))
    kb.store("y", float32, (64, 64), (i, j), first * 2.0 + second)
    s = apply(kb.build(), parse("Uh4 Uw8"), named("haswell"))
    (nest,) = s.nests
    lane, regs = s.lanes(nest).lane, s.registers(nest)
    copies = {p.name: p.trips // 8 if p is lane else p.trips for p in regs}
    found = times_computed(s, nest, [n for n in nest.nodes if n.op == "sqrt"], regs, copies, lane)
    assert sorted(found.values()) == [1, 4]


def test_a_choice_by_a_rows_number_is_not_worth_keeping() -> None:
    kb = KernelBuilder("chosen")
    i, (a, b, c, d, f) = kb.axis("m", 8), (kb.axis(f"n@{k}", 64) for k in range(5))
    x, least = kb.input("x", (8, 64), float32), kb.input("least", (8,), float32)
    e = kb.value("e", (i, a), exp(x[i, a]))
    whole = kb.sum("whole", (i,), f, e[i, f])
    kept = kb.value("kept", (i, b), where(e[i, b] < least[i] * whole[i], 0.0, e[i, b]))
    total = kb.sum("total", (i,), c, kept[i, c])
    kb.store("y", float32, (8, 64), (i, d), kept[i, d] / total[i])
    assert stageable_values(kb.build()) == ["e"]


@pytest.mark.parametrize("level", ["haswell", "cascadelake"])
@pytest.mark.parametrize("k", [4, 9])
def test_windows_over_a_signal_are_spelled_out_in_one_loop(level: str, k: int) -> None:
    kb = KernelBuilder("window_range")
    i, a, b = kb.axis("n", 300_000), kb.axis("k@high", k), kb.axis("k@low", k)
    x = kb.input("x", (300_000 + k - 1,), float32)
    kb.store("y", float32, (300_000,), (i,), kb.max("high", (i,), a, x[i + a])[i] - kb.min("low", (i,), b, x[i + b])[i])
    first = starts(kb.build(), named(level), 1)[0]
    assert named_options(first, "UNROLL") == {"k@high": k, "k@low": k} and "k" in named_options(first, "FUSE")


def test_strips_of_a_scan_are_no_wider_than_what_it_hands_on_has_registers() -> None:
    """All states are stored before the first difference: what is below its maximum is kept meanwhile, and so is the maximum."""
    kb = KernelBuilder("below")
    i, j = kb.axis("t", 48), kb.axis("n", 256)
    x = kb.input("x", (48, 256), float32)
    kb.store("y", float32, (48, 256), (i, j), kb.scan("max", "top", (i, j), i, x[i, j])[i, j] - x[i, j])
    kernel, target = kb.build(), named("haswell")
    times = {width: estimate(apply(kernel, parse(f"Un{width}"), target)) for width in (32, 64, 128)}
    assert times[128] > 1.05 * times[64]
    assert named_options(starts(kernel, target, 1)[0], "UPCAST")["n"] == 64
