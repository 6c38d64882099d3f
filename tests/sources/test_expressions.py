"""Expressions do what they say, and nothing else can be said."""

from __future__ import annotations

import pickle
import re

import pytest
from tilewright.ir.dtypes import dtype
from tilewright.ir.errors import UsageError
from tilewright.search.expressions import conjuncts, parse
from tilewright.sources.parameters import listed
from tilewright.sources.parameters import parse as parameter_of
from tilewright.sources.reading import _listed, _words, argument
from tilewright.sources.source_spec import SourceArgument, scalar

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


def test_no_short_expression_takes_long_or_ends_in_another_error() -> None:
    with pytest.raises(UsageError, match="rounding to that many digits"):
        parse("round(a, -10 ** 9)", KNOWN)({"a": 1})
    assert parse("round(a / 7, 2) - round(b / 3)", KNOWN)({"a": 8, "b": 1}) == 1.14
    for text in ("1e999", "1e999 - 1e999", "*".join(["2 ** 255"] * 200)):
        with pytest.raises(UsageError, match="must be a whole number"):
            parse(text).whole({}, "launch: grid")
    with pytest.raises(UsageError, match="which is no text"):
        parse(5)  # type: ignore[arg-type]


def test_lists_and_ranges_that_are_none() -> None:
    for text in ("[(1, 2), (3, 4)]", "[(0 - 8) ** 0.5]"):
        with pytest.raises(UsageError, match="no number, text or truth value"):
            listed(text, "the parameter a")
    with pytest.raises(UsageError, match="no list that is understood"):
        listed(f"[{'1, ' * 5000}]", "the parameter a")
    assert parameter_of("A=1.." + "9" * 5000).is_text


def test_flags_and_restrictions_as_people_write_them() -> None:
    with pytest.raises(UsageError, match="no words as a shell has them: No closing quotation"):
        parameter_of("F=-O2,-DX='", flag=True)
    with pytest.raises(UsageError, match="no words as a shell has them: No closing quotation"):
        _words("-O2 '-g")
    assert _listed("a < b") == ["a < b"]
    with pytest.raises(UsageError, match="text or a list of texts"):
        _listed(5)


def test_numbers_that_no_array_or_argument_can_have() -> None:
    with pytest.raises(UsageError, match="int32 holds whole numbers only"):
        scalar(SourceArgument("n", dtype("int32"), value=parse("1e999")), {})
    for key, of in (("high", "float32"), ("fill", "int32")):
        with pytest.raises(UsageError, match=f"{key} is inf; it must be finite"):
            argument({"name": "x", "dtype": of, "shape": ["4"], key: float("inf")}, {}, {}, 0)
    assert argument({"name": "x", "dtype": "float32", "shape": ["4"], "fill": float("inf")}, {}, {}, 0).fill == float("inf")
