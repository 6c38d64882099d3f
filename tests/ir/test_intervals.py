"""Intervals hold what operators give, of every pair of numbers in the operands' intervals."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright.ir.index import INTERVALS

EXACT: dict[str, Callable[..., int]] = {
    **{op: getattr(operator, op) for op in ("add", "sub", "mul", "neg", "abs", "xor")},
    "and": operator.and_,
    "or": operator.or_,
    "max": max,
    "min": min,
    "where": lambda a, b: a,
    "floordiv": lambda a, b: a // b if b else 0,
    "remainder": lambda a, b: a % b if b else 0,
    "shl": lambda a, k: a << k if k >= 0 else 0,
    "shr": lambda a, k: a >> k if 0 <= k < 64 else -int(a < 0),
}
"""Each operator in whole numbers, as `ir.operators` has it."""
NUMBERS = st.one_of(st.integers(-8, 8), st.integers(-70, 70), st.integers(-(1 << 40), 1 << 40))


def test_every_rule_is_compared() -> None:
    assert set(EXACT) == set(INTERVALS)


@pytest.mark.parametrize("op", sorted(INTERVALS))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_results_are_inside(op: str, data: st.DataObject) -> None:
    count = 1 if op in ("neg", "abs") else 2
    near = st.integers(-3, 70) if op in ("shl", "shr") else NUMBERS
    ends = [tuple(sorted(data.draw(st.tuples(kind, kind)))) for kind in (NUMBERS, near)[:count]]
    found = INTERVALS[op](*ends)
    if found is not None:
        result = EXACT[op](*(data.draw(st.integers(*e)) for e in ends))
        assert found[0] <= result <= found[1]


def test_what_is_known_of_constants_is_exact() -> None:
    assert INTERVALS["remainder"]((9, 10), (8, 8)) == (1, 2)
    assert INTERVALS["floordiv"]((-9, 10), (4, 4)) == (-3, 2)
    assert INTERVALS["shr"]((-9, 40), (2, 3)) == (-3, 10)
    assert INTERVALS["and"]((-5, 90), (0, 7)) == (0, 7)
    assert INTERVALS["floordiv"]((-5, 90), (0, 7)) is None


def test_infinite_floats_have_no_product_with_zero() -> None:
    found = INTERVALS["mul"]((0.0, 1.0), (-math.inf, math.inf))
    assert found is not None and all(math.isnan(e) for e in found)
