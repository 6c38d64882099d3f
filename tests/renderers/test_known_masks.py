"""Masks that are known lane by lane are plain accesses, where an instruction with a mask would be slow or missing."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_twin
from tilewright import targets
from tilewright.devices.cpu.engine import assembly_of
from tilewright.ir import KernelBuilder
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.facts import mask_pieces
from tilewright.renderers import render


@pytest.mark.parametrize(
    ("on", "parts"),
    [("1111", [(0, 4)]), ("1110", [(0, 2), (2, 1)]), ("0111", [(1, 2), (3, 1)]), ("1011", [(0, 1), (2, 2)]), ("0000", [])],
)
def test_runs_of_lanes_are_cut_into_powers_of_two(on: str, parts: list[tuple[int, int]]) -> None:
    assert mask_pieces([c == "1" for c in on]) == parts


def doubled(n: int, dtype: str) -> Kernel:
    """Twice each element of rows that end within a vector."""
    kb = KernelBuilder("doubled")
    i, j = kb.axis("m", 3), kb.axis("n", n)
    x = kb.input("x", (3, n), dtype)
    kb.store("y", dtype, (3, n), (i, j), x[i, j] + x[i, j])
    return kb.build()


@pytest.mark.parametrize(
    ("name", "dtype", "n", "opts", "instruction"),
    [
        ("avx2", "float32", 20, "Un8", "vmaskmov"),  # four lanes are one store
        ("avx2", "int8", 55, "Un32", "vpextrb"),  # 23 bytes are four, and the last alone
        ("v2", "float32", 7, "Un4", "maskmov"),
        ("v4", "float32", 56, "Un16", "{%k"),  # a run that is a power of two needs no register of masks either
    ],
)
def test_a_ragged_end_is_stored_as_it_is(name: str, dtype: str, n: int, opts: str, instruction: str) -> None:
    target, kernel = targets.named(name), doubled(n, dtype)
    text = render(lower(apply(kernel, parse(opts), target)), target).text
    assert "llvm.masked" not in text
    assert assembly_of(text, target).count(instruction) <= (instruction == "vpextrb")
    check_twin(kernel, parse(opts), target)
    check_compiled(kernel, parse(opts))


def test_the_largest_of_what_meets_is_stored_without_a_mask() -> None:
    """LLVM makes a store under a mask of a choice between what is computed and what lies there."""
    kb = KernelBuilder("largest")
    i, j = kb.axis("m", 7), kb.axis("n", 20)
    x, at = kb.input("x", (7, 20), "float32"), kb.input("at", (7,), "int32", range=(0, 4))
    kb.store("y", "float32", (5, 20), (i, j), x[i, j], (at[i].cast("int64"), j), combine="max")
    kernel, target = kb.build(), targets.named("avx2")
    for opts in ("Un4", "Un8", "Un20"):
        text = render(lower(apply(kernel, parse(opts), target)), target).text
        assert "vmaxps" in assembly_of(text, target)
        assert "vmaskmov" not in assembly_of(text, target)
