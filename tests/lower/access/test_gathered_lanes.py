"""Lanes over elements that data decides: where there is an instruction for it, and with 32-bit places where those do."""

from __future__ import annotations

import re

import pytest
from checks import check_compiled, check_twin
from tilewright import targets
from tilewright.ir import Kernel, KernelBuilder, float32, int32
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements
from tilewright.renderers import render

OPTS = parse('[["UPCAST","q",8]]')


def mixed(p: int = 5, q: int = 24) -> Kernel:
    """An image at another size, whose rows and columns come from tables."""
    kb = KernelBuilder("mixed")
    i, j = kb.axis("p", p), kb.axis("q", q)
    x, part = kb.input("x", (9, 40), float32), kb.input("part", (q,), float32)
    row, column = kb.input("row", (p,), int32, range=(0, 7)), kb.input("column", (q,), int32, range=(0, 38))
    a, b = (x[row[i] + d, column[j]] * (1.0 - part[j]) + x[row[i] + d, column[j] + 1] * part[j] for d in (0, 1))
    kb.store("y", float32, (p, q), (i, j), a + b)
    return kb.build()


def picked(p: int = 5, q: int = 24) -> Kernel:
    """Sums of elements that a table names."""
    kb = KernelBuilder("picked")
    i, j = kb.axis("p", p), kb.axis("q", q)
    x, column = kb.input("x", (p + 3, 40), float32), kb.input("column", (q,), int32, range=(0, 39))
    kb.store("y", float32, (p, q), (i, j), sum(x[i + d, column[j]] for d in range(1, 4)) + x[i, column[j]])
    return kb.build()


@pytest.mark.parametrize(("name", "gathers"), [("avx2", True), ("x86-64-v4", True), ("x86-64-v2", False)])
def test_lanes_gather_where_there_is_an_instruction(name: str, gathers: bool) -> None:
    """What is only added up; where more is computed, lanes are worth it all the same."""
    for kernel, wanted in ((picked(), gathers), (mixed(), True)):
        program = lower(apply(kernel, OPTS, targets.named(name)))
        found = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "gather"]
        assert bool(found) == wanted
        check_twin(kernel, OPTS, targets.named(name))


def test_what_all_lanes_share_is_added_to_the_pointer() -> None:
    text = render(lower(apply(mixed(), OPTS, targets.named("avx2"))), targets.named("avx2")).text
    places = re.findall(r"getelementptr float, ptr \S+, <8 x i64> (%\w+)", text)
    assert len(places) == 4 and all(re.search(rf"{p} = sext <8 x i32>", text) for p in places)
    check_compiled(mixed(), OPTS)
