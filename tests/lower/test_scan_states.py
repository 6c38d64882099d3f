"""States of scans down columns: the row before in the output where results are stored as they are, else rows in scratch; and the first
step, which has code of its own."""

from __future__ import annotations

import random
from typing import Any

import pytest
from checks import check_compiled, check_twin
from random_schedules import grow
from tilewright import targets
from tilewright.ir import KernelBuilder, Node, OptError, bfloat16, float32, float64, int32, sym
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements

TARGET = targets.named("avx2")
H, W = 11, 45


def columns(kind: str = "sum", dtype: Any = float32, h: Any = H, w: int = W) -> Kernel:
    """Scans down columns; what is stored of them is in the name."""
    kb = KernelBuilder("columns")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), dtype)
    if kind == "recurrence":
        a = kb.input("a", (h, w), dtype)

        def rule(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, Node]:
            return before[0] * after[0], before[1] * after[0] + after[1]

        total = kb.associative_scan(("product", "total"), (i, j), i, (a[i, j], x[i, j]), (1.0, 0.0), rule)[1]
    elif kind == "integral":
        total = kb.scan("add", "total", (i, j), i, kb.scan("add", "row", (i, j), j, x[i, j])[i, j])
    else:
        total = kb.scan("max" if kind == "extreme" else "add", "total", (i, j), i, x[i, j])
    if kind == "half":
        kb.store("y", dtype, (h, w), (i, j), total[i, j] * 0.5)
    elif kind == "turned":
        kb.store("y", dtype, (w, h), (j, i), total[i, j])
    elif kind == "from the end":
        kb.store("y", dtype, (h, w), (i, j), total[i, j], indices=(h - 1 - i, j))
    else:
        kb.store("y", dtype, (h, w), (i, j), total[i, j])
    if kind == "twice":
        kb.store("z", dtype, (h, w), (i, j), total[i, j] + x[i, j])
    return kb.build()


def accesses(program: Program) -> list[Instr]:
    found = (s for p in program.phases for s in statements(p.body) if isinstance(s, Instr))
    return [s for s in found if s.op in ("load", "store", "gather", "scatter")]


@pytest.mark.parametrize("kind", ["sum", "extreme", "recurrence", "from the end"])
def test_a_row_of_results_is_the_state_of_the_next_one(kind: str) -> None:
    found = accesses(lower(apply(columns(kind, w=48), parse("Uw16"), TARGET)))
    assert found and not any(s.mem.space == "scratch" for s in found)
    assert not any(len(s.args) > (2 if s.op == "store" else 1) for s in found)  # nor is anything masked


@pytest.mark.parametrize("kind", ["half", "twice"])
def test_other_states_are_in_scratch_and_not_masked(kind: str) -> None:
    found = accesses(lower(apply(columns(kind, w=48), parse("Uw16"), TARGET)))
    assert any(s.mem.space == "scratch" for s in found)
    assert not any(len(s.args) > (2 if s.op == "store" else 1) for s in found)


KINDS = ("sum", "extreme", "recurrence", "integral", "half", "turned", "from the end", "twice")


@pytest.mark.many
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "opts", ["Uw16", "Uw8 Uh4", "Th6 Uh2 Uw8", "Th6 Uh2 Uw8 Tw16", "Uw8 Tw16 Mh<w.t Pw", "Tw16 Uw8 Uh3 NTy", "Uh2 Th4 Uw4"]
)
def test_schedules_equal_the_reference(kind: str, opts: str) -> None:
    kernel = columns(kind)
    if kind == "integral" and "Pw" in opts:  # rows are scanned as well: no strips of them
        with pytest.raises(OptError):
            apply(kernel, parse(opts), TARGET)
        return
    check_twin(kernel, parse(opts), TARGET)
    check_compiled(kernel, parse(opts))


@pytest.mark.many
@pytest.mark.parametrize("kind", KINDS)
def test_random_schedules_equal_the_reference(kind: str) -> None:
    kernel, rng = columns(kind), random.Random(kind)
    for n in range(4):
        start = parse([["UPCAST", "w", 8]]) if n % 2 else ()
        check_twin(kernel, grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(2 + n)], start), TARGET)


@pytest.mark.many
@pytest.mark.parametrize("dtype", [float64, int32, bfloat16], ids=str)
def test_other_types(dtype: Any) -> None:
    check_compiled(columns("sum", dtype), parse("Uw16"))
    check_compiled(columns("extreme", dtype), parse("Uw8 Uh2"))


def test_columns_of_any_length() -> None:
    kernel = columns("sum", h=sym("h", 0, 9))
    for h in (0, 1, 5):
        check_twin(kernel, parse("Uw8"), TARGET, {"h": h})
