"""Jumps between pages: streams make none, short runs at large strides one each."""

from __future__ import annotations

import pytest
from tilewright import named_kernels
from tilewright.heuristics.machine import DEFAULT
from tilewright.heuristics.model import estimate
from tilewright.heuristics.model.loads import jumps
from tilewright.heuristics.start import starts
from tilewright.ir import KernelBuilder, exp, float32
from tilewright.ir.normal_form import normalise
from tilewright.opts import opt, parse
from tilewright.opts.apply_options import apply
from tilewright.targets import named

ROW = 1 << 14


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([(4, 2048), (ROW, 4096)], 4096),  # long pieces of rows
        ([(4, 64), (ROW, 4096), (256, 64)], 64 * 4096),  # columns of short pieces
        ([(4, 64), (ROW, 8), (256, 64), (8 * ROW, 512)], 8 * 512),  # eight rows side by side
        ([(4, 1 << 24)], 0),  # one run
        ([(8, 16), (128, 128), (ROW, 4096)], 0),  # pairs side by side: one run
        ([(8, 16), (128, 32), (ROW, 4096)], 4096),  # components of pairs: long pieces of rows too
        ([(4, 64), (256, 4096), (0, 1000)], 0),  # one run, read again
        ([(4, 64), (ROW, 4096), (0, 10)], 10 * 4096),  # more pages than translations are kept, walked ten times
        ([(4, 64), (ROW, 512), (0, 10)], 0),  # few pages
    ],
)
def test_jumps(levels, expected):
    assert jumps(4, levels)[0] == expected


def test_streams_beyond_the_prefetchers_cost_by_the_line():
    """Element by element along 40 rows that lie apart: a jump for a line, not for an element, and a cheaper one, within a page."""
    apart = 12_000
    assert jumps(4, [(apart, 28), (4, 3000)])[0] == 0
    found, _ = jumps(4, [(apart, 40), (4, 3000)])
    assert 40 * 3000 * 4 / 64 * 0.2 < found < 40 * 3000 * 4 / 64
    assert jumps(4, [(ROW, 24), (4, 4096)])[0] > 0  # strides of whole pages share the first cache's sets


def test_a_sweep_comes_back_to_pages_while_their_translations_are_kept():
    most = DEFAULT.jumps.translations
    assert jumps(4, [(4, 64), (ROW, most), (256, 64)])[1]
    assert not jumps(4, [(4, 64), (ROW, 2 * most), (256, 64)])[1]  # the first is gone when the second strip begins
    assert not jumps(4, [(4, 64), (ROW, most), (most * ROW, 8)])[1]  # other pages each time


def test_two_steps_of_a_sum_at_once_are_no_more_jumps():
    """Rows of 2,096 bytes lie two in a page, whether a panel takes one or two of them at a time."""
    kernel = normalise(named_kernels.make("matmul", {"m": 10, "n": 524, "k": 1320}, "float32"))
    panel, rows = (estimate(apply(kernel, parse(o), named("znver4"))) for o in ("Um10 Un32 Tn32 Pn Rk2", "Um10 Un32 Rk16 Mk<n"))
    assert panel < rows


def test_many_lines_of_rows_side_by_side_are_not_fetched_ahead_on_zen_4():
    """Three rows by a matrix in memory: a line of each of sixteen rows at a time. One vector, whose sums are short, may ask for more."""

    def ratio(rows, cpu="znver4", k=2970):
        kernel = normalise(named_kernels.make("matmul", {"m": rows, "n": 2887, "k": k}, "float32"))
        tall = f"Um{rows} " if rows > 1 else ""
        narrow, wide = (estimate(apply(kernel, parse(f"{tall}Un{n} Rk16 Mk<n"), named(cpu))) for n in (16, 64))
        return narrow / wide

    assert ratio(3) < 1.0 < ratio(1)
    assert ratio(3, "cascadelake") > 1.0 and ratio(3, k=300) > 1.0  # not measured there; and in the last cache it costs little


def columns(m, opts, function=False):
    """Seconds that the model for Zen 4 gives sums of m rows of 1,400 columns."""
    kb = KernelBuilder("columns")
    i, j = kb.axis("m", m), kb.axis("n", 1400)
    x = kb.input("x", (m, 1400), float32)[i, j]
    kb.store("y", float32, (1400,), (j,), kb.sum("s", (j,), i, exp(x) if function else x)[j])
    return estimate(apply(normalise(kb.build()), parse(opts), named("znver4")))


def test_strips_of_few_pages_in_the_last_cache_are_cheap_on_zen_4():
    strips, rows = "Un128 Pn", "Un128 Mm<n"
    assert columns(1000, strips) < columns(1000, rows) and columns(1800, strips) > columns(1800, rows)
    # between functions a page is far either way
    assert columns(1300, strips) > 1.6 * columns(1000, strips) and columns(1300, strips, True) < 1.35 * columns(1000, strips, True)


def test_rows_beyond_the_ways_of_the_first_cache_are_fetched_again():
    """Rows of 4 KiB begin in one set. Those of a tile are read an element at a time, so each line is wanted sixteen times."""

    def ratio(k):
        kernel = normalise(named_kernels.make("matmul", {"m": 416, "n": 1024, "k": k}, "float32"))
        tall, wide = (
            estimate(apply(kernel, parse(f"Um{m} Un{n} Tn256 Pn Rk2 Tk512 Mk<m Sb@k"), named("znver4"))) for m, n in ((13, 32), (6, 64))
        )
        return tall / wide

    assert ratio(1024) > 1.05 > 1.0 > ratio(1056)


def thin(rows):
    return normalise(named_kernels.make("matmul", {"m": rows, "n": 4096, "k": 4096}, "float32"))


def test_a_wide_operand_is_best_read_along_its_rows():
    target = named("cascadelake")
    short = apply(thin(1), (opt("UPCAST", "n", 64), opt("PARALLEL", "n")), target)
    rows = apply(
        thin(1),
        (opt("UPCAST", "n", 64), opt("TILE", "n", 2048), opt("PARALLEL", "n"), opt("UNROLL", "k", 8), opt("MOVE", "k", before="n.t")),
        target,
    )
    assert estimate(rows) < 0.8 * estimate(short)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 5, 16])
def test_start_schedules_of_few_rows_read_rows_side_by_side(rows):
    first = starts(thin(rows), named("cascadelake"), 2)[0]
    assert any(o.op == "MOVE" and o.on == "k" for o in first) and not any(o.op == "STAGE" for o in first)
