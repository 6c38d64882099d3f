"""Seeds for statistics down the columns, and for extremes of windows that slide over rows."""

from __future__ import annotations

import pytest
from tilewright.heuristics import quick_seeds, seeds
from tilewright.ir import KernelBuilder, exp, float32
from tilewright.ir.kernel import Kernel
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
    for first in (make(column_lse(2048, 1024), named(level), 1)[0] for make in (seeds, quick_seeds)):
        assert set(named_options(first, "MOVE")) == {"n@top", "n@sum"} and not named_options(first, "TILE")


def test_threads_share_the_rows_in_strips() -> None:
    first = seeds(column_lse(2048, 8192), named("cascadelake"), 2)[0]
    assert set(named_options(first, "MOVE")) == {"n@top", "n@sum"}
    assert set(named_options(first, "PARALLEL")) == {"c"} == set(named_options(first, "TILE"))


@pytest.mark.parametrize("level", ["haswell", "cascadelake"])
def test_windows_over_rows_are_spelled_out(level: str) -> None:
    kb = KernelBuilder("dilate")
    i, j, p, q = kb.axis("h", 512), kb.axis("w", 512), kb.axis("p", 5), kb.axis("q", 5)
    x = kb.input("x", (516, 516), float32)
    kb.store("y", float32, (512, 512), (i, j), kb.max("top", (i, j), (p, q), x[i + p, j + q])[i, j])
    first = seeds(kb.build(), named(level), 1)[0]
    assert named_options(first, "UNROLL") == {"p": 5, "q": 5} and named_options(first, "UPCAST")["h"] in (4, 8)
