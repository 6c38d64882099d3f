"""What the counted time is made of: terms follow from the code, by hand where it is short."""

from __future__ import annotations

from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import CpuTerms, counted, cpu_terms
from tilewright.heuristics.machine import DEFAULT
from tilewright.opts import apply, parse

TARGET = targets.named("cascadelake")
SIZES = {"m": 64, "n": 64, "k": 64}


def terms(kernel: str, shape: dict[str, int], opts: str, **more: Any) -> CpuTerms:
    return cpu_terms(apply(named_kernels.make(kernel, shape), parse(opts), TARGET), **more)


def test_terms_of_a_matmul_are_those_of_its_instructions() -> None:
    core = DEFAULT.core
    found = terms("matmul", SIZES, "Um2 Un32")
    # 2 rows of 2 registers in each of 64 steps, 32 by 2 times: so many FMAs
    fmas = 2 * 2 * 64 * 32 * 2
    assert found.arithmetic >= fmas / core.ports / core.clock and found.arithmetic == pytest.approx(fmas / core.ports / core.clock, rel=0.1)
    assert found.total == counted(apply(named_kernels.make("matmul", SIZES), parse("Um2 Un32"), TARGET))
    assert found.spills == 0 and found.divider == 0 and all(v >= 0 for v in found.named().values())


def test_more_rows_in_registers_load_less_and_too_many_spill() -> None:
    few, more, many = (terms("matmul", SIZES, f"Um{m} Un32") for m in (2, 8, 32))
    assert few.loads > more.loads and few.loops > more.loops and few.chains >= more.chains
    assert few.spills == more.spills == 0 < many.spills


def test_threads_change_the_time_and_no_term() -> None:
    one, two = (terms("matmul", {"m": 512, "n": 512, "k": 512}, "Um8 Un32 Pn", threads=t) for t in (1, 2))
    assert one.named() == two.named() and two.total < one.total
