"""Jumps between pages: streams make none, short runs at large strides one each."""

from __future__ import annotations

import pytest
from tilewright import named_kernels
from tilewright.heuristics.model import estimate
from tilewright.heuristics.model.loads import jumps
from tilewright.heuristics.start import starts
from tilewright.ir.normal_form import normalise
from tilewright.opts import opt
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
    assert jumps(4, levels) == expected


def test_streams_beyond_the_prefetchers_cost_by_the_line():
    """Element by element along 40 rows that lie apart: a jump for a line, not for an element, and a cheaper one, within a page."""
    apart = 12_000
    assert jumps(4, [(apart, 28), (4, 3000)]) == 0
    found = jumps(4, [(apart, 40), (4, 3000)])
    assert 40 * 3000 * 4 / 64 * 0.2 < found < 40 * 3000 * 4 / 64
    assert jumps(4, [(ROW, 24), (4, 4096)]) > 0  # strides of whole pages share the first cache's sets


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
