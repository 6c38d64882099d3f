"""Axes that start and end where memory says: rows of sparse matrices, and segments."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from checks import check_compiled, check_given, check_twin
from csr_structures import LENGTHS, reduction, sparse_product, structure
from tilewright import targets
from tilewright.heuristics import quick_starts, starts
from tilewright.heuristics.model import estimate
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, KernelError, OutOfRangeError, cast
from tilewright.ir.evaluation import evaluate
from tilewright.lower import lower
from tilewright.measure.inputs import generate, generate_special
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements

LEVELS = ("x86-64-v2", "avx2", "x86-64-v4")
ROWS, COLUMNS = 37, 29
SCHEDULES = ("(none)", "Uk8", "Ui4 Uk8", "Ui8", "Ti16 Pi Uk16", "Ui2 Uk32")


def operands(name: str, dtype: str, at: str, n: int) -> dict[str, Any]:
    begins, column = structure(name, ROWS, COLUMNS, at)
    rng = np.random.default_rng(7)
    a, x = rng.standard_normal(len(column)).astype(dtype), rng.standard_normal((COLUMNS, n) if n else COLUMNS).astype(dtype)
    return {"p": begins, "column": column, "a": a, "x": x}


def right(o: dict[str, Any]) -> Any:
    """What NumPy computes row by row in float64."""
    p, terms = o["p"], (o["a"].astype("float64") * o["x"].astype("float64")[o["column"]].T).T
    return np.array([terms[p[i] : p[i + 1]].sum(0) for i in range(len(p) - 1)])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.covering
def test_products_of_each_structure(name: str, level: str) -> None:
    target, number = targets.named(level), list(LENGTHS).index(name) + 5 * LEVELS.index(level)
    for turn, (dtype, at, n) in enumerate(product(("float32", "float64"), ("int32", "int64"), (0, 1, 8))):
        if (turn + number) % 4:
            continue
        o = operands(name, dtype, at, n)
        kernel = sparse_product(
            ROWS, COLUMNS, len(o["column"]), dtype, at, n, regular=(turn + number) % 8 == 0
        )  # (a promise that no result needs)
        opts = parse(SCHEDULES[(turn + number // 4) % len(SCHEDULES)])
        found = check_given(kernel, opts, target, o, 1 + turn % 2)["y"]
        np.testing.assert_allclose(found.reshape(right(o).shape), right(o), atol=1e-12)


@pytest.mark.parametrize("columns", [0, 8])
def test_rows_through_the_c_compiler(columns: int) -> None:
    for name in ("random", "one dense row"):
        o = operands(name, "float32", "int32", columns)
        kernel = sparse_product(ROWS, COLUMNS, len(o["column"]), "float32", "int32", columns)
        found = tw.best(kernel, device="cpu:c")(*o.values())
        np.testing.assert_allclose(found.reshape(right(o).shape), right(o), atol=1e-5)


@pytest.mark.parametrize("opts", SCHEDULES)
@pytest.mark.parametrize("name", ["random", "empty ends", "one dense row"])
@pytest.mark.covering
def test_interpreted_schedules(name: str, opts: str) -> None:
    o = operands(name, "float32", "int32", 0)
    kernel = sparse_product(ROWS, COLUMNS, len(o["column"]), regular=name != "random")
    y = np.full(ROWS, np.nan, np.float32)
    interpret(lower(apply(kernel, parse(opts), targets.named("avx2"))), {**o, "y": y})
    np.testing.assert_allclose(y, right(o), atol=1e-5)
    check_twin(kernel, parse(opts), targets.named("avx2"))


@pytest.mark.parametrize("combine", ["add", "max", "min", "mul"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.covering
def test_segments_of_any_start_and_end(combine: str, dtype: str) -> None:
    kernel = reduction(combine, 23, 90, dtype)
    start = np.random.default_rng(3).integers(0, 90, 23).astype("int32")
    end = np.minimum(start + np.arange(23, dtype="int32") % 7, 90).astype("int32")
    a = np.random.default_rng(4).integers(-3, 4, 90).astype(dtype)
    ufunc = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}[combine]
    low, high = (-np.inf, np.inf) if dtype != "int32" else (-(2**31), 2**31 - 1)
    none = {"add": 0, "mul": 1, "max": low, "min": high}[combine]
    wanted = [ufunc.reduce(a[s:e]) if s < e else none for s, e in zip(start, end, strict=True)]
    found = evaluate(kernel, {"start": start, "end": end, "a": a})
    np.testing.assert_array_equal(found["y"], wanted)
    np.testing.assert_array_equal(found["n"], [(a[s:e] > 0).sum() for s, e in zip(start, end, strict=True)])
    for opts in ("(none)", "Uk8 Ul8", "Ui4"):
        check_compiled(kernel, parse(opts), targets.named("avx2"))
        check_twin(kernel, parse(opts), targets.named("avx2"))
    y, n = tw.best(kernel, opts="Uk4")(start, end, a)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(n, found["n"])


def test_a_value_is_read_where_its_row_is() -> None:
    """What is kept per entry is read between start and end, and a mask of one's own stays."""
    kb = KernelBuilder("kept")
    i, e = kb.axis("i", 9), kb.axis("e", 40)
    p, a = kb.input("p", (10,), "int32", range=(0, 40), ascending=True), kb.input("a", (40,), "float32")
    twice = kb.sum("twice", (e,), kb.axis("m", 2), a[e])
    k = kb.axis("k", (p[i], p[i + 1]))
    total = kb.sum("total", (i,), k, twice[k] + a.masked(k >= 8, k - 8))
    kb.store("y", "float32", (9,), (i,), total[i])
    kernel = kb.build()
    begins = np.array([0, 0, 3, 3, 20, 20, 20, 38, 40, 40], "int32")
    x = np.arange(40, dtype="float32")
    each = 2 * x + np.where(x >= 8, x - 8, 0)
    wanted = [each[s:t].sum() for s, t in pairwise(begins)]
    np.testing.assert_array_equal(evaluate(kernel, {"p": begins, "a": x})["y"], wanted)
    for opts in ("(none)", "Uk8", "Ui3"):
        np.testing.assert_array_equal(tw.best(kernel, opts=opts)(begins, x), wanted)


