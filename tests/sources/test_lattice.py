"""A space holds what trying all combinations would find, and no more."""

from __future__ import annotations

import itertools
import re
from random import Random

import pytest
from tilewright.ir.errors import UsageError
from tilewright.search.expressions import parse as expression
from tilewright.sources.parameters import Lattice, listed, parameter, parse

PARAMETERS = [parse("x=1..12"), parse("y=1..32:*2"), parse("z=0..8:4"), parse("mode=a,b"), parse("free=1..50"), parse("lambda_=1..3")]
NAMES = {p.name: p.is_text for p in PARAMETERS} | {"n": False}
RULES = ("x % y == 0 and y * z < n", "mode == 'a' or x > 6", "lambda_ in (1, 3)")


def made(*rules: str, n: int = 30) -> Lattice:
    return Lattice(PARAMETERS, [expression(r, NAMES) for r in rules], {"n": n})


def test_every_legal_combination_is_there_once() -> None:
    lattice = made(*RULES)
    rules = [expression(r, NAMES) for r in RULES]
    whole = itertools.product(*(range(len(p.values)) for p in PARAMETERS))
    names = [p.name for p in PARAMETERS]
    legal = {at for at in whole if all(r(dict(zip(names, (p.values[i] for p, i in zip(PARAMETERS, at)))) | {"n": 30}) for r in rules)}
    found = list(lattice)
    assert len(found) == len(set(found)) == lattice.size == len(legal) and set(found) == legal
    assert lattice.whole == 12 * 6 * 3 * 2 * 50 * 3 and len(lattice.factors) == 3
    rng = Random(0)
    drawn = [lattice.draw(rng) for _ in range(400)]
    assert set(drawn) <= legal and len({at[4] for at in drawn}) > 40  # 50 values, and each comes
    assert all((at in lattice) == (at in legal) for at in itertools.product(range(12), range(6), (0,), (0, 1), (0,), (0, 1)))
    assert lattice.nearest((0, 0, 0, 0, 7, 0)) == (0, 0, 0, 0, 7, 0)
    assert lattice.nearest((0, 0, 0, 1, 7, 1))[4:] in ((7, 0), (7, 2)) and lattice.nearest((0, 0, 0, 1, 7, 1)) in legal


def test_a_space_of_billions_is_never_written_down() -> None:
    wide = [parse(f"p{i}=1..40") for i in range(12)]
    names = dict.fromkeys((p.name for p in wide), False)
    lattice = Lattice(wide, [expression("p0 * p1 <= 64 and p0 % 2 == 0", names), expression("p2 + p3 == 41", names)], {})
    assert lattice.whole == 40**12 and lattice.size == len(list(lattice.factors[0].rows)) * 40 * 40**8
    assert lattice.draw(Random(1)) in lattice and (0,) * 12 not in lattice


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (("x > 100",), "the restriction 'x > 100' excludes every configuration (x is one of 1, 2, 3, 4, 5, 6, ... 12)"),
        (("x > 6", "x < 6 and y > 1"), "the restrictions together exclude every configuration: 'x > 6' and 'x < 6' and 'y > 1'"),
        (("n == 5",), "'n == 5' excludes every configuration: it names no parameter"),
        (("x // (y - y) > 1",), "a restriction has no value for some combination"),
    ],
)
def test_a_space_without_points_says_why(rules: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        made(*rules)


def test_values_are_written_in_several_ways() -> None:
    assert parse("T=8,16,2..4,0.5,x").values == (8, 16, 2, 3, 4, 0.5, "x")
    assert (
        parse("T=1..64:*4").values == (1, 4, 16, 64)
        and parse("T=0..9:3").values == (0, 3, 6, 9)
        and parse("T=-2..1").values == (-2, -1, 0, 1)
    )
    assert parse("F=,-O3 -ffast-math", flag=True).texts == ("", "-O3 -ffast-math")
    assert parameter("B", [True, False]).texts == ("1", "0") and parameter("S", [1.5, "half"]).is_text
    assert listed("[2**i for i in range(5) if i != 2]", "T1") == [1, 2, 8, 16] and listed("list(range(1, 9, 4))", "T1") == [1, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("T", "write NAME=VALUE,VALUE"),
        ("T=", "a value is missing"),
        ("T=4,4", "has the value 4 twice"),
        ("T=9..1", "is empty"),
        ("T=0..8:*2", "never ends"),
        ("T=1..100000", "at most 4096"),
        ("2T=1", "a parameter's name is a word"),
        ("T=1\n2", "more than one line"),
    ],
)
def test_values_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse(text)


@pytest.mark.parametrize(
    "text", ["__import__('os').listdir()", "[open('x')]", "range(10**9)", "{1, 2}", "[i for i in range(3) for j in range(3)]"]
)
def test_a_list_of_another_tool_is_not_run(text: str) -> None:
    with pytest.raises(UsageError, match="T1"):
        listed(text, "T1")
