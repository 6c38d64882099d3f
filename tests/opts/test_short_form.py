"""The short form of options: whatever is written is read back, and what cannot be read says why."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tilewright.ir.errors import OptError
from tilewright.opts import Opt, parse, short
from tilewright.opts.registry import OPTIONS
from tilewright.opts.syntax import Syntax

NAMES = st.one_of(
    st.sampled_from(["m", "n@out", "k.t2", "a0", "H", "out", "Hout", "kx3", "acc.f1", "b1", "C", "x", "m/n", "b@n", "n:", "8"]),
    st.text(alphabet='mKx1@./+^:<|!, ()é"\\', min_size=1, max_size=6).filter(lambda t: t == t.strip()),
)


def written(syntax: Syntax) -> st.SearchStrategy[Opt]:
    """Any option of a form."""
    on = st.just("grid") if syntax.on == "grid" else NAMES
    if syntax.arg is None or syntax.arg is int:
        return st.builds(Opt, st.just(syntax.name), on, st.none() if syntax.arg is None else st.integers(1, 10**6))
    assert not isinstance(syntax.arg, type)
    kinds = {int: st.integers(0, 300), str: NAMES}
    words = {
        "rule": st.sampled_from(["factor", "hoist"]),
        "policy": st.sampled_from(["stream", "prefetch"]),
        "order": st.sampled_from(["panel", "row"]),
        "row": st.sampled_from(["vpdpbusd", "mma.m16n8k16.bf16"]),
    }
    fields = {f: st.integers(1, 300) if f == syntax.amount else words.get(f, kinds[of]) for f, of in syntax.arg.items()}
    chosen = st.fixed_dictionaries(
        {f: s for f, s in fields.items() if f not in syntax.defaults},
        optional={f: s for f, s in fields.items() if f in syntax.defaults},
    )
    return st.builds(lambda on, f: Opt(syntax.name, on, tuple(f.items())), on, chosen)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of([written(s) for s in OPTIONS.values()]), max_size=5))
@example([Opt("PARALLEL", '"\\1"', None)])  # a name that itself looks like one in quotes, and is none
def test_what_is_written_is_read_back(opts: list[Opt]) -> None:
    assert parse(short(opts)) == tuple(opts)


@pytest.mark.parametrize("name", list(OPTIONS))
def test_every_option_is_written_plainly_and_read_as_messages_write_it(name: str) -> None:
    syntax = OPTIONS[name]
    arg: object = None if syntax.arg is None else 8
    if isinstance(syntax.arg, dict):
        arg = {f: 3 if of is int else "k" for f, of in syntax.arg.items()}
    (o,) = parse([[name, "grid" if syntax.on == "grid" else "m", arg]])
    assert '"' not in short([o]) and parse(short([o])) == (o,)
    assert parse(f"Um4, {o}  Pn") == (*parse("Um4"), o, *parse("Pn"))


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("Um6 Un64 Tn256 Pn Rk2 Tk512 Mk<m Sb@k Tn128", None),
        ("Um6,Un64", "Um6 Un64"),
        ("Sa@k/row+8^4x3 PHv! PHv Ky4 Ky4x2 Hy8! Z8 GRID/threads=1", None),
        ("Un1:64 Tk.t2:8", None),
        ('P"Hout" PHout S"b"@"nx3"', None),
        ("UPCAST(m, 8) stage(b, at=n, order=row)", "Um8 Sb@n/row"),
        ("(none)", None),
        (" none ", "(none)"),
    ],
)
def test_forms(text: str, again: str | None) -> None:
    assert short(parse(text)) == (again or text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Um8 um6", "option 2: cannot read 'um6'; an option is its letter, a name and an amount, such as Um8 (T TILE"),
        ("Um", "option 1: cannot read 'Um'; UPCAST is written Uaxis8"),
        ("Sb", "STAGE is written Stensor@at[/order][+pad][^swizzle][xdepth]"),
        ("Um0", "UPCAST(m): the amount must be a positive int, not 0"),
        ("", "there are no options in ''; (none) is the schedule without any"),
        ('Um8 P"x', "option 2: a quote or bracket is left open in 'P\"x'"),
        ("UPCAST(m", "option 1: a quote or bracket is left open"),
        ("UPCAST(m, x)", "cannot read 'UPCAST(m, x)'"),
        ("Um" + "9" * 5000, "9999999999... has 5000 digits; give a number of elements"),
        ('[["TILE"', "options are not JSON"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(OptError, match=re.escape(message)):
        parse(text)
