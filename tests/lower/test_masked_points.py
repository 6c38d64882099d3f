"""Points of scatters: those that data leaves out, products that are added, and places that are only read."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from checks import check_compiled, check_twin
from tilewright import targets
from tilewright.ir import KernelBuilder, bfloat16, clip, float16, float32, int32, where
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import If, Instr, statements

TARGET = targets.named("avx2")


def compacted(combine: str = "add", dtype: str = "float32", n: int = 37, loose: bool = False) -> Kernel:
    """The positive numbers of each row without gaps. `loose`: places that only the mask keeps inside."""
    kb = KernelBuilder("compacted")
    i, j = kb.axis("b", 3), kb.axis("n", n)
    x = kb.input("x", (3, n), dtype)
    if loose:
        at = kb.input("at", (3, n), int32, range=(-3, n - 1))[i, j]
        place, mask = cast(at, "int64"), at >= 0
    else:
        before = kb.scan("add", "before", (i, j), j, cast(x[i, j] > 0, int32))
        place, mask = cast(clip(before[i, j] - 1, 0, n - 1), "int64"), x[i, j] > 0
    kb.store("y", dtype, (3, n), (i, j), x[i, j], (i, place), combine=combine, mask=mask)
    return kb.build()


def triplets() -> Kernel:
    """Products that are added where data says."""
    kb = KernelBuilder("triplets")
    i = kb.axis("z", 101)
    row, column = kb.input("row", (101,), int32, range=(0, 12)), kb.input("column", (101,), int32, range=(0, 10))
    value, x = kb.input("value", (101,), float32), kb.input("x", (11,), float32)
    kb.store("y", float32, (13,), (i,), value[i] * x[cast(column[i], "int64")], (cast(row[i], "int64"),), combine="add")
    return kb.build()


def cubes() -> Kernel:
    """What is computed along lanes, and added where data says."""
    kb = KernelBuilder("cubes")
    i = kb.axis("z", 104)
    row, value = kb.input("row", (104,), int32, range=(0, 12)), kb.input("value", (104,), float32)
    v = value[i]
    kb.store("y", float32, (13,), (i,), v * v * v + v, (cast(row[i], "int64"),), combine="add")
    return kb.build()


def ops(kernel: Kernel, opts: str) -> Counter[str]:
    """How many instructions of each kind there are; "if": branches."""
    program = lower(apply(kernel, parse(opts), TARGET))
    found = [s for p in program.phases for s in statements(p.body)]
    return Counter("if" if isinstance(s, If) else s.op for s in found if isinstance(s, (If, Instr)))


@pytest.mark.parametrize("opts", ["(none)", "Un4", "Un8 Uy.1:8", "Ub3", "Pb"])
@pytest.mark.parametrize("loose", [False, True])
def test_points_that_data_leaves_out(opts: str, loose: bool) -> None:
    check_twin(compacted(loose=loose, n=40), parse(opts), TARGET)
    check_compiled(compacted(loose=loose, n=40), parse(opts))
    check_twin(compacted(loose=loose), parse("(none)"), TARGET)


@pytest.mark.many
@pytest.mark.parametrize("combine", ["add", "max", "min", "and", "or", "xor"])
def test_what_changes_nothing_is_combined(combine: str) -> None:
    for dtype in ("int32", "uint8", *(["float32"] if combine in ("add", "max", "min") else [])):
        for opts in ("(none)", "Un8"):
            check_twin(compacted(combine, dtype, n=40), parse(opts), TARGET)


def test_no_branch_where_the_place_exists() -> None:
    for opts in ("(none)", "Un8"):
        assert ops(compacted(n=40), opts)["if"] == 0
        assert ops(compacted(n=40, loose=True), opts)["if"] > 0
        assert ops(compacted("max", n=40), opts)["if"] > 0  # (of floats that are no numbers)
    assert ops(compacted(n=1 << 15), "(none)")["if"] == 0  # in the second cache
    assert ops(compacted(n=1 << 18), "(none)")["if"] > 0


def test_products_are_added_in_one_operation() -> None:
    assert ops(triplets(), "(none)")["fma"] == 1
    check_twin(triplets(), parse("Uz4"), TARGET)
    check_compiled(triplets(), parse("Uz8"))


def test_lanes_are_for_arithmetic() -> None:
    found = ops(triplets(), "Uz8")
    assert not found["gather"] and not found["extract"] and not found["insert"]
    found = ops(cubes(), "Uz8")
    assert found["extract"] == 8  # the results, and no place
    check_twin(cubes(), parse("Uz8"), TARGET)
    check_compiled(cubes(), parse("Uz8"))


@pytest.mark.many
@pytest.mark.parametrize("combine", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", [float16, bfloat16])
@pytest.mark.parametrize("masked", [False, True])
def test_points_of_short_floats_are_combined_as_float32(combine: Any, dtype: DType, masked: bool) -> None:
    """And their output begins with what changes nothing, in its own type: nothing is written behind it."""
    kb = KernelBuilder("short")
    i = kb.axis("n", 37)
    x, at, on = kb.input("x", (37,), dtype), kb.input("at", (37,), int32, range=(0, 4)), kb.input("on", (37,), int32)
    kb.store("y", dtype, (5,), (i,), x[i], indices=(at[i],), combine=combine, mask=on[i] > 0 if masked else None)
    kernel = kb.build()
    for listed in ([], [["UPCAST", "n", 8]]):
        check_twin(kernel, parse(listed), targets.named("avx2"))
        check_compiled(kernel, parse(listed))


@pytest.mark.parametrize("step", [-1, 2])
@pytest.mark.parametrize("upcast", [2, 4, 8])
def test_lanes_past_the_last_point_touch_nothing(upcast: int, step: int) -> None:
    """Their places would lie outside of the output, which the checked Program would say."""
    kb = KernelBuilder("turned")
    i = kb.axis("n", 7)
    x, on = kb.input("x", (7,), int32), kb.input("on", (7,), "int8")
    kb.store("y", int32, (13,), (i,), where(on[i] > 0, x[i] * x[i], 0), (6 - i if step < 0 else 2 * i,), combine="add")
    check_twin(kb.build(), parse(f"Un{upcast}"), TARGET)