@pytest.mark.parametrize("outer_first", [True, False])
def test_rows_of_rows(outer_first: bool) -> None:
    """The rows of an axis whose place is read from memory too, in any order of the axes."""
    kb = KernelBuilder("nested")
    i = kb.axis("i", 3)
    p, q = kb.input("p", (4,), "int32", range=(0, 5), ascending=True), kb.input("q", (6,), "int32", range=(0, 12), ascending=True)
    a = kb.input("a", (12,), "float32")
    k = kb.axis("k", (p[i], p[i + 1]))
    l = kb.axis("l", (q[k], q[k + 1]))
    total = kb.sum("total", (i,), (k, l) if outer_first else (l, k), a[l] * cast(k, "float32"))
    kb.store("y", "float32", (3,), (i,), total[i])
    kernel = kb.build()
    begins, inner, x = np.array([0, 2, 2, 5], "int32"), np.array([0, 3, 4, 7, 9, 12], "int32"), np.arange(1, 13, dtype="float32")
    wanted = [sum(m * x[inner[m] : inner[m + 1]].sum() for m in range(s, t)) for s, t in pairwise(begins)]
    np.testing.assert_array_equal(evaluate(kernel, {"p": begins, "q": inner, "a": x})["y"], wanted)
    for opts in ("(none)", "Uk2", "Ul4"):
        np.testing.assert_array_equal(tw.best(kernel, opts=opts)(begins, inner, x), wanted)


def test_the_time_of_a_reference_is_that_of_the_entries() -> None:
    """4e5 rows times 4e6 entries are too many for any machine."""
    kernel = sparse_product(400_000, 1000, 4_000_000)
    rng = np.random.default_rng(0)
    p = np.arange(0, 4_000_001, 10, dtype="int32")
    column, a, x = (
        rng.integers(0, 1000, 4_000_000).astype("int32"),
        rng.standard_normal(4_000_000).astype("float32"),
        np.ones(1000, "float32"),
    )
    found = evaluate(kernel, {"p": p, "column": column, "a": a, "x": x})["y"]
    np.testing.assert_allclose(found, a.reshape(-1, 10).sum(1, dtype="float64"), atol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [8, 16, 64])
@pytest.mark.covering
def test_columns_are_the_lanes_of_start_schedules(columns: int, level: str) -> None:
    """Rows side by side would wait for the longest, and their entries be masked."""
    kernel, target = sparse_product(50_000, 50_000, 500_000, "float32", "int32", columns), targets.named(level)
    for threads, found in product((1, 2), (starts, quick_starts)):
        opts = found(kernel, target, threads)[0]
        assert [o.on for o in opts if o.op == "UPCAST"] == ["j"], opts


