"""Start schedules with phases for functions of sums that each row would compute again, and for sums whose lanes are others' rows; stamps in vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from tilewright import targets
from tilewright.heuristics import quick_starts, starts
from tilewright.heuristics.start import choose
from tilewright.heuristics.start.phase_schedules import (
    functions_computed_again,
    hoisted,
    phases_for_values,
    sums_across_lanes,
)
from tilewright.heuristics.start.trials import Trials
from tilewright.ir import Kernel, KernelBuilder, cast, float32, log, sqrt
from tilewright.ir.normal_form import normalise
from tilewright.opts import Opts, apply

TARGET = targets.named("znver3")


def terms(n: int = 300, t: int = 500, named: bool = False) -> Kernel:
    """Counts weighed by the logarithm of their columns' sums."""
    kb = KernelBuilder("terms")
    i, j, d = kb.axis("n", n), kb.axis("t", t), kb.axis("n@df", n)
    x = kb.input("x", (n, t), float32, range=(0.0, 9.0))
    df = kb.sum("df", (j,), d, x[d, j])
    weight: Any = log(df[j] + 2.0)
    if named:
        weight = kb.value("weight", (j,), weight)[j]
    kb.store("y", float32, (n, t), (i, j), x[i, j] * weight)
    return kb.build()


def both_ways(n: int = 200) -> Kernel:
    """Sums along the rows and down the columns of a square matrix, by one axis."""
    kb = KernelBuilder("both_ways")
    i, j, k = kb.axis("n", n), kb.axis("n@row", n), kb.axis("n@column", n)
    x = kb.input("x", (n, n), float32)
    row = kb.sum("row", (i,), j, x[i, j] * x[i, j])
    column = kb.sum("column", (i,), k, x[k, i] * x[k, i])
    kb.store("y", float32, (n,), (i,), sqrt(row[i]) - sqrt(column[i]))
    return kb.build()


@pytest.mark.parametrize("named", [False, True])
def test_a_function_of_a_columns_sum_has_a_phase(named: bool) -> None:
    kernel = normalise(terms(named=named))
    name = "weight" if named else "p0"
    assert functions_computed_again(kernel) == {name}
    first = starts(kernel, TARGET, 1)[0]
    assert any(o.op == "PHASE" and o.on == name for o in first)
    assert any(o.op == "PHASE" for o in quick_starts(kernel, TARGET, 1)[0])
    assert len(apply(kernel, first, TARGET).phases) == 2


def test_a_function_of_a_rows_sum_has_none() -> None:
    kb = KernelBuilder("rows")
    i, j, a = kb.axis("n", 300), kb.axis("t", 500), kb.axis("t@a", 500)
    x = kb.input("x", (300, 500), float32)
    total = kb.sum("total", (i,), a, x[i, a])
    kb.store("y", float32, (300, 500), (i, j), x[i, j] * log(total[i] + 2.0))
    kernel = normalise(kb.build())
    assert not functions_computed_again(kernel) and not list(phases_for_values(Trials(kernel, TARGET)))


def test_sums_across_the_lanes_of_others_have_a_phase() -> None:
    kernel = normalise(both_ways())
    assert sums_across_lanes(kernel) == {"column"}
    assert [[(o.op, o.on) for o in first] for first in phases_for_values(Trials(kernel, TARGET))] == [[("PHASE", "column")]]
    assert not list(phases_for_values(Trials(kernel, targets.named("sm_90a"))))


def test_rows_of_stamps_are_filled_up() -> None:
    kb = KernelBuilder("stamps")
    i, a, b = kb.axis("i", 500), kb.axis("a", 6), kb.axis("b", 6)
    y, x = kb.input("y", (500,), "int32", range=(0, 90)), kb.input("x", (500,), "int32", range=(0, 90))
    w = kb.input("w", (500, 6), float32)
    kb.store("out", float32, (96, 96), (i, a, b), w[i, a] * w[i, b], (cast(y[i], "int64") + a, cast(x[i], "int64") + b), combine="add")
    kernel = normalise(kb.build())
    widths = {o.arg for s in starts(kernel, TARGET, 1) for o in s if o.op == "UPCAST" and o.on.startswith("b")}
    assert widths & {6, 8}, widths


def scaled(n: int = 96, k: int = 64) -> Kernel:
    """A product whose columns are divided by roots, which a phase may compute."""
    kb = KernelBuilder("scaled")
    i, j, r = kb.axis("n", n), kb.axis("m", n), kb.axis("k", k)
    x, w, v = kb.input("x", (n, k), float32), kb.input("w", (k, n), float32), kb.input("v", (n,), float32, range=(0.0, 9.0))
    kb.store("y", float32, (n, n), (i, j), kb.sum("p", (i, j), r, x[i, r] * w[r, j])[i, j] / sqrt(v[j] + 1.0))
    return normalise(kb.build())


def test_phases_that_take_too_long_whatever_their_schedules_are_not_asked_about() -> None:
    kernel = scaled()
    trials = Trials(kernel, TARGET)
    asked: list[Kernel] = []

    def least(k: Kernel) -> float:
        asked.append(k)
        return math.inf

    def never(k: Kernel) -> Sequence[Opts]:
        raise AssertionError(f"{k.name} has no need of a start schedule")

    found = quick_starts(kernel, TARGET)[:1]
    assert list(hoisted(trials, found, never, 1, least=least)) == found
    assert asked and all(len(k.axes) == 3 for k in asked)  # the product is asked about first, and says enough


@pytest.mark.parametrize("kernel", [scaled(), scaled(192, 8), normalise(terms(named=True)), normalise(both_ways())])
def test_the_choice_is_the_same_as_where_all_are_asked_about(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    found = quick_starts(kernel, TARGET)[0]
    monkeypatch.setattr(choose, "hoisted", lambda *a, least, **how: hoisted(*a, **how))
    assert found == quick_starts(kernel, TARGET)[0]


@pytest.mark.parametrize(("width", "kept"), [(512, True), (16, False)])
def test_a_scaled_operand_that_lanes_share_is_kept_for_many_blocks_of_them(width: int, kept: bool) -> None:
    kb = KernelBuilder("scaled")
    i, j, k = kb.axis("i", 128), kb.axis("j", width), kb.axis("k", 256)
    a, b, c = kb.input("a", (256, 128), float32), kb.input("b", (256, width), float32), kb.input("c", (), float32)
    total = kb.sum("total", (i, j), k, a[k, i] * c[()] * b[k, j])
    kb.store("y", float32, (128, width), (i, j), total[i, j])
    kernel = normalise(kb.build())
    phases = [o.on for o in quick_starts(kernel, TARGET, 1)[0] if o.op == "PHASE"]
    assert phases == (["total.m"] if kept else [])
