"""Places that become numbers, or are compared, are computed in 32 bits along the lanes."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_twin
from tilewright import targets
from tilewright.ir import KernelBuilder, absolute, cast, float32, float64, int32, maximum, minimum, where
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements

TARGET = targets.named("avx2")
SCHEDULES = ([["UPCAST", "n", 16]], [["UPCAST", "n", 8], ["UPCAST", "m", 3]], [["UPCAST", "n", 8], ["TILE", "n", 16]])


def places(m: int = 3, n: int = 53) -> Kernel:
    """Distances, remainders, quotients and clamps of places, and a table that is read at some of them."""
    kb = KernelBuilder("places")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, table = kb.input("x", (m, n), float32), kb.input("table", (40,), float32)
    near = maximum(minimum(j - 3 * i, 5), -5)
    kb.store("a", float32, (m, n), (i, j), x[i, j] * cast(i - j, float32) + cast((5 * i + 2 * j) % 24, float32))
    kb.store("b", float64, (m, n), (i, j), cast(absolute(near), float64) - cast((j + i - 9) // 7, float64))
    kb.store("c", int32, (m, n), (i, j), where((j % 6) < (i + 2), cast(near, int32), cast(j // 3, int32)))
    kb.store("d", float32, (m, n), (i, j), table[(3 * (j // 5) + i) % 40])
    return kb.build()


def far() -> Kernel:
    """Places that 32 bits do not hold."""
    kb = KernelBuilder("far")
    i, j = kb.axis("m", 3), kb.axis("n", 16)
    kb.store("y", float64, (3, 16), (i, j), cast((i + 1) * 3_000_000_000 + j, float64))
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("opts", SCHEDULES, ids=str)
def test_numbers_of_places(opts: list[list[object]]) -> None:
    check_twin(places(), parse(opts), TARGET)


def test_compiled_code_agrees() -> None:
    check_compiled(places(), parse(SCHEDULES[0]), TARGET)


def wide(kernel: Kernel, opts: list[list[object]]) -> set[str]:
    """Operations on vectors of int64, but the widening of what gathers read at."""
    program = lower(apply(kernel, parse(opts), TARGET))
    made = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]
    return {s.op for s in made if s.out is not None and s.out.dtype.name == "int64" and s.out.lanes > 1 and s.op not in ("cast", "splat")}


def test_vectors_of_places_are_short_where_they_fit() -> None:
    assert wide(places(), SCHEDULES[0]) <= {"add", "mul"}  # of the table's addresses
    assert "add" in wide(far(), [["UPCAST", "n", 8]])
    check_twin(far(), parse([["UPCAST", "n", 8]]), TARGET)
