"""Extremes of windows that are written out become extremes of rows."""

from __future__ import annotations

import itertools
from functools import reduce

import numpy as np
import pytest
from checks import check_compiled, check_floats
from tilewright import targets
from tilewright.ir import KernelBuilder, absolute, clip, float32, maximum, minimum, uint8
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.program.program import Instr, statements

H, W = 13, 46


def written_out(dtype: DType, by_columns: bool = False, size: bool = False, inside: bool = False) -> Kernel:
    """The largest less the smallest of 3 × 3 neighbours, one after the other; clamped unless `inside`."""
    kb = KernelBuilder("written_out")
    i, j = kb.axis("h", H), kb.axis("w", W)
    x = kb.input("x", (H + 2, W + 2) if inside else (H, W), dtype)
    places = [(q, p) if by_columns else (p, q) for p, q in itertools.product((-1, 0, 1), repeat=2)]
    found = [x[i + p + 1, j + q + 1] if inside else x[clip(i + p, 0, H - 1), clip(j + q, 0, W - 1)] for p, q in places]
    top = reduce(maximum, [absolute(e) if size else e for e in found])
    kb.store("y", dtype, (H, W), (i, j), top - reduce(minimum, found))
    return kb.build()


def operations(kernel: Kernel, opts: str) -> int:
    """Extremes of vectors that a schedule takes inside."""
    program = lower(apply(kernel, parse(opts), targets.named("v4")))
    found = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]
    return sum(s.op in ("max", "min") and s.result.lanes > 1 for s in found)


def depth(n: Node) -> int:
    return 1 + max((depth(s) for s in n.src if s.op == n.op), default=0)


@pytest.mark.parametrize("size", [False, True])
@pytest.mark.parametrize("by_columns", [False, True])
def test_rows_come_first(by_columns: bool, size: bool) -> None:
    kernel = normalise(written_out(uint8 if not size else float32, by_columns, size))
    top, low = kernel.stores[0].expr.src if kernel.stores[0].expr.op == "sub" else (None, None)
    assert top is not None and low is not None and depth(top) == depth(low) == 4, "three elements, and three rows"
    assert normalise(kernel) is kernel


def test_rows_side_by_side_share_the_rows_of_their_windows() -> None:
    """Of four results: six rows of two operations and four times two, for both extremes; one by one four times sixteen."""
    kernel = normalise(written_out(uint8, inside=True))
    wide, rows = (operations(kernel, o) for o in ("Uw16", "Uw16 Uh4"))
    assert rows < 4 * wide * 0.8, "one row of results is left over"


def test_a_part_with_another_reader_stays() -> None:
    """What a network of extremes reads twice is no part of a chain."""
    kb = KernelBuilder("network")
    i, j = kb.axis("h", H), kb.axis("w", W)
    x = kb.input("x", (H + 1, W + 3), float32)
    part = maximum(maximum(x[i, j], x[i + 1, j]), x[i, j + 1])
    kb.store("y", float32, (H, W), (i, j), maximum(maximum(part, x[i + 1, j + 1]), x[i, j + 2]))
    kb.store("z", float32, (H, W), (i, j), part)
    kernel = kb.build()
    assert list(normalise(kernel).expressions()) == list(kernel.expressions())


@pytest.mark.parametrize("opts", ["(none)", "Uw16", "Uw16 Uh4"])
def test_results_stay_what_they_are(opts: str) -> None:
    for kernel in (written_out(uint8), written_out(float32, size=True)):
        check_compiled(kernel, parse(opts))
    check_floats(written_out(float32), parse(opts), targets.named("avx2"))


def test_what_is_no_number_is_the_extreme() -> None:
    x = np.random.default_rng(3).standard_normal((H, W)).astype(np.float32)
    x[4, 5], x[0, 0], x[12, 36] = np.nan, np.inf, np.nan
    got = best(written_out(float32), opts=parse("Uw16 Uh4"), threads=1)(x)
    p = np.pad(x, 1, mode="edge")
    parts = np.stack([p[a : a + H, b : b + W] for a in range(3) for b in range(3)])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, parts.max(0) - parts.min(0))


def test_long_chains_are_no_recursion() -> None:
    kb = KernelBuilder("long")
    i, j = kb.axis("h", 3), kb.axis("w", 4)
    x = kb.input("x", (43, 64), float32)
    kb.store("y", float32, (3, 4), (i, j), reduce(maximum, (x[i + p, j + q] for q in range(60) for p in range(40))))
    assert depth(normalise(kb.build()).stores[0].expr) < 40 + 60
