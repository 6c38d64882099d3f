"""Sums that the threads of a group share: one word a warp, one barrier, and the same bits in every thread."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_floats, check_twin
from tilewright import kernels, targets
from tilewright.lower import lower
from tilewright.opts import apply, opt
from tilewright.program.program import Instr, statements

CASES: dict[str, tuple[str, dict[str, int], list[Any], int]] = {
    "eight warps": ("sum_rows", {"m": 3, "n": 700}, [opt("GROUP", "n", 256)], 1),
    "32 warps": ("sum_rows", {"m": 2, "n": 3000}, [opt("GROUP", "n", 1024)], 1),
    "one warp": ("sum_rows", {"m": 3, "n": 70}, [opt("GROUP", "n", 32)], 0),
    "several sums": ("sum_cols", {"m": 300, "n": 64}, [opt("LOCAL", "n", 16), opt("GROUP", "m", 16)], 1),
    "several values": ("matmul", {"m": 8, "n": 8, "k": 600}, [opt("GROUP", "k", 64), opt("UPCAST", "n", 4), opt("LOCAL", "m", 2)], 1),
}


def barriers(case: str, target: str) -> int:
    name, shape, opts, _ = CASES[case]
    program = lower(apply(kernels.make(name, shape), opts, targets.named(target)))
    return sum(isinstance(s, Instr) and s.op == "barrier" for p in program.phases for s in statements(p.body))


@pytest.mark.parametrize("case", CASES)
def test_one_barrier_where_there_are_shuffles(case: str) -> None:
    assert barriers(case, "sm_90a") == CASES[case][3]


def test_without_shuffles_words_are_made_fewer_first() -> None:
    assert barriers("eight warps", "opencl-gpu") == 2 and barriers("several sums", "opencl-gpu") == 1


@pytest.mark.parametrize("target", ["sm_90a", "opencl-gpu", "opencl-cpu"])
@pytest.mark.parametrize("case", CASES)
def test_sums_are_right(case: str, target: str) -> None:
    name, shape, opts, _ = CASES[case]
    if target == "opencl-gpu" and case == "32 warps":
        pytest.skip("it takes groups of 256 threads at most")
    kernel = kernels.make(name, shape)
    check_twin(kernel, opts, targets.named(target))
    check_floats(kernel, opts, targets.named(target))
