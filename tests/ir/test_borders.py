"""Choices by a place that are remainders or extremes: the same numbers, and written as what they are."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilewright.ir import KernelBuilder, cast, float32, int64, where
from tilewright.ir import index as ix
from tilewright.ir.dtypes import index
from tilewright.ir.evaluation import evaluate
from tilewright.ir.node import Node, axis, const

N = 10
WRITTEN: list[tuple[Callable[[Node], Any], Callable[[Node], Node]]] = [
    (lambda i: where(i.eq(0), N - 1, i - 1), lambda i: ix.mod(i + (N - 1), N)),
    (lambda i: where(i > 0, i - 1, N - 1), lambda i: ix.mod(i + (N - 1), N)),
    (lambda i: where(i.ne(0), i - 1, N - 1), lambda i: ix.mod(i + (N - 1), N)),
    (lambda i: where(i - 1 < 0, i - 1 + N, i - 1), lambda i: ix.mod(i + (N - 1), N)),
    (lambda i: where((i + 1).eq(N), 0, i + 1), lambda i: ix.mod(i + 1, N)),
    (lambda i: where(i < 3, i + 7, i - 3), lambda i: ix.mod(i + 7, N)),
    (lambda i: where(i.eq(0), 0, i - 1), lambda i: ix.minmax("max", i - 1, const(0))),
    (lambda i: where(i.eq(0), 1, i - 1), lambda i: ix.minmax("max", i - 1, 1 - i)),
    (lambda i: where(i.eq(N - 1), N - 2, i + 1), lambda i: ix.minmax("min", i + 1, 2 * N - 3 - i)),
]


@pytest.mark.parametrize("case", range(len(WRITTEN)))
def test_borders_are_written_one_way(case: int) -> None:
    as_choice, as_border = WRITTEN[case]
    i = axis("i", N)
    assert as_choice(i) is as_border(i)


@pytest.mark.parametrize("make", [lambda i: where(i.eq(3), N - 1, i - 1), lambda i: where(i.eq(0), 5, i - 1)])
def test_other_choices_stay(make: Callable[[Node], Node]) -> None:
    assert make(axis("i", N)).op == "where"


COMPARED = {"lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne}
LINES = st.tuples(st.sampled_from([0, 1, -1]), st.integers(-11, 11))


@given(st.integers(2, 9), st.sampled_from(sorted(COMPARED)), st.tuples(LINES, LINES, LINES, LINES))
def test_a_choice_is_the_same_at_every_place(extent: int, op: str, lines: Any) -> None:
    i = axis("i", extent)
    left, right, a, b = (ix.add(ix.mul(i, const(slope)), const(c)) for slope, c in lines)
    cond = ix.compare(op, left, right)
    chosen = where(cond, a, b)
    if chosen.op == "where" or cond.op == "const":
        return
    for place in range(extent):
        at = {i: place}
        holds = COMPARED[op](ix.evaluate(left, at), ix.evaluate(right, at))
        assert ix.evaluate(chosen, at) == ix.evaluate(a if holds else b, at)


def test_wraps_of_wraps_are_one() -> None:
    i = axis("i", N)
    assert ix.mod(ix.mod(i + 1, N) + (N - 1), N) is i
    assert ix.mod(ix.mul(ix.mod(i + 1, 2 * N), const(3)) + 4, N) is ix.mod(ix.mul(i, const(3)) + 7, N)


def test_wraps_of_what_may_be_any_number_stay() -> None:
    """The largest number of 64 bits, wrapped and one more: the sum without the first wrap would not fit."""
    kb = KernelBuilder("wrapped")
    i = kb.axis("i", 4)
    p, x = kb.input("p", (4,), int64), kb.input("x", (7,), float32)
    kb.store("y", float32, (4,), (i,), x[(cast(p[i], index) % 7 + 1) % 7])
    places = np.array([2**63 - 1, -(2**63), 5, 6])
    got = evaluate(kb.build(), {"p": places, "x": np.arange(7, dtype=np.float32)}, {})["y"]
    assert got.tolist() == [(int(v) % 7 + 1) % 7 for v in places]
