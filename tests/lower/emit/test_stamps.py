"""Stamps that data places: their rows are combined in vectors, whatever a mask leaves out of them, and never beside their row."""

from __future__ import annotations

import random

import pytest
import run_text
from checks import check_compiled, check_twin
from random_schedules import grow
from tilewright import targets
from tilewright.heuristics import starts
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, OptError, cast, float32
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements, touched

LEVELS = ("x86-64-v2", "avx2", "x86-64-v4")
H, W, R = 9, 21, 2


def stamped(combine: str = "add", dtype: str = "float32", masked: str = "inside", batch: int = 1) -> Kernel:
    """Squares of 5 by 5, weighed and combined where data says; cut off at the border, or also where data says so of each element."""
    kb = KernelBuilder("stamped")
    g, i, a, b = kb.axis("g", batch), kb.axis("i", 7), kb.axis("a", 2 * R + 1), kb.axis("b", 2 * R + 1)
    inset = 0 if masked else R
    y = kb.input("y", (batch, 7), "int32", range=(inset, H - 1 - inset))[g, i]
    x = kb.input("x", (batch, 7), "int32", range=(inset, W - 1 - inset))[g, i]
    w = kb.input("w", (batch, 7, 2 * R + 1), dtype)
    row, column = cast(y, "int64") + a - R, cast(x, "int64") + b - R
    value = w[g, i, a] + w[g, i, b] if combine != "add" else w[g, i, a] * w[g, i, b]
    holds = None
    if masked:
        holds = (row >= 0) & (row < H) & (column >= 0) & (column < W)
    if masked == "data":
        holds = holds & (w[g, i, b] > w[g, i, 0])
    kb.store("out", dtype, (batch, H, W), (g, i, a, b), value, (g, row, column), combine=combine, mask=holds)
    return kb.build()


OPTS = ["(none)", "Ub2", "PADb8 Ub8", "Ub5", "PADb8 Ub4", "Uout.2:8 PADb8 Ub8"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("masked", ["", "inside", "data"])
@pytest.mark.parametrize("combine", ["add", "max"])
def test_stamps_mean_what_they_say(level: str, masked: str, combine: str) -> None:
    for dtype in ("float32", "float64", "int32", "uint8"):
        for opts in OPTS:
            for seed in range(2):
                check_twin(stamped(combine, dtype, masked), parse(opts), targets.named(level), None, seed)


@pytest.mark.parametrize("level", LEVELS)
def test_each_image_is_its_items_own(level: str) -> None:
    for opts in ("Pg PADb8 Ub8", "Pg Ub5"):
        for masked in ("", "inside", "data"):
            check_twin(stamped("add", "float32", masked, 3), parse(opts), targets.named(level))


@pytest.mark.many
@pytest.mark.parametrize("masked", ["", "inside", "data"])
def test_random_schedules_equal_the_reference(masked: str) -> None:
    rng = random.Random(masked)
    for n in range(12):
        kernel = stamped("add" if n % 3 else "max", ("float32", "int16")[n % 2], masked, 1 + 2 * (n % 2))
        target = targets.named(LEVELS[n % 3])
        check_twin(kernel, grow(kernel, target, [rng.randrange(1 << 20) for _ in range(1 + n % 5)]), target, None, n)


@pytest.mark.parametrize("masked", ["", "inside", "data"])
def test_compiled_code_agrees(masked: str) -> None:
    for dtype in ("float32", "uint8"):
        for opts in OPTS:
            check_compiled(stamped("add", dtype, masked), parse(opts))


def test_c_agrees() -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    y, x = rng.integers(0, H, (1, 7)).astype(np.int32), rng.integers(0, W, (1, 7)).astype(np.int32)
    w = rng.standard_normal((1, 7, 2 * R + 1)).astype(np.float32)
    program = lower(apply(stamped("add", "float32", "data"), parse("PADb8 Ub8"), targets.host()))
    got, want = np.full((1, H, W), 7, np.float32), np.full((1, H, W), 7, np.float32)
    run_text.c(program, [y, x, w, got])
    interpret(program, {"y": y, "x": x, "w": w, "out": want}, [])
    assert np.array_equal(got, want)


def test_rows_are_combined_in_vectors() -> None:
    program = lower(apply(stamped("add", "float32", ""), parse("PADb8 Ub4"), targets.named("avx2")))
    stores = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "store"]
    assert any(s.args[1].lanes == 4 for s in stores)


def test_lanes_that_may_meet_write_one_after_the_other() -> None:
    """Along an axis that is in no index, or in two, points of one vector may be one element."""
    kb = KernelBuilder("met")
    i, b = kb.axis("i", 5), kb.axis("b", 8)
    at, x = kb.input("at", (5, 8), "int32", range=(0, 11)), kb.input("x", (5, 8), float32)
    kb.store("y", float32, (20,), (i, b), x[i, b], (cast(at[i, b], "int64") + b,), combine="add")
    kernel = kb.build()
    for level in LEVELS:
        check_twin(kernel, parse("Ub8"), targets.named(level))
    program = lower(apply(kernel, parse("Ub8"), targets.named("avx2")))
    stores = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "store"]
    assert stores and not any(s.args[1].lanes == 8 and mem.space == "param" and mem.base == 2 for s in stores for mem, _ in touched(s))


def test_a_number_that_all_points_add_to_is_no_row() -> None:
    kb = KernelBuilder("trace")
    i, j = kb.axis("i", 9), kb.axis("j", 8)
    x = kb.input("x", (9, 8), float32)
    kb.store("y", float32, (), (i, j), x[i, j], (), combine="add")
    for opts in ("(none)", "Uj8"):
        check_twin(kb.build(), parse(opts), targets.named("avx2"))
    assert starts(kb.build(), targets.named("avx2"))


@pytest.mark.parametrize("opts", ["Ui4 Ub8", "Ui8 Ub8", "Ub8 Ui8", "Ub8 Ui4"])
@pytest.mark.parametrize("level", LEVELS)
def test_copies_past_an_extent_beside_vectors(opts: str, level: str) -> None:
    kb = KernelBuilder("rows")
    i, b = kb.axis("i", 7), kb.axis("b", 8)
    x, w = kb.input("x", (7,), "int32", range=(-3, 20))[i], kb.input("w", (7, 8), float32)
    column = cast(x, "int64") + b
    kb.store("out", float32, (16,), (i, b), w[i, b], (column,), combine="add", mask=(column >= 0) & (column < 16))
    for seed in range(3):
        check_twin(kb.build(), parse(opts), targets.named(level), None, seed)


def test_where_the_last_write_counts_it_stays_the_last() -> None:
    kb = KernelBuilder("last")
    i, a, b = kb.axis("i", 4), kb.axis("a", 2), kb.axis("b", 3)
    x, w = kb.input("x", (4,), "int32", range=(0, 5))[i], kb.input("w", (4, 3), "int32")
    kb.store("out", "int32", (8,), (i, a, b), w[i, b] * cast(a + 1, "int32"), (cast(x, "int64") + b,), mask=w[i, b] > 0)
    kernel = kb.build()
    for opts in ("(none)", "Ub3"):
        for seed in range(5):
            check_twin(kernel, parse(opts), targets.named("avx2"), None, seed)
    for opts in ("Ub3 Ua2 Ui2", "Ub3 Ui4", "Ua2", "Mb<i", "Ma<i"):
        with pytest.raises(OptError, match="can meet"):
            apply(kernel, parse(opts), targets.named("avx2"))
