"""Rows gone through whole: what the rows of a column have in common is computed once, and sums begin without a question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from checks import check_compiled, check_twin
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder, cast, float32, int32
from tilewright.ir.functions import exp, sqrt, where
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.opts import apply, parse
from tilewright.program.ops import DIVIDES
from tilewright.program.program import For, If, Instr, statements
from tilewright.targets import named

AVX2, V2, V4 = named("avx2"), named("v2"), named("v4")
DOWN = [["UPCAST", "c", 16], ["MOVE", "n@mean", {"before": "c"}], ["MOVE", "n@square", {"before": "c"}], ["MOVE", "n@out", {"before": "c"}]]


def standardised(n: int, c: int, items: int = 1) -> Kernel:
    """Columns with their mean taken off, over their deviation, of several tables."""
    kb = KernelBuilder("standardised")
    i, j, (a, b, d) = kb.axis("i", items), kb.axis("c", c), (kb.axis(f"n@{s}", n) for s in ("mean", "square", "out"))
    x = kb.input("x", (items, n, c), float32)
    mean = kb.sum("mean", (i, j), a, x[i, a, j] * (1.0 / n))
    square = kb.sum("square", (i, j), b, (x[i, b, j] - mean[i, j]) * (x[i, b, j] - mean[i, j]) * (1.0 / n))
    kb.store("y", float32, (items, n, c), (i, d, j), (x[i, d, j] - mean[i, j]) / sqrt(square[i, j] + 1e-5))
    return kb.build()


def weighted(n: int, c: int) -> Kernel:
    """Rows times the exponential of a weight for each column."""
    kb = KernelBuilder("weighted")
    i, j = kb.axis("n", n), kb.axis("c", c)
    x, w = kb.input("x", (n, c), float32), kb.input("w", (c,), float32)
    kb.store("y", float32, (n, c), (i, j), x[i, j] * exp(w[j]))
    return kb.build()


def placed(n: int, c: int) -> Kernel:
    """Where the largest of each column is, and what it is."""
    kb = KernelBuilder("placed")
    j, a, b = kb.axis("c", c), kb.axis("n@top", n), kb.axis("n@at", n)
    x = kb.input("x", (n, c), float32)
    top = kb.max("top", (j,), a, x[a, j])
    at = kb.min("at", (j,), b, where(x[b, j].eq(top[j]), cast(b, int32), n))
    kb.store("y", int32, (c,), (j,), at[j])
    kb.store("v", float32, (c,), (j,), top[j])
    return kb.build()


def scaled(n: int, c: int) -> Kernel:
    """Columns between 0 and 1."""
    kb = KernelBuilder("scaled")
    j, (a, b, d) = kb.axis("c", c), (kb.axis(f"n@{s}", n) for s in ("a", "b", "d"))
    x = kb.input("x", (n, c), float32)
    low, high = kb.min("low", (j,), a, x[a, j]), kb.max("high", (j,), b, x[b, j])
    kb.store("y", float32, (n, c), (d, j), (x[d, j] - low[j]) / (high[j] - low[j] + 1e-6))
    return kb.build()


def program(kernel: Kernel, listed: Any, target: Any = AVX2) -> Program:
    return lower(apply(kernel, parse(listed), target))


def rows(p: Program, label: str) -> Iterator[For]:
    return (s for s in statements(p.phases[0].body) if isinstance(s, For) and s.label == label)


def hard(loop: For) -> int:
    """Roots, divisions and guesses of them in a loop, but for those of what is not ordinary."""
    rare = {id(x) for s in statements(loop.body) if isinstance(s, If) for x in statements(s.body)}
    found = (s for s in statements(loop.body) if isinstance(s, Instr) and id(s) not in rare)
    return sum(s.op in DIVIDES or s.op in ("root_guess", "scale2", "exp2") for s in found)


@pytest.mark.many
@pytest.mark.parametrize("target", [AVX2, V2, V4], ids=lambda t: t.name)
@pytest.mark.parametrize(("n", "c"), [(40, 64), (33, 52), (9, 160)])
@pytest.mark.covering
def test_a_columns_root_is_computed_once(target: Any, n: int, c: int) -> None:
    kernel = standardised(n, c)
    wide = [*DOWN[1:], ["UPCAST", "c", 16 if c != 160 else 32]]
    found = list(rows(program(kernel, wide, target), "n@out"))
    assert found and all(isinstance(s, Instr) or not hard(s) for f in found for s in f.body.stmts if isinstance(s, For))
    check_twin(kernel, parse(wide), target)
    check_compiled(kernel, parse(wide))


def test_so_are_those_of_each_table() -> None:
    listed = [*DOWN, ["PARALLEL", "i"]]
    kernel = standardised(12, 48, 3)
    assert not any(hard(f) for f in rows(program(kernel, listed), "n@out"))
    check_twin(kernel, parse(listed), AVX2)
    check_compiled(kernel, parse(listed), threads=2)


def test_a_weights_exponential_is_computed_once() -> None:
    kernel, listed = weighted(24, 64), [["UPCAST", "c", 8]]
    p = program(kernel, listed)
    assert p.scratch >= 4 * 64
    (loop,) = rows(p, "n")
    assert not hard(loop)
    check_twin(kernel, parse(listed), AVX2)
    check_compiled(kernel, parse(listed))


@pytest.mark.parametrize("c", [256, 1544, 2048])
def test_so_is_what_a_sum_in_several_chains_reads(c: int) -> None:
    """A long sum is cut into blocks, the last one shorter: the loop before the rows goes through all of them."""
    kb = KernelBuilder("summed")
    i, j = kb.axis("n", 24), kb.axis("c", c)
    x, w = kb.input("x", (24, c), float32), kb.input("w", (c,), float32)
    kb.store("y", float32, (24,), (i,), kb.sum("s", (i,), j, x[i, j] * exp(w[j]))[i])
    kernel, listed = kb.build(), [["UPCAST", "c", 8]]
    p = program(kernel, listed)
    assert p.scratch == 4 * c and not any(hard(f) for f in rows(p, "n"))
    check_twin(kernel, parse(listed), AVX2)
    check_compiled(kernel, parse(listed))


def test_few_rows_and_little_work_stay_where_they_are() -> None:
    assert any(hard(f) for f in rows(program(standardised(4, 64), DOWN), "n@out"))
    kb = KernelBuilder("shifted")
    i, j = kb.axis("n", 24), kb.axis("c", 64)
    x, w, v = kb.input("x", (24, 64), float32), kb.input("w", (64,), float32), kb.input("v", (64,), float32)
    kb.store("y", float32, (24, 64), (i, j), x[i, j] * (w[j] + v[j]))
    assert program(kb.build(), [["UPCAST", "c", 8]]).scratch == 0


@pytest.mark.parametrize("kernel", [placed(40, 48), scaled(40, 48), standardised(40, 48)], ids=lambda k: k.name)
def test_sums_of_many_blocks_are_cleared_before_the_first(kernel: Kernel) -> None:
    """So that no block asks whether it is the first."""
    moves = [["MOVE", a.arg.name, {"before": "c"}] for v in kernel.values.values() for a in v.reduce_axes]
    fused = [["UPCAST", "c", 8], *moves, ["FUSE", "n"]]
    for listed in ([["UPCAST", "c", 16], *moves], moves if kernel.name == "standardised" else fused):
        loads = [s for s in statements(program(kernel, listed).phases[0].body) if isinstance(s, Instr) and s.op == "load"]
        assert not any(s.mem.space == "scratch" and len(s.args) > 1 for s in loads)
        check_twin(kernel, parse(listed), AVX2)
        check_compiled(kernel, parse(listed))


def test_start_schedules_go_through_large_tables_row_by_row() -> None:
    """Sums that wait for memory in order; extremes and their places several rows at a time, and both extremes at once."""
    first = starts(standardised(4096, 1024), AVX2)[0]
    assert any(o.op == "MOVE" for o in first) and not any(o.op == "UNROLL" for o in first)
    within = starts(standardised(400, 304, 16), AVX2)[0]  # (each of many tables fits the second cache)
    assert {"MOVE", "UNROLL"} <= {o.op for o in within}
    assert {"MOVE", "FUSE", "UNROLL"} <= {o.op for o in starts(scaled(4096, 304), AVX2)[0]}
    assert {"MOVE", "FUSE", "UNROLL"} <= {o.op for o in starts(placed(2048, 1000), AVX2)[0]}
