"""Scatters into floats of 16 bits: combined in float32, and rounded where they are written."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright.ir import KernelBuilder
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.opts import parse
from tilewright.targets import named


def scattered(dtype: str, combine: str, masked: bool) -> Kernel:
    """Elements, those above 0 if `masked`, combined at the places that are read. Every place has few of them."""
    kb = KernelBuilder("scattered")
    i, j = kb.axis("m", 3), kb.axis("n", 13)
    x, at = kb.input("x", (3, 13), dtype), kb.input("at", (3, 13), "int32", range=(0, 6))
    mask = x[i, j] > 0 if masked else None
    kb.store("y", dtype, (3, 7), (i, j), x[i, j], (i, cast(at[i, j], "int64")), combine=combine, mask=mask)
    return kb.build()


@pytest.mark.parametrize("opts", ["(none)", "Un13", "Pm"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("combine", ["add", "max"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_results_are_rounded_where_they_are_written(dtype: str, combine: str, masked: bool, opts: str) -> None:
    kernel = scattered(dtype, combine, masked)
    check_twin(kernel, parse(opts), named("avx2"))
    check_floats(kernel, parse(opts), named("avx2"))
    check_compiled(kernel, parse(opts))