@pytest.mark.parametrize(("pattern", "opts"), [("diagonals", "Ui8"), ("runs of 4", "Ui4 Uk4"), ("runs of 8", "Ui8 Uk8")])
def test_columns_that_follow_each_other_are_one_vector(pattern: str, opts: str) -> None:
    """Where they do; others are gathered, as those of test data with special values are."""
    length, wide, target = 3 if pattern == "diagonals" else 9, 64, targets.named("znver4")
    kernel = sparse_product(ROWS, wide, ROWS * length, regular=True, pattern=pattern)
    o = generate(kernel, {}, 0)
    columns = o["column"].reshape(ROWS, length)
    assert (np.diff(columns) % wide == 1).all() and (np.diff(columns, axis=0) % wide == 1).all()
    programs = [lower(apply(kernel, parse(x), target)) for x in (opts, "Uk16")]
    runs = [
        [s for p in made.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "gather" and s.mem.runs]
        for made in programs
    ]
    assert runs[0] and not runs[1]
    for given in (o, generate_special(kernel, {}, 0, wild=False, subnormal=False, huge=False)):
        np.testing.assert_allclose(check_given(kernel, parse(opts), target, given, 1)["y"], right(given), atol=1e-5)


def test_regular_rows_that_are_short_are_lanes() -> None:
    target = targets.named("x86-64-v4")
    for mean, regular, lane in ((3, True, "i"), (3, False, "k"), (30, True, "k")):
        kernel = sparse_product(10_000, 500, 10_000 * mean, regular=regular)
        s = apply(kernel, quick_starts(kernel, target)[0], target)
        (nest,) = [n for n in s.nests if n.kind == "reduce"]
        assert s.lanes(nest).lane.axis.arg.name == lane, (mean, regular)
        along_rows, along_entries = (estimate(apply(kernel, parse(opts), target)) for opts in ("Ui8", "Ui8 Uk8"))
        assert mean > 3 or (along_rows < along_entries) == regular, (along_rows, along_entries)
    lengths = np.diff(generate(sparse_product(1000, 500, 3500, regular=True), {}, 0)["p"])
    assert set(lengths) == {3, 4} and lengths.sum() == 3500


@pytest.mark.parametrize(("level", "rows", "opts"), [("avx2", 37, "Ui8"), ("x86-64-v4", 48, "Ui16")])
def test_regular_rows_of_one_length_have_no_loops(level: str, rows: int, opts: str) -> None:
    """Nor masks; where one row is longer and another one shorter, and in what is left of the rows, lanes have the loop."""
    target, rng = targets.named(level), np.random.default_rng(5)
    lengths = np.full(rows, 3)
    lengths[[18, 19]] = 1, 5
    p, column = np.concatenate([[0], np.cumsum(lengths)]).astype("int32"), rng.integers(0, 29, 3 * rows).astype("int32")
    o = {"p": p, "column": column, "a": rng.standard_normal(3 * rows).astype("float32"), "x": rng.standard_normal(29).astype("float32")}
    kernel = sparse_product(rows, 29, 3 * rows, regular=True)
    np.testing.assert_allclose(check_given(kernel, parse(opts), target, o, 1)["y"], right(o), atol=1e-12)
    check_twin(kernel, parse(opts), target)

    def tests_of_all_lanes(regular: bool) -> int:
        program = lower(apply(sparse_product(rows, 29, 3 * rows, regular=regular), parse(opts), target))
        return sum(isinstance(s, Instr) and s.op == "every" for ph in program.phases for s in statements(ph.body))

    assert (tests_of_all_lanes(True), tests_of_all_lanes(False)) == (1, 0)


