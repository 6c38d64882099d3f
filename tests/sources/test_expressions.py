"""Expressions do what they say, and nothing else can be said."""

from __future__ import annotations

import pickle
import re

import pytest
from tilewright.ir.errors import UsageError
from tilewright.sources.expressions import conjuncts, parse

KNOWN = {"a": False, "b": False, "layout": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a % b == 0 and a / b <= 4", True),
        ("a > 3 && b > 3 || a == 8", True),
        ("ceil(a / 3)", 3),
        ("math.ceil(a / 3)", 3),
        ("-(-a // 3)", 3),
        ("ceil_div(10**18 + 1, 3)", 333333333333333334),
        ("min(a, b, 3) + max(3, b)", 5),
        ("2 ** b if not a == 1 else 0", 4),
        ("1 << b", 4),
        ("layout == 'rows' and a in (4, 8)", True),
    ],
)
def test_a_value(text: str, value: object) -> None:
    e = parse(text, KNOWN)
    assert e({"a": 8, "b": 2, "layout": "rows"}) == value
    again = pickle.loads(pickle.dumps(e))
    assert again({"a": 8, "b": 2, "layout": "rows"}) == value and again.names == e.names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os').system('x')", "calling __import__"),
        ("(lambda: 1)()", "calling lambda"),
        ("a.real", "attribute is not allowed"),
        ("[x for x in (1, 2)]", "listcomp is not allowed"),
        ("a[0]", "subscript is not allowed"),
        ("f'{a}'", "joinedstr is not allowed"),
        ("(b := 3)", "namedexpr is not allowed"),
        ("'x' * 1000000000", "computing with text"),
        ("layout * 1000000000", "computing with text"),
        ("(layout or a) * 1000000000", "computing with text"),
        ("int(layout)", "making a number of text"),
        ("a in b", "`in` without a list"),
        ("max(*(1, 2))", "keywords or \\*"),
        ("__builtins__", "not allowed"),
        ("_power(2, 3)", "calling _power"),
        ("c + 1", "no parameter or size 'c'"),
        ("layuot == 'rows'", "did you mean layout"),
        ("!a", "write `not x`"),
        ("a +", "is not an expression"),
        ("", "is empty"),
        ("(" * 500 + "a" + ")" * 500, "cannot be read|is not an expression"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(text, KNOWN)


@pytest.mark.parametrize("text", ["9 ** 9 ** 9", "1 << 10 ** 9", "a // 0", "a % (b - 2)", "a ** -1000 + 2 ** 1000"])
def test_a_value_that_there_is_not_is_an_error_with_its_names(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape("has no value") + "(.*a=8)?"):
        parse(text, KNOWN)({"a": 8, "b": 2})


def test_what_must_be_a_whole_number_is_one() -> None:
    assert parse("a / 2").whole({"a": 8}, "grid") == 4
    with pytest.raises(UsageError, match=r"grid 'a / 3' is 2.66.* where a=8; it must be a whole number of at least 0"):
        parse("a / 3").whole({"a": 8}, "grid")
    with pytest.raises(UsageError, match="at least 1"):
        parse("a - 8").whole({"a": 8}, "grid", 1)


def test_what_and_joins_is_asked_apart() -> None:
    assert [(c.text, c.names) for c in conjuncts(parse("a > 1 and (b > 2 and a < b) and (a or b)"))] == [
        ("a > 1", ("a",)), ("b > 2", ("b",)), ("a < b", ("a", "b")), ("a or b", ("a", "b")),
    ]  # fmt: skip
