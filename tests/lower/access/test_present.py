"""Loads under a mask of elements that exist in any case: plain loads and a choice, where masked loads are slow."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import targets
from tilewright.ir import KernelBuilder, absolute, cast, float32, int32, uint8
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements


def neighbours(n: int = 61, away: int = 0) -> Kernel:
    """y[i] = the sum of as many neighbours of x[i] as a map says, up to two to each side, cut at the border."""
    kb = KernelBuilder("neighbours")
    i, q = kb.axis("i", n), kb.axis("q", 5)
    x, radius = kb.input("x", (n + away,), float32), kb.input("radius", (n,), uint8, range=(0, 2))
    at = i + q - 2
    near = cast(absolute(cast(q - 2, int32)), int32) <= cast(radius[i], int32)
    total = kb.sum("total", (i,), (q,), x.masked(near & (at >= 0) & (at < n), at))
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


def masked(kernel: Kernel, text: str, target: str) -> int:
    """Loads of vectors under a mask."""
    program = lower(apply(kernel, parse(text), targets.named(target)))
    found = (s for p in program.phases for s in statements(p.body) if isinstance(s, Instr))
    return sum(s.op in ("load", "gather") and s.out is not None and s.out.lanes > 1 and len(s.args) > 1 for s in found)


@pytest.mark.parametrize("text", ["Ui4", "Ui8", "Ui8 Rq5", "Ui4 Pi", "Ui8 Ti16", "Uq5 Ui4", "(none)"])
@pytest.mark.parametrize("target", ["x86-64-v2", "avx2", "skylake-avx512"])
def test_sums_of_masked_neighbours_are_right(text: str, target: str) -> None:
    kernel = neighbours()
    check_twin(kernel, parse(text), targets.named(target))
    check_floats(kernel, parse(text), targets.named(target))


@pytest.mark.parametrize("text", ["Ui4", "Ui8 Rq5"])
def test_compiled_code_stays_inside_the_array(text: str) -> None:
    check_compiled(neighbours(), parse(text), targets.named("x86-64-v2"))


def test_only_loads_at_the_border_are_masked() -> None:
    """With all five unrolled: two of the first vector, two of the last, and none between."""
    kernel = neighbours(64)
    assert masked(kernel, "Ui8 Rq5", "avx2") == 4
    assert masked(kernel, "Ui16 Rq5", "skylake-avx512") > 4  # masks cost nothing there


def test_what_may_be_past_the_end_stays_masked() -> None:
    """Lanes past the extent, in the last vector of 61."""
    assert masked(neighbours(61), "Ui8 Rq5", "avx2") > 4
