"""Sums over pairs in some order, bands and corners: loops go through what is reduced only."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import run_text
from checks import check_compiled, check_floats, check_twin
from ragged_conditions import CONDITIONS, TYPES, Condition, loops
from random_schedules import grow
from tilewright import targets
from tilewright.heuristics import quick_starts
from tilewright.heuristics.model import estimate
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, Node, float32, int32, maximum, minimum, where
from tilewright.ir.body import Fold
from tilewright.ir.cost import cost
from tilewright.ir.dtypes import int8
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.ir.skipped_tiles import skip_conditions, threshold
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import apply, parse
from tilewright.opts.options.fold import folded
from tilewright.program.program import For, Instr, statements
from written_attention import LIMITS, limited, packed

TARGET = targets.named("avx2")
N = 21
CONDITIONS_LOOPS: dict[str, Callable[[Node, Node], Node]] = {
    "above": lambda i, j: j > i,
    "up to": lambda i, j: j <= i,
    "band": lambda i, j: (j - i < 4) & (i - j <= 2),
    "steep": lambda i, j: 2 * j + 5 >= 3 * i,
    "nowhere": lambda i, j: (j > i + 30) & (j < i - 3),
}


def pairs(holds: Callable[[Node, Node], Node]) -> Kernel:
    """A sum, a maximum and a masked sum over pairs, and pairs that are counted."""
    kb = KernelBuilder("pairs")
    i, j, k, l, m = (kb.axis(x, N) for x in ("i", "j", "k", "l", "m"))
    x, w = kb.input("x", (N,), float32), kb.input("w", (N, N), float32)
    total = kb.sum("total", (i,), j, where(holds(i, j), x[i] * w[i, j], 0.0))
    most = kb.max("most", (i,), k, where(holds(i, k), w[i, k] + x[k], float("-inf")))
    some = kb.sum("some", (i,), l, w.masked(holds(i, l), l, i))
    count = kb.sum("count", (i,), m, where(holds(i, m), 1, 0))
    kb.store("y", float32, (N,), (i,), total[i] + some[i])
    kb.store("z", float32, (N,), (i,), most[i])
    kb.store("n", int32, (N,), (i,), count[i].cast(int32))
    return kb.build()


@pytest.mark.parametrize("opts", ["(none)", "Um8"])
def test_a_condition_over_another_axis_of_the_same_family_is_another(opts: str) -> None:
    kb = KernelBuilder("of_one_family")
    i, j, k = kb.axis("m", N), kb.axis("n", N), kb.axis("n@2", N)
    x = kb.input("x", (N, N), float32)
    total = kb.sum("total", (i,), (j, k), where(j < i, where(k < i, x[j, k], 5.0), 0.0))
    kb.store("y", float32, (N,), (i,), total[i])
    check_twin(kb.build(), parse(opts), TARGET)


@pytest.mark.many
@pytest.mark.parametrize("name", CONDITIONS_LOOPS)
def test_random_schedules_equal_the_reference(name: str) -> None:
    kernel = pairs(CONDITIONS_LOOPS[name])
    rng = random.Random(name)
    for n in range(2):
        opts = grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(2 * n)], parse([["UPCAST", "i", 8]]) if n % 2 else ())
        check_twin(kernel, opts, TARGET, None, n)


def test_compiled_code_agrees() -> None:
    check_compiled(pairs(CONDITIONS_LOOPS["band"]), parse([["UPCAST", "i", 8]]), TARGET)


def test_loops_begin_where_something_is_added() -> None:
    kb = KernelBuilder("above")
    i, j = kb.axis("i", 64), kb.axis("j", 64)
    w = kb.input("w", (64, 64), float32)
    total = kb.sum("total", (i,), j, where(j > i, w[i, j], 0.0))
    kb.store("y", float32, (64,), (i,), total[i])
    program = lower(apply(kb.build(), parse([]), TARGET))
    loops = [s for p in program.phases for s in statements(p.body) if isinstance(s, For) and s.label == "j"]
    made = {s.out for p in program.phases for s in statements(p.body) if getattr(s, "op", "") == "const"}
    assert loops and any(loop.lo not in made for loop in loops)


def product(above: bool = False, m: int = 45, n: int = 45) -> Kernel:
    """A triangular matrix times a matrix."""
    kb = KernelBuilder("triangular_product")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("k", m)
    a, x = kb.input("a", (m, m), float32), kb.input("x", (m, n), float32)
    total = kb.sum("total", (i, j), k, where(k >= i if above else k < i, a[i, k] * x[k, j], 0.0))
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


@pytest.mark.parametrize("opts", ["Um6 Un8 Rk4", "Um12 Un16 Rk4", "Um15 Un24 Rk2"])
def test_long_steps_are_left_out_too(opts: str) -> None:
    program = lower(apply(product(m=60, n=48), parse(opts), TARGET))
    loops = [s for p in program.phases for s in statements(p.body) if isinstance(s, For) and s.label == "k"]
    made = {s.out for p in program.phases for s in statements(p.body) if getattr(s, "op", "") == "const"}
    assert loops and all(loop.hi not in made or loop.lo not in made for loop in loops)


@pytest.mark.many
@pytest.mark.parametrize("opts", ["Um6 Un8 Rk4", "Um12 Un16 Rk4", "Um15 Un24 Rk2", "Um4 Un8 Tn8 Pn Rk4 Sx@n", "Um8 Un8 Tk16 Mk<m Rk2"])
@pytest.mark.parametrize("above", [False, True])
@pytest.mark.covering
def test_triangular_products_equal_the_reference(opts: str, above: bool) -> None:
    check_twin(product(above), parse(opts), TARGET)
    check_compiled(product(above), parse(opts))


# Rows as long as data says: loops end where nothing more is reduced, whatever the data is.


N_RAGGED, L = 13, 21


def rows(holds: Condition, dtype: str = "int32", span: tuple[int, int] | None = None) -> Kernel:
    """A sum of picked numbers, a greatest and a least one of each row, as far as data says. Numbers of rows are negative, 0, and past
    the extent as well."""
    kb = KernelBuilder("rows")
    i = kb.axis("i", N_RAGGED)
    k, m, l = (kb.axis(x, L) for x in ("k", "m", "l"))
    x, w = kb.input("x", (40,), float32), kb.input("w", (N_RAGGED, L), float32)
    at, ok = kb.input("at", (N_RAGGED, L), "int32", range=(0, 39)), kb.input("ok", (N_RAGGED, L), "int32", range=(0, 2))
    many = kb.input("many", (N_RAGGED,), dtype, range=span)[i]
    total = kb.sum("total", (i,), k, where(holds(k, i, many, ok[i, k] > 0), w[i, k] * x[cast(at[i, k], "int64")], 0.0))
    most = kb.max("most", (i,), m, where(holds(m, i, many, ok[i, m] > 0), w[i, m], float("-inf")))
    least = kb.min("least", (i,), l, where(holds(l, i, many, ok[i, l] > 0), w[i, l], float("inf")))
    kb.store("y", float32, (N_RAGGED,), (i,), total[i])
    kb.store("z", float32, (N_RAGGED,), (i,), where(most[i] > least[i], most[i] - least[i], -1.0))
    return kb.build()


def features(span: tuple[int, int] | None = None) -> Kernel:
    """Means of picked rows: lanes along the features, and one number for all of them."""
    kb = KernelBuilder("features")
    i, k, f = kb.axis("i", N_RAGGED), kb.axis("k", L), kb.axis("f", 31)
    x, at = kb.input("x", (40, 31), float32), kb.input("at", (N_RAGGED, L), "int32", range=(0, 39))
    many = kb.input("many", (N_RAGGED,), "int32", range=span)
    total = kb.sum("total", (i, f), k, where(k < cast(many[i], "int64"), x[cast(at[i, k], "int64"), f], 0.0))
    kb.store("y", float32, (N_RAGGED, 31), (i, f), total[i, f])
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("opts", ["(none)", "Ui8", "Uk8 Um4 Ul4", "Ui4 Uk4", "Rk2"])
@pytest.mark.covering
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
def test_random_schedules_equal_the_reference_in_ragged(name: str) -> None:
    rng = random.Random(name)
    for n in range(4):
        kernel = rows(CONDITIONS[name]) if n % 2 else features()
        check_twin(kernel, grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(2 * n)]), TARGET, None, n)


@pytest.mark.parametrize("opts", ["(none)", "Uf8 Ui2", "Uk8", "Uf16 Pi"])
def test_compiled_code_agrees_in_ragged(opts: str) -> None:
    check_compiled(features(), parse(opts))
    check_compiled(features((0, 0)), parse(opts))


@pytest.mark.parametrize("opts", ["(none)", "Uf8", "Uf8 Ui2"])
def test_what_lies_under_the_padding_does_not_show(opts: str) -> None:
    import numpy as np

    many = np.array([0, 3, -7, L, L + 5, 1, 2, 0, 9, 20, 21, 4, -1], np.int32)
    kernel, rng = features(), np.random.default_rng(0)
    x, at = rng.standard_normal((40, 31)).astype(np.float32), rng.integers(0, 39, (N_RAGGED, L)).astype(np.int32)
    there = np.arange(L)[None, :] < many[:, None]
    at[~there] = 39
    for bad in (np.nan, np.inf, -np.inf):
        x[39] = bad
        y = np.full((N_RAGGED, 31), 7, np.float32)
        interpret(lower(apply(kernel, parse(opts), TARGET)), {"x": x, "at": at, "many": many, "y": y}, [])
        want = np.where(there[:, :, None], x.astype(np.float64)[at], 0.0).sum(axis=1)
        assert np.allclose(y, want, atol=1e-5)


@pytest.mark.parametrize("opts", ["(none)", "Uf8", "Uk4"])
def test_c_agrees(opts: str) -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    x, at = rng.standard_normal((40, 31)).astype(np.float32), rng.integers(0, 40, (N_RAGGED, L)).astype(np.int32)
    many = np.array([0, 3, -7, L, L + 5, 1, 2, 0, 9, 20, 21, 4, -1], np.int32)
    program = lower(apply(features(), parse(opts), targets.host()))
    got, want = np.full((N_RAGGED, 31), 7, np.float32), np.full((N_RAGGED, 31), 7, np.float32)
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
    x, many = kb.input("x", (5, 300), "int32"), kb.input("many", (5,), "uint8")
    total = kb.sum("total", (i,), k, where(cast(k, "uint8") < many[i], x[i, k], 0))
    kb.store("y", "int32", (5,), (i,), total[i])
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
    i, k, f = kb.axis("i", N_RAGGED), kb.axis("k", L), kb.axis("f", 128)
    x, at = kb.input("x", (40, 128), float32), kb.input("at", (N_RAGGED, L), dtype, range=(-40, 39))
    row = cast(maximum(at[i, k], 0), "int64")
    total = kb.sum("total", (i, f), k, where((at[i, k] >= 0) & (at[i, k].ne(7)), x[row, f], 0.0))
    kb.store("y", float32, (N_RAGGED, 128), (i, f), total[i, f])
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
    i, k, f = kb.axis("i", N_RAGGED), kb.axis("k", L), kb.axis("f", 32)
    x, start = kb.input("x", (60, 32), float32), kb.input("start", (N_RAGGED + 1,), dtype, range=(0, 60))
    first, end = cast(start[i], "int64"), cast(start[i + 1], "int64")
    place = first + k
    there = x.masked((place < end) & (place < 60), place, f)
    element = there if masked else where(place < end, x[minimum(place, 59), f], 0.0)
    kb.store("y", float32, (N_RAGGED, 32), (i, f), kb.sum("total", (i, f), k, element)[i, f])
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("opts", ["(none)", "Uf32", "Uf8 Ui2", "Uk4", "Uf16 Uk3", "Ui8", "Rk4 Pi"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.covering
def test_rows_from_one_start_to_the_next(masked: bool, opts: str) -> None:
    for seed in range(3):
        check_twin(sliced(masked), parse(opts), TARGET, None, seed)
        check_twin(sliced(masked, "uint8"), parse(opts), TARGET, None, seed)
    check_compiled(sliced(masked), parse(opts))
    assert loops(lower(apply(sliced(masked), parse("Uf32"), TARGET)), "k")


def test_sums_of_data_that_may_wrap_say_nothing() -> None:
    kb = KernelBuilder("wraps")
    i, k = kb.axis("i", 5), kb.axis("k", 300)
    x, a = kb.input("x", (5, 300), "int32"), kb.input("a", (6,), "int64")
    total = kb.sum("total", (i,), k, where(a[i] + k < a[i + 1], x[i, k], 0))
    kb.store("y", "int32", (5,), (i,), total[i])
    assert not loops(lower(apply(kb.build(), parse("(none)"), TARGET)), "k")
    check_twin(kb.build(), parse("(none)"), TARGET)


# Scatters and rows as far as data says: what combines nothing is left out, and a loop of a row that does not count
# has no iterations.


LONG, BINS = 90, 6
WHERE = {"before": "<", "up to": "<=", "from": ">=", "after": ">"}
"""How the number of a row compares with a place."""


def counted(name: str, combine: str = "add", dtype: str = "int32", own: bool = True) -> Kernel:
    """A histogram of each padded row, or of all of them; and in it, what else counts."""
    kb = KernelBuilder("counted")
    i, k = kb.axis("i", N_RAGGED), kb.axis("k", LONG)
    bin, w = kb.input("bin", (N_RAGGED, LONG), "uint8", range=(0, BINS - 1)), kb.input("w", (N_RAGGED, LONG), float32)
    many, ok = kb.input("many", (N_RAGGED,), dtype)[i], kb.input("ok", (N_RAGGED, LONG), "int32", range=(0, 2))
    holds = CONDITIONS[name](k, i, many, ok[i, k] > 0)
    at = cast(bin[i, k], "int64")
    shape, place = ((N_RAGGED, BINS), (i, at)) if own else ((BINS,), (at,))
    kb.store("y", float32, shape, (i, k), w[i, k] * 0.5, place, combine=combine, mask=holds)
    kb.store("n", "uint32", (N_RAGGED,), (i, k), cast(1, "uint32") << cast(at, "uint32"), (i,), combine="or", mask=holds)
    return kb.build()


def pairs_of_ragged_rows(rows: str, columns: str, dtype: str = "int32") -> Kernel:
    """Sums and largest ones over pairs of a padded row of numbers, of which both count."""
    kb = KernelBuilder("pairs")
    g, i, j, k = kb.axis("g", 5), kb.axis("n@i", L), kb.axis("n@j", L), kb.axis("n@k", L)
    x, many = kb.input("x", (5, L), float32), kb.input("many", (5,), dtype)[g]

    def both(at: object) -> object:
        return CONDITIONS[rows](i, g, many, x[g, i] > 0.0) & CONDITIONS[columns](at, g, many, x[g, at] > 0.0)

    total = kb.sum("total", (g, i), j, where(both(j), x[g, i] * x[g, j] + 1.0, 0.0))
    most = kb.max("most", (g, i), k, where(both(k), x[g, i] - x[g, k], -9.0))
    kb.store("y", float32, (5, L), (g, i), total[g, i] + most[g, i])
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("opts", ["(none)", "Uk8", "Uk4", "Uk4 Pi", "Pi"])
@pytest.mark.covering
def test_scatters_combine_what_data_says(name: str, opts: str) -> None:
    for own in (True,) if opts.endswith("Pi") else (True, False):
        for seed, combine in enumerate(("add", "max")):
            check_twin(counted(name, combine, own=own), parse(opts), TARGET, None, seed)


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_of_any_type_in_ragged_rows(dtype: str) -> None:
    for name in ("before", "from"):
        check_twin(counted(name, dtype=dtype), parse("Uk4"), TARGET)
        check_twin(pairs_of_ragged_rows(name, "before", dtype), parse("Un@i8"), TARGET)


@pytest.mark.parametrize("rows", WHERE)
@pytest.mark.parametrize("columns", ["before", "after", "with others"])
@pytest.mark.covering
def test_pairs_of_which_both_count(rows: str, columns: str) -> None:
    for opts in ("(none)", "Un@i8", "Un@i4 Un@j4", "Rn@j3", "Un@i8 Jn@j"):
        for seed in range(2):
            check_twin(pairs_of_ragged_rows(rows, columns), parse(opts), TARGET, None, seed)


@pytest.mark.many
@pytest.mark.parametrize("name", CONDITIONS)
def test_random_schedules_equal_the_reference_in_ragged_rows(name: str) -> None:
    rng = random.Random(name)
    for n in range(4):
        kernel = counted(name, own=bool(n & 1)) if n < 2 else pairs_of_ragged_rows(name, "before")
        check_twin(kernel, grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(2 * n + 1)]), TARGET, None, n)


@pytest.mark.parametrize("opts", ["(none)", "Uk8", "Uk4"])
def test_compiled_code_agrees_in_ragged_rows(opts: str) -> None:
    check_compiled(counted("before"), parse(opts))
    check_compiled(pairs_of_ragged_rows("before", "before"), parse("Un@i8"))


def test_loops_end_where_data_says_in_ragged_rows() -> None:
    assert loops(lower(apply(counted("before"), parse("Uk8"), TARGET)), "k")
    assert loops(lower(apply(pairs_of_ragged_rows("before", "before"), parse("Un@i8"), TARGET)), "n@j")


# Tiles of a cut fold that numbers from memory hide, such as the lengths of padded rows, are not run.


FORMS = {
    "tiles": [["FOLD", "k"], ["TILE", "k.o", 4], ["PARALLEL", "h"]],
    "rows": [["FOLD", "k"], ["TILE", "k.o", 4], ["UPCAST", "s", 4], ["PARALLEL", "h"], ["STAGE", "top.o1", {"at": "k.o"}]],
    "heads in registers": [["FOLD", "k"], ["TILE", "k.o", 5], ["UPCAST", "h", 4], ["PARALLEL", "s"]],
}


@pytest.mark.many
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.covering
def test_results_are_the_same(limit: str, form: str) -> None:
    check_floats(limited(limit), parse(FORMS[form]), TARGET)
    check_compiled(limited(limit), parse(FORMS[form]), threads=2)


@pytest.mark.parametrize("limit", ["int32", "index"])
def test_tiles_past_the_length_are_not_read(limit: str) -> None:
    """Keys past the tile that holds the last one may be NaN: nothing of them gets into a sum."""
    kernel = limited(limit)
    inputs = generate(kernel, {}, 0)
    inputs["n"][:] = (1, 2, 4, 5, 8, 11, 22, 23)
    want = evaluate(kernel, inputs)
    for head, n in enumerate(inputs["n"]):
        inputs["k"][head, -(-n // 4) * 4 :] = np.nan
        inputs["v"][head, -(-n // 4) * 4 :] = np.nan
    y = np.zeros((8, 11, 8), np.float32)
    interpret(lower(apply(kernel, parse(FORMS["rows"]), TARGET)), {**inputs, "y": y})
    np.testing.assert_allclose(y, want["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("at", "opts"), [("int32", ["UPCAST", "s", 4]), ("int64", ["TILE", "s", 8])])
def test_tiles_of_other_sequences_are_not_read(at: str, opts: list[str | int]) -> None:
    """Of places in registers, or in loops inside, the first start and the last end count, in whatever order they lie."""
    kernel, begins = packed(at), np.array([0, 8, 8, 9, 16, 24])
    inputs, length = generate(kernel, {}, 0), np.diff(begins)
    inputs["start"][:], inputs["end"][:] = (np.repeat(x, length) for x in (begins[:-1], begins[1:]))
    inputs["start"][10], inputs["end"][10] = 16, 4  # sees nothing
    want = evaluate(kernel, inputs)["y"]
    assert np.isnan(want[:, 10]).all() and np.isfinite(np.delete(want, 10, 1)).all()
    inputs["k"][:, 16:] = inputs["v"][:, 16:] = np.nan
    chosen, y = parse([["FOLD", "k"], ["TILE", "k.o", 4], opts, ["PARALLEL", "s"]]), np.zeros((1, 24, 4), np.float32)
    interpret(lower(apply(kernel, chosen, TARGET)), {**inputs, "y": y})
    np.testing.assert_allclose(y[:, :16], want[:, :16], rtol=1e-4, atol=1e-5)
    check_compiled(kernel, chosen, threads=2)


def test_a_model_and_a_cost_take_lengths_as_they_may_be() -> None:
    kernel = limited("int32", s=64, t=1024)
    opts = quick_starts(kernel, TARGET, 1)[0]
    assert any(o.op == "TILE" and o.on == "k.o" for o in opts)
    times = [estimate(apply(limited("int32", s=64, t=t), opts, TARGET), 1) for t in (512, 1024)]
    assert 1.5 < times[1] / times[0] < 2.5
    assert cost(folded(kernel, "k"), {}).flops > 2 * 8 * 64 * 1024 * 8


@pytest.mark.parametrize(("keys", "skipped"), [(100, True), (128, True), (129, False), (300, False)])
def test_a_place_that_its_type_does_not_hold_is_no_limit(keys: int, skipped: bool) -> None:
    """int8(200) is -56, which is less than any length."""
    kb = KernelBuilder("narrow")
    j = kb.axis("n@sum", keys)
    x, n = kb.input("x", (keys,), float32), kb.input("n", (1,), int8, range=(0, 100))
    total = kb.block_reduce("add", "total", (), j, where(cast(j, int8) < n[0], x[j], 0.0))
    kb.fold("f", kb.axis("n", keys), (total,), (total,), (0.0,), (kb.lhs(total) + kb.rhs(total),))
    kb.store("y", float32, (1,), (), total[()], indices=(0,))
    kernel = kb.build()
    fold = next(item for item in kernel.body if isinstance(item, Fold))
    (cond,) = skip_conditions(fold)
    assert (threshold(cond, fold.axis) is not None) == skipped
    check_floats(kernel, parse([["TILE", "n", 16]]), TARGET)
