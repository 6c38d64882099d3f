"""Scatters and rows as far as data says: what combines nothing is left out, and a loop of a row that does not count has no iterations."""

from __future__ import annotations

import random

import pytest
from checks import check_compiled, check_twin
from ragged_conditions import CONDITIONS, TYPES, loops
from random_schedules import grow
from tilewright import targets
from tilewright.ir import KernelBuilder, float32, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse

TARGET = targets.named("avx2")
N, L, LONG, BINS = 13, 21, 90, 6
WHERE = {"before": "<", "up to": "<=", "from": ">=", "after": ">"}
"""How the number of a row compares with a place."""


def counted(name: str, combine: str = "add", dtype: str = "int32", own: bool = True) -> Kernel:
    """A histogram of each padded row, or of all of them; and in it, what else counts."""
    kb = KernelBuilder("counted")
    i, k = kb.axis("i", N), kb.axis("k", LONG)
    bin, w = kb.input("bin", (N, LONG), "uint8", range=(0, BINS - 1)), kb.input("w", (N, LONG), float32)
    many, ok = kb.input("many", (N,), dtype)[i], kb.input("ok", (N, LONG), "int32", range=(0, 2))
    holds = CONDITIONS[name](k, i, many, ok[i, k] > 0)
    at = cast(bin[i, k], "int64")
    shape, place = ((N, BINS), (i, at)) if own else ((BINS,), (at,))
    kb.store("y", float32, shape, (i, k), w[i, k] * 0.5, place, combine=combine, mask=holds)
    kb.store("n", "uint32", (N,), (i, k), cast(1, "uint32") << cast(at, "uint32"), (i,), combine="or", mask=holds)
    return kb.build()


def pairs(rows: str, columns: str, dtype: str = "int32") -> Kernel:
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
def test_scatters_combine_what_data_says(name: str, opts: str) -> None:
    for own in (True,) if opts.endswith("Pi") else (True, False):
        for seed, combine in enumerate(("add", "max")):
            check_twin(counted(name, combine, own=own), parse(opts), TARGET, None, seed)


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_of_any_type(dtype: str) -> None:
    for name in ("before", "from"):
        check_twin(counted(name, dtype=dtype), parse("Uk4"), TARGET)
        check_twin(pairs(name, "before", dtype), parse("Un@i8"), TARGET)


@pytest.mark.parametrize("rows", WHERE)
@pytest.mark.parametrize("columns", ["before", "after", "with others"])
def test_pairs_of_which_both_count(rows: str, columns: str) -> None:
    for opts in ("(none)", "Un@i8", "Un@i4 Un@j4", "Rn@j3", "Un@i8 Jn@j"):
        for seed in range(2):
            check_twin(pairs(rows, columns), parse(opts), TARGET, None, seed)


@pytest.mark.many
@pytest.mark.parametrize("name", CONDITIONS)
def test_random_schedules_equal_the_reference(name: str) -> None:
    rng = random.Random(name)
    for n in range(4):
        kernel = counted(name, own=bool(n & 1)) if n < 2 else pairs(name, "before")
        check_twin(kernel, grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(2 * n + 1)]), TARGET, None, n)


@pytest.mark.parametrize("opts", ["(none)", "Uk8", "Uk4"])
def test_compiled_code_agrees(opts: str) -> None:
    check_compiled(counted("before"), parse(opts))
    check_compiled(pairs("before", "before"), parse("Un@i8"))


def test_loops_end_where_data_says() -> None:
    assert loops(lower(apply(counted("before"), parse("Uk8"), TARGET)), "k")
    assert loops(lower(apply(pairs("before", "before"), parse("Un@i8"), TARGET)), "n@j")
