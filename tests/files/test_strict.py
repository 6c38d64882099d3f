"""The codec takes what it wrote, refuses the rest, and says where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilewright.files.strict import MAX_DEPTH, Codec, Count, Misread, Positive, Sha256, TextForm, Within, canon, depth, parse, plain, read


class Colour(StrEnum):
    red = "r"
    blue = "b"


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Inner:
    size: Count
    rate: Positive = 1.0


@dataclass(frozen=True)
class Outer:
    name: Annotated[str, TextForm(8, 1)]
    inner: Inner
    more: tuple[Inner, ...] = ()
    by_threads: Mapping[Count, float] = field(default_factory=dict)
    colour: Colour = Colour.red
    mode: Literal["fast", "slow", 3] = "fast"
    pair: tuple[int, str] | None = None
    point: Point | None = None
    flags: frozenset[str] = frozenset()
    either: int | list[int] = 0
    share: Annotated[float, Within(0, 1)] = 0.5
    yes: bool = False
    sha: Sha256 | None = None
    rest: Any = None


WHOLE = Outer(
    "a", Inner(3, 2.5), (Inner(1), Inner(2)), {1: 2.0, 8: 9.0}, Colour.blue, 3, (1, "x"), Point(4, 0.5), frozenset("ba"), [1, 2], 0.25, True,
    "a" * 64, {"k": [None]},
)  # fmt: skip


def test_what_is_written_is_read() -> None:
    data = json.loads(canon(plain(WHOLE)))
    assert read(Outer, data) == WHOLE and data["by_threads"] == {"1": 2.0, "8": 9.0} and data["flags"] == ["a", "b"]
    assert read(Outer, {"name": "a", "inner": {"size": 3}}) == Outer("a", Inner(3))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"name": ""}, "name: must not be empty"),
        ({"name": "a" * 9}, "name: must be text of at most 8 characters"),
        ({"name": 3}, "name: must be text, not 3"),
        ({"inner": {"size": 0}}, "inner.size: must be at least 1, not 0"),
        ({"inner": {"size": True}}, "inner.size: must be a whole number, not True"),
        ({"inner": {"size": 2**63}}, "inner.size: must be a whole number of 64 bits"),
        ({"inner": {"size": 1, "rate": float("nan")}}, "inner.rate: must be a finite number"),
        ({"inner": {"size": 1, "rate": 0}}, "inner.rate: must be more than 0, not 0.0"),
        ({"inner": {"size": 1, "rats": 2}}, "inner.rats: unknown key 'rats'; did you mean rate? (keys: size, rate)"),
        ({"inner": [1]}, "inner: must be an object, not [1]"),
        ({"more": [{"size": 1}, {}]}, "more[1]: the key 'size' is missing"),
        ({"by_threads": {"0": 1.0}}, "by_threads.0: must be at least 1, not 0"),
        ({"by_threads": {"01": 1.0}}, "by_threads.01: must be a whole number, not '01'"),
        ({"colour": "green"}, "colour: must be one of r, b, not 'green'"),
        ({"mode": True}, "mode: must be one of fast, slow, 3, not True"),
        ({"pair": [1]}, "pair: must be a list of 2, not of 1"),
        ({"pair": [1, 2]}, "pair[1]: must be text, not 2"),
        ({"point": {"x": 1}}, "point: must be a list, not {'x': 1}"),
        ({"flags": "ab"}, "flags: must be a list, not 'ab'"),
        ({"either": "1"}, "either: must be a whole number, not '1' or must be a list, not '1'"),
        ({"share": 1.5}, "share: must be at least 0 and at most 1, not 1.5"),
        ({"yes": 1}, "yes: must be true or false, not 1"),
        ({"sha": "A" * 64}, f"sha: {'A' * 64!r} does not have the form [0-9a-f]{{64}}"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Misread) as e:
        read(Outer, plain(WHOLE) | change)
    assert str(e.value) == message


def test_unknown_keys_may_be_ignored_and_defaults_asked_for() -> None:
    assert read(Inner, {"size": 1, "new": 2}, unknown="ignore") == Inner(1)
    with pytest.raises(Misread, match="'rate' is missing"):
        read(Inner, {"size": 1}, whole=True)
    assert read(Inner, {"rate": 2}, size=7) == Inner(7, 2.0)


def test_a_class_may_have_a_form_of_its_own() -> None:
    @dataclass
    class Holder:
        value: Any

    codec = Codec({complex: (lambda c: [c.real, c.imag], lambda d: complex(*d))})
    assert codec.plain(Holder(1 + 2j)) == {"value": [1.0, 2.0]} and codec.read(complex, [1.0, 2.0]) == 1 + 2j
    with pytest.raises(Misread, match="is not readable"):
        codec.read(complex, ["x", 1])
    with pytest.raises(TypeError, match="no plain form"):
        plain(Holder(1j))


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"a":1,"a":2}', "x: a key appears twice in one object"),
        ("[NaN]", "x: NaN is not allowed"),
        ("[1e999]", "x: a number is too large"),
        ("[9223372036854775808]", "x: an integer does not fit in 64 bits"),
        ("[" * 40, "x: nested too deeply"),
        ("\ufeff1", "x: begins with a byte order mark"),
        ('["\\ud800"]', "x: not valid JSON"),
        ("[", "x: not valid JSON"),
    ],
)
def test_json_is_read_strictly(text: str, message: str) -> None:
    with pytest.raises(Misread) as e:
        parse(text, "x")
    assert str(e.value).startswith(message)


def test_nesting_is_counted_outside_of_strings() -> None:
    assert depth('{"a": "[[[[\\"[[[", "b": [1, {"c": []}]}') == 4
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, "x")
    with pytest.raises(Misread, match="nested too deeply"):
        parse("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["size", "rate", "x"]), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(list(plain(WHOLE))), JSON)
def test_any_data_is_read_or_refused(key: str, value: Any) -> None:
    """Nothing but Misread, and what is read is written as something that reads the same."""
    try:
        found = read(Outer, plain(WHOLE) | {key: value})
    except Misread as e:
        assert e.path == () or e.path[0] == key
        return
    assert plain(read(Outer, plain(found))) == plain(found) or key == "rest"
