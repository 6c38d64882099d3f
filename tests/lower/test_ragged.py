"""Rows as long as data says: loops end where nothing more is reduced, whatever the data is."""

from __future__ import annotations

import random

import pytest
import run_text
from checks import check_compiled, check_floats, check_twin
from ragged_conditions import CONDITIONS, TYPES, Condition, loops
from random_schedules import grow
from tilewright import targets
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, float32, maximum, minimum, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, Instr, statements

TARGET = targets.named("avx2")
N, L = 13, 21


def rows(holds: Condition, dtype: str = "int32", span: tuple[int, int] | None = None) -> Kernel:
    """A sum of picked numbers, a greatest and a least one of each row, as far as data says. Numbers of rows are negative, 0, and past
    the extent as well."""
    kb = KernelBuilder("rows")
    i = kb.axis("i", N)
    k, m, l = (kb.axis(x, L) for x in ("k", "m", "l"))
    x, w = kb.input("x", (40,), float32), kb.input("w", (N, L), float32)
    at, ok = kb.input("at", (N, L), "int32", range=(0, 39)), kb.input("ok", (N, L), "int32", range=(0, 2))
    many = kb.input("many", (N,), dtype, range=span)[i]
    total = kb.sum("total", (i,), k, where(holds(k, i, many, ok[i, k] > 0), w[i, k] * x[cast(at[i, k], "int64")], 0.0))
    most = kb.max("most", (i,), m, where(holds(m, i, many, ok[i, m] > 0), w[i, m], float("-inf")))
    least = kb.min("least", (i,), l, where(holds(l, i, many, ok[i, l] > 0), w[i, l], float("inf")))
    kb.store("y", float32, (N,), (i,), total[i])
    kb.store("z", float32, (N,), (i,), where(most[i] > least[i], most[i] - least[i], -1.0))
    return kb.build()


def features(span: tuple[int, int] | None = None) -> Kernel:
    """Means of picked rows: lanes along the features, and one number for all of them."""
    kb = KernelBuilder("features")
    i, k, f = kb.axis("i", N), kb.axis("k", L), kb.axis("f", 31)
    x, at = kb.input("x", (40, 31), float32), kb.input("at", (N, L), "int32", range=(0, 39))
    many = kb.input("many", (N,), "int32", range=span)
    total = kb.sum("total", (i, f), k, where(k < cast(many[i], "int64"), x[cast(at[i, k], "int64"), f], 0.0))
    kb.store("y", float32, (N, 31), (i, f), total[i, f])
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("opts", ["(none)", "Ui8", "Uk8 Um4 Ul4", "Ui4 Uk4", "Rk2"])
def test_whatever_data_says(name: str, opts: str) -> None:
    for seed in range(3):
        check_twin(rows(CONDITIONS[name]), parse(opts), TARGET, None, seed)


@pytest.mark.many
@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_of_any_type(dtype: str) -> None:
    names = ["before", "from", *(["in its type"] if dtype != "uint64" else [])]
    for name in names:
        for opts in ("(none)", "Ui8"):
            check_twin(rows(CONDITIONS[name], dtype), parse(opts), TARGET)


@pytest.mark.parametrize("span", [(-(1 << 62), 1 << 62), (0, 0), (L, 3 * L), (-9, -1), (-2, 3)])
def test_numbers_in_any_range(span: tuple[int, int]) -> None:
    for opts in ("(none)", "Ui8", "Ui2 Uk4"):
        check_twin(rows(CONDITIONS["up to"], "int64", span), parse(opts), TARGET)
        check_floats(rows(CONDITIONS["before"], "int64", span), parse(opts), TARGET)


@pytest.mark.many
@pytest.mark.parametrize("name", CONDITIONS)
def test_random_schedules_equal_the_reference(name: str) -> None:
    rng = random.Random(name)
    for n in range(4):
        kernel = rows(CONDITIONS[name]) if n % 2 else features()
        check_twin(kernel, grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(2 * n)]), TARGET, None, n)


@pytest.mark.parametrize("opts", ["(none)", "Uf8 Ui2", "Uk8", "Uf16 Pi"])
def test_compiled_code_agrees(opts: str) -> None:
    check_compiled(features(), parse(opts))
    check_compiled(features((0, 0)), parse(opts))


@pytest.mark.parametrize("opts", ["(none)", "Uf8", "Uf8 Ui2"])
def test_what_lies_under_the_padding_does_not_show(opts: str) -> None:
    import numpy as np

    many = np.array([0, 3, -7, L, L + 5, 1, 2, 0, 9, 20, 21, 4, -1], np.int32)
    kernel, rng = features(), np.random.default_rng(0)
    x, at = rng.standard_normal((40, 31)).astype(np.float32), rng.integers(0, 39, (N, L)).astype(np.int32)
    there = np.arange(L)[None, :] < many[:, None]
    at[~there] = 39
    for bad in (np.nan, np.inf, -np.inf):
        x[39] = bad
        y = np.full((N, 31), 7, np.float32)
        interpret(lower(apply(kernel, parse(opts), TARGET)), {"x": x, "at": at, "many": many, "y": y}, [])
        want = np.where(there[:, :, None], x.astype(np.float64)[at], 0.0).sum(axis=1)
        assert np.allclose(y, want, atol=1e-5)


@pytest.mark.parametrize("opts", ["(none)", "Uf8", "Uk4"])
def test_c_agrees(opts: str) -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    x, at = rng.standard_normal((40, 31)).astype(np.float32), rng.integers(0, 40, (N, L)).astype(np.int32)
    many = np.array([0, 3, -7, L, L + 5, 1, 2, 0, 9, 20, 21, 4, -1], np.int32)
    program = lower(apply(features(), parse(opts), targets.host()))
    got, want = np.full((N, 31), 7, np.float32), np.full((N, 31), 7, np.float32)
    run_text.c(program, [x, at, many, got])
    interpret(program, {"x": x, "at": at, "many": many, "y": want}, [])
    assert np.array_equal(got, want)


