"""Sums of products of bytes with a scale for each group: groups whose bytes lie in pieces are multiplied several at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from checks import check_compiled, check_floats
from tilewright import targets
from tilewright.ir import KernelBuilder, cast, float32, int8, int32, uint8
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, Instr, Phase, statements

COLUMNS = 256


def product(bits: int, less: int, groups: int = COLUMNS // 32, apart: int = 0, rows: int = 9) -> Kernel:
    """A matrix of few bits by a row of bytes. A byte of a group holds a number of each of its pieces; `apart`: bytes between groups."""
    pieces = 8 // bits
    kb = KernelBuilder("few_bits")
    i, k = kb.axis("i", rows), kb.axis("k", 32 * groups)
    w, x, d = (
        kb.input("w", (rows, groups, 32 // pieces + apart), uint8),
        kb.input("x", (32 * groups,), int8),
        kb.input("d", (rows, groups), float32),
    )
    shift = cast(k % 32 // (32 // pieces), int32) * bits
    number = ((cast(w[i, k // 32, k % (32 // pieces)], int32) >> shift) & ((1 << bits) - 1)) - less
    kb.store("y", float32, (rows,), (i,), kb.sum("total", (i,), k, cast(number * cast(x[k], int32), float32) * d[i, k // 32])[i])
    return kb.build()


def counted(kernel: Kernel, opts: Any, target: str) -> Counter[str]:
    """The operations of the innermost loop."""
    phase: Phase = lower(apply(kernel, parse(opts), targets.named(target))).phases[-1]
    loops = [s for s in statements(phase.body) if isinstance(s, For) and not any(isinstance(t, For) for t in statements(s.body))]
    return Counter(s.op for s in loops[-1].body.stmts if isinstance(s, Instr))


@pytest.mark.many
@pytest.mark.parametrize("target", ["haswell", "alderlake", "cascadelake"])
@pytest.mark.parametrize(
    ("bits", "less", "unroll", "groups", "apart"),
    [
        (4, 8, 4, 8, 0),
        (4, 0, 2, 8, 0),
        (2, 1, 4, 8, 0),
        (2, 2, 8, 8, 0),
        (4, 8, 8, 8, 3),
        (4, 8, 1, 5, 0),
        (1, 0, 8, 8, 0),
        (4, 7, 2, 6, 0),
    ],
)
@pytest.mark.covering
def test_numbers_of_few_bits(bits: int, less: int, unroll: int, groups: int, apart: int, target: str) -> None:
    kernel = product(bits, less, groups, apart)
    opts = parse([["UPCAST", "k", 32], *([["UNROLL", "k", unroll]] if unroll > 1 else [])])
    t = targets.named(target)
    check_floats(kernel, opts, t)
    if t.features <= targets.host().features:
        check_compiled(kernel, opts, t)


@pytest.mark.parametrize(("bits", "less"), [(4, 8), (4, 0), (2, 1)])
def test_neighbouring_groups_are_read_at_once(bits: int, less: int) -> None:
    """Eight groups take a dot product for each 32 numbers, one conversion for as many groups as a byte has pieces, and no shuffle but those of
    scales: activations are put into the order of the bytes before the rows, with what the offset takes off."""
    pieces = 8 // bits
    found = counted(product(bits, less, rows=16), [["UPCAST", "k", 32], ["UNROLL", "k", 4]], "cascadelake")
    assert found["dot"] == 4 and found["cast"] == 4 // pieces and found["shuffle"] == 4 // pieces and found["sub"] == 0
    bytes_read = [s for s in _loads(product(bits, less, rows=16)) if s.dtype is uint8]
    assert {v.lanes for v in bytes_read} == {32}


def _loads(kernel: Kernel) -> list[Any]:
    program = lower(apply(kernel, parse([["UPCAST", "k", 32], ["UNROLL", "k", 4]]), targets.named("cascadelake")))
    return [s.out for s in statements(program.phases[-1].body) if isinstance(s, Instr) and s.op == "load"]