@pytest.mark.parametrize("combine", ["max", "mul"])
def test_extremes_and_products_of_rows_of_one_length(combine: str) -> None:
    kb = KernelBuilder("segments")
    i = kb.axis("i", 24)
    p, a = kb.input("p", (25,), "int32", range=(0, 96), ascending=True, regular=True), kb.input("a", (96,), "float32")
    k = kb.axis("k", (p[i], p[i + 1]))
    kb.store("y", "float32", (24,), (i,), kb.reduce(combine, "best", (i,), k, a[k])[i])
    kernel = kb.build()
    x = np.random.default_rng(1).standard_normal(96).astype("float32")
    x[5] = np.nan
    wanted = {"max": np.maximum, "mul": np.multiply}[combine].reduce(x.reshape(24, 4), 1)
    found = tw.best(kernel, opts="Ui8", threads=1)(np.arange(0, 97, 4, "int32"), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    check_compiled(kernel, parse("Ui8"), targets.named("avx2"))


def test_special_inputs_have_empty_rows_and_one_of_all_entries() -> None:
    kernel = sparse_product(50, 20, 300)
    lengths = [np.diff(generate_special(kernel, {}, seed)["p"].astype(int)) for seed in range(4)]
    assert all(n.min() == 0 and n.sum() == 300 for n in lengths)
    assert any((n == 300).any() for n in lengths) and any((n < 300).all() for n in lengths)


def test_wrong_structures_are_errors() -> None:
    kernel = sparse_product(4, 5, 6)
    call = tw.best(kernel, opts="(none)")
    a, x, column = np.ones(6, "float32"), np.ones(5, "float32"), np.array([0, 1, 2, 3, 4, 4], "int32")
    good = np.array([0, 2, 2, 5, 6], "int32")
    assert call(good, column, a, x).tolist() == [2.0, 0.0, 3.0, 1.0]
    with pytest.raises(OutOfRangeError, match=r"p has 4 before 2, at \[1\]: its elements ascend"):
        call(np.array([0, 4, 2, 5, 6], "int32"), column, a, x)
    with pytest.raises(OutOfRangeError, match=r"p has the element 7, outside of 0\.\.6"):
        call(np.array([0, 2, 2, 5, 7], "int32"), column, a, x)
    with pytest.raises(OutOfRangeError, match=r"column has the element 5, outside of 0\.\.4"):
        call(good, column + 1, a, x)


def test_what_such_an_axis_cannot_be() -> None:
    kb = KernelBuilder("wrong")
    i = kb.axis("i", 4)
    p, free = kb.input("p", (5,), "int32", range=(0, 6), ascending=True), kb.input("free", (5,), "int32")
    a = kb.input("a", (6,), "float32")
    k = kb.axis("k", (p[i], p[i + 1]))
    with pytest.raises(KernelError, match="axis l ends where free says, which may be anything: state its range"):
        kb.axis("l", (p[i], free[i]))
    with pytest.raises(KernelError, match=r"axis l starts at .* which may be below 0"):
        kb.axis("l", (free[i], p[i]))
    with pytest.raises(KernelError, match=r"axis k has another start or end already"):
        kb.axis("k", (p[i], 6))
    with pytest.raises(KernelError, match=r"axis k has another start or end already"):
        kb.axis("k", 6)
    with pytest.raises(KernelError, match="goes along k, which has a start and an end"):
        kb.recurrence(("s",), (i, k), k, (0.0,), lambda s: s + a[k])
    with pytest.raises(KernelError, match="goes along k, which has a start and an end"):
        kb.sum("over_i", (k,), i, a[k])
    with pytest.raises(KernelError, match=r"axis l is .*; give its extent, or .start, end."):
        kb.axis("l", (p[i],))  # type: ignore[arg-type]
    with pytest.raises(KernelError, match="the store to y goes along k, which has a start and an end"):
        kb.store("y", "float32", (6,), (k,), a[k])
    with pytest.raises(KernelError, match="value top goes along k"):
        kb.argmax("top", (i,), k, a[k])
    with pytest.raises(KernelError, match="q is regular, and not ascending"):
        kb.input("q", (3,), "int32", regular=True)
    with pytest.raises(KernelError, match=r"q is float32\[3\] in 'diagonals'; integers may be in diagonals, runs of 4, runs of 8"):
        kb.input("q", (3,), "float32", pattern="diagonals")
    with pytest.raises(KernelError, match="integers of at least one dimension may be ascending"):
        kb.input("f", (3,), "float32", ascending=True)


@pytest.mark.parametrize(("most", "entries", "ahead"), [(100, 6, 0), (6, 6, 1), (6, 5, 0)])
def test_a_range_that_passes_the_array_is_refused(most: int, entries: int, ahead: int) -> None:
    """Else a kernel would read what nobody gave it: calls check elements against the stated range only."""
    kb = KernelBuilder("outside")
    i = kb.axis("i", 4)
    p, a = kb.input("p", (5,), "int32", range=(0, most), ascending=True), kb.input("a", (entries,), "float32")
    k = kb.axis("k", (p[i], p[i + 1]))
    with pytest.raises(KernelError, match=rf"value t reads outside of a: in dimension 0, which has {entries} elements"):
        kb.sum("t", (i,), k, a[k + ahead])


def test_what_a_start_says_is_known_of_its_axis() -> None:
    kb = KernelBuilder("differences")
    i = kb.axis("i", 4)
    p, a = kb.input("p", (5,), "int32", range=(1, 6), ascending=True), kb.input("a", (6,), "float32")
    k = kb.axis("k", (p[i], p[i + 1]))
    total = kb.sum("t", (i,), k, a[k] - a[k - 1])
    kb.store("y", "float32", (4,), (i,), total[i])
    assert tw.best(kb.build(), opts="(none)")(np.array([1, 2, 2, 5, 6], "int32"), np.arange(6, dtype="float32")).tolist() == [1, 0, 3, 1]