def test_loops_end_where_data_says() -> None:
    found = loops(lower(apply(features(), parse("Uf8"), TARGET)), "k")
    assert found
    assert not any(s.op == "select" for loop in found for s in statements(loop.body) if isinstance(s, Instr))  # no mask is left
    assert loops(lower(apply(rows(CONDITIONS["with others"]), parse("Ui8"), TARGET)), "k")


def test_a_place_that_its_type_does_not_hold_says_nothing() -> None:
    kb = KernelBuilder("wraps")
    i, k = kb.axis("i", 5), kb.axis("k", 300)
    x, many = kb.input("x", (5, 300), float32), kb.input("many", (5,), "uint8")
    total = kb.sum("total", (i,), k, where(cast(k, "uint8") < many[i], x[i, k], 0.0))
    kb.store("y", float32, (5,), (i,), total[i])
    kernel = kb.build()
    assert not loops(lower(apply(kernel, parse("(none)"), TARGET)), "k")
    check_twin(kernel, parse("(none)"), TARGET)


def test_short_loops_have_no_limits() -> None:
    kb = KernelBuilder("short")
    i, k = kb.axis("i", 50), kb.axis("k", 3)
    x, many = kb.input("x", (50, 3), float32), kb.input("many", (50,), "int32")
    kb.store("y", float32, (50,), (i,), kb.sum("total", (i,), k, where(cast(k, "int32") < many[i], x[i, k], 0.0))[i])
    assert not loops(lower(apply(kb.build(), parse("(none)"), TARGET)), "k")


def present(dtype: str = "int32") -> Kernel:
    """Sums of the picked rows that are there: lanes along the features, and one condition for all of them."""
    kb = KernelBuilder("present")
    i, k, f = kb.axis("i", N), kb.axis("k", L), kb.axis("f", 128)
    x, at = kb.input("x", (40, 128), float32), kb.input("at", (N, L), dtype, range=(-40, 39))
    row = cast(maximum(at[i, k], 0), "int64")
    total = kb.sum("total", (i, f), k, where((at[i, k] >= 0) & (at[i, k].ne(7)), x[row, f], 0.0))
    kb.store("y", float32, (N, 128), (i, f), total[i, f])
    return kb.build()


def branches(opts: str) -> list[For]:
    """The steps of `present` that may be left out."""
    program = lower(apply(present(), parse(opts), TARGET))
    return [s for p in program.phases for s in statements(p.body) if isinstance(s, For) and s.maybe]


@pytest.mark.parametrize("opts", ["(none)", "Uf128", "Uf128 Ui2", "Uf128 Rk3", "Uf64 Rk2", "Uf128 Pi"])
def test_rows_that_are_missing_are_not_read(opts: str) -> None:
    check_twin(present(), parse(opts), TARGET)
    check_compiled(present(), parse(opts))


def test_a_branch_is_worth_long_steps_only() -> None:
    (loop,) = branches("Uf128")
    assert sum(s.op == "load" and s.result.lanes == 8 for s in statements(loop.body) if isinstance(s, Instr)) == 16
    assert not any(s.op == "select" for s in statements(loop.body) if isinstance(s, Instr))
    assert len(branches("Uf128 Rk3")) == 3
    assert not branches("Uf32")
    assert not branches("Uf128 Ui2")  # (two rows, each with a condition of its own)


def sliced(masked: bool, dtype: str = "int32") -> Kernel:
    """Sums of consecutive rows of a list, from a start to the next one, of at most L each."""
    kb = KernelBuilder("sliced")
    i, k, f = kb.axis("i", N), kb.axis("k", L), kb.axis("f", 32)
    x, start = kb.input("x", (60, 32), float32), kb.input("start", (N + 1,), dtype, range=(0, 60))
    first, end = cast(start[i], "int64"), cast(start[i + 1], "int64")
    place = first + k
    there = x.masked((place < end) & (place < 60), place, f)
    element = there if masked else where(place < end, x[minimum(place, 59), f], 0.0)
    kb.store("y", float32, (N, 32), (i, f), kb.sum("total", (i, f), k, element)[i, f])
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("opts", ["(none)", "Uf32", "Uf8 Ui2", "Uk4", "Uf16 Uk3", "Ui8", "Rk4 Pi"])
@pytest.mark.parametrize("masked", [False, True])
def test_rows_from_one_start_to_the_next(masked: bool, opts: str) -> None:
    for seed in range(3):
        check_twin(sliced(masked), parse(opts), TARGET, None, seed)
        check_twin(sliced(masked, "uint8"), parse(opts), TARGET, None, seed)
    check_compiled(sliced(masked), parse(opts))
    assert loops(lower(apply(sliced(masked), parse("Uf32"), TARGET)), "k")


def test_sums_of_data_that_may_wrap_say_nothing() -> None:
    kb = KernelBuilder("wraps")
    i, k = kb.axis("i", 5), kb.axis("k", 300)
    x, a = kb.input("x", (5, 300), float32), kb.input("a", (6,), "int64")
    total = kb.sum("total", (i,), k, where(a[i] + k < a[i + 1], x[i, k], 0.0))
    kb.store("y", float32, (5,), (i,), total[i])
    assert not loops(lower(apply(kb.build(), parse("(none)"), TARGET)), "k")
    check_twin(kb.build(), parse("(none)"), TARGET)
