"""An option is one declaration: one that a test makes up is known everywhere, and forgotten again, without another file being touched."""

from __future__ import annotations

import ast
import io
import re
import runpy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tilewright import named_kernels, targets
from tilewright.cli.terminal.style import KINDS, legend, opts_text
from tilewright.ir.errors import OptError
from tilewright.ir.normal_form import canonical, normalise
from tilewright.lower import lower
from tilewright.opts import Opt, Opts, Scheduled, actions, apply, dumps, opt, parse, short
from tilewright.opts.builder import ScheduleBuilder
from tilewright.opts.neighbourhood import Neighbourhood
from tilewright.opts.options import OWN, TILE
from tilewright.opts.registry import OPTIONS, Doc, Option, Rewriting, register, registered
from tilewright.opts.syntax import SYNTAX
from tilewright.program.listing import show
from tilewright.search.space import OptEngine, Space, mutate, places, variants

ROOT = Path(__file__).resolve().parents[2]
tables = runpy.run_path(str(ROOT / "scripts" / "option_tables.py"))
TABLES, filled, table = tables["TABLES"], tables["filled"], tables["table"]
TARGET = targets.named("znver5")
KERNEL = normalise(named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64}))


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Copies of an axis, an even number of them, and a note of where they are wanted."""
    count = int(o.fields["count"])
    if count % 2:
        raise OptError(f"{o}: an odd number of copies; take {count + 1}")
    for a in b.find(o.on, o):
        b.plans[a] = b.plans[a].with_registers("upcast", count)
    b.mark(o)


def check(s: Scheduled) -> None:
    """The loop that the note names must be there."""
    loops = {p.name for n in s.nests for p in s.loops(n)}
    for on, arg in s.marked("PAIR").items():
        at = dict(arg or ())["at"]  # type: ignore[call-overload]
        if at not in loops:
            raise OptError(f"PAIR({on}): there is no loop {at!r} (loops: {', '.join(sorted(loops))})")


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """For each axis without copies; 3 is refused."""
    for name, (a, *_) in near.axes.items():
        if near.schedule.plans[a].upcast == 1:
            yield from ((opt("PAIR", name, count=n, at="k"),) for n in (2, 3))


PAIR = Option(
    name="PAIR",
    letter="Y",
    on="axis",
    arg={"count": int, "at": str, "how": str},
    defaults={"how": "near"},
    short=(("*", "count"), ("@", "at"), ("/", "how")),
    loop_fields=("at",),
    choices={"how": ("near", "far")},
    kind="unroll",
    legend="in pairs",
    docs=(Doc("PAIR(axis, count, at)", "pairs | of copies"), Doc("PAIR(axis)", "by threads", groups=True)),
    act=act,
    check=check,
    propose=propose,
)


@pytest.fixture
def pair() -> Iterator[Option]:
    with registered(PAIR) as option:
        yield option


def test_an_unknown_option_is_refused_and_known_only_while_registered() -> None:
    with pytest.raises(OptError, match="unknown option 'PAIR'"):
        Opt("PAIR", "m")
    with registered(PAIR):
        assert parse('[["PAIR", "m", {"count": 2, "at": "k"}]]') == (opt("PAIR", "m", count=2, at="k"),)
        with pytest.raises(OptError, match="did you mean PAIR"):
            Opt("PAIRS", "m")
    with pytest.raises(OptError, match="unknown option 'PAIR'"):
        Opt("PAIR", "m")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[["PAIR", "m", 2]]', "the argument must be an object with the fields count, at, how"),
        ('[["PAIR", "m", {"count": 2}]]', "missing field at"),
        ('[["PAIR", "m", {"count": "2", "at": "k"}]]', "field count must be int"),
        ('[["PAIR", "m", {"count": 2, "at": "k", "where": 1}]]', "unknown field 'where'"),
    ],
)
def test_its_argument_is_strict(pair: Option, text: str, message: str) -> None:
    with pytest.raises(OptError, match=re.escape(message)):
        parse(text)


def test_it_is_written_short_and_as_json(pair: Option) -> None:
    opts = (opt("PAIR", "m", count=2, at="k", how="near"), opt("PAIR", "n", count=4, at="k", how="far"))
    assert short(opts) == "Ym*2@k Yn*4@k/far" and parse(short(opts)) == opts
    assert dumps(opts) == '[["PAIR","m",{"at":"k","count":2}],["PAIR","n",{"at":"k","count":4,"how":"far"}]]' and parse(dumps(opts)) == opts


def test_it_acts_and_lowers(pair: Option) -> None:
    s = apply(KERNEL, [["PAIR", "m", {"count": 4, "at": "k"}]], TARGET)
    plain = apply(KERNEL, [["UPCAST", "m", 4]], TARGET)
    assert show(lower(s)) == show(lower(plain))
    assert s.hash != plain.hash and dict(s.marked("PAIR")) == {"m": (("at", "k"), ("count", 4))}
    assert s.hash != apply(KERNEL, [["PAIR", "m", {"count": 4, "at": "n"}]], TARGET).hash, "a note is part of what a schedule is"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"count": 3, "at": "k"}, "an odd number of copies; take 4"),
        ({"count": 2, "at": "q"}, "there is no loop 'q' (loops: k, m, n)"),
        ({"count": 200, "at": "k"}, "extra work"),
    ],
)
def test_it_is_refused_where_it_is_illegal(pair: Option, fields: dict[str, int | str], message: str) -> None:
    with pytest.raises(OptError, match=re.escape(message)):
        apply(KERNEL, (opt("PAIR", "m", **fields),), TARGET)


def test_searches_propose_it_and_move_it(pair: Option) -> None:
    start = apply(KERNEL, (), TARGET)
    legal = {short(more) for more in actions(start) if more[0].op == "PAIR"}
    assert legal == {"Ym*2@k", "Yn*2@k", "Yk*2@k"}, "3 is proposed, and refused"
    space = Space(OptEngine(KERNEL, TARGET, 2))
    state = space.state(())
    assert state is not None and any(a[0].op == "PAIR" for a in space.actions(state))
    (o,) = parse('[["PAIR", "m", {"count": 2, "at": "k"}]]')
    assert places((o,)) == ["m", "k"]
    assert {v.fields["how"] for v in variants(o, ("k", "n"))} == {"near", "far"} and {v.fields["at"] for v in variants(o, ("k", "n"))} == {
        "k",
        "n",
    }
    found, near = space.state((o,)), set()
    assert found is not None
    for seed in range(40):
        moved = mutate(space, found, Random(seed))
        near |= {x.fields["how"] for x in moved.opts if x.op == "PAIR"} if moved is not None else set()
    assert near == {"near", "far"}


def test_its_names_are_translated_to_canonical_ones(pair: Option) -> None:
    names = canonical(KERNEL)
    there = names.to_canonical([["PAIR", "m", {"count": 2, "at": "k", "how": "far"}]], SYNTAX)
    assert there == [["PAIR", names.axes["m"], {"count": 2, "at": names.loops["k"], "how": "far"}]]
    assert names.from_canonical(there, SYNTAX) == [["PAIR", "m", {"count": 2, "at": "k", "how": "far"}]]


def test_the_command_line_colours_and_explains_it(pair: Option) -> None:
    text = opts_text((opt("PAIR", "m", count=2, at="k"),))
    assert str(text) == "Ym*2@k" and [str(s.style) for s in text.spans] == [KINDS["unroll"]]
    assert "Y in pairs" in legend()


def test_the_tables_hold_it(pair: Option) -> None:
    assert "| [`PAIR(axis, count, at)`](options/pair.md) | pairs \\| of copies |" in table(groups=False)
    assert "| [`PAIR(axis)`](options/pair.md) | by threads |" in table(groups=True) and "PAIR" not in table(groups=True).replace(
        "PAIR(axis)", ""
    )


def test_an_option_that_rewrites_the_kernel() -> None:
    def rewrite(r: Rewriting) -> Scheduled:
        o = r.only("once is enough")
        first = r.apply(r.kernel, (opt("PARALLEL", o.on), *r.others), r.target)
        return r.schedule((first,), first.effects)

    whole = Option(name="WHOLE", letter="WH", on="axis", arg=None, kind="grid", docs=(), rewrite=rewrite)
    with registered(whole):
        s = apply(KERNEL, [["UPCAST", "n", 16], ["WHOLE", "m"]], TARGET)
        direct = apply(KERNEL, [["PARALLEL", "m"], ["UPCAST", "n", 16]], TARGET)
        assert [p.hash for p in s.phases] == [direct.hash] and show(lower(s)) == show(lower(direct))
        with pytest.raises(OptError, match=re.escape("WHOLE(n): once is enough")):
            apply(KERNEL, [["WHOLE", "m"], ["WHOLE", "n"]], TARGET)


def test_names_and_letters_are_taken_once() -> None:
    for taken in (replace(PAIR, name="TILE"), replace(PAIR, letter="T")):
        with pytest.raises(ValueError, match="is taken: TILE"):
            register(taken)
    with pytest.raises(ValueError, match="either act on the schedule or rewrite"):
        register(replace(PAIR, act=None))
    assert "PAIR" not in OPTIONS and OPTIONS["TILE"] is TILE and SYNTAX["OWN"] is OWN


def test_every_declaration_is_whole() -> None:
    """Each option has a line of documentation and a colour; fields that name or may be left out are fields."""
    for option in OPTIONS.values():
        assert option.docs and all(d.written.startswith(f"{option.name}(") for d in option.docs), option.name
        assert option.kind in KINDS, option.name
        fields = set(option.arg) if isinstance(option.arg, dict) else set()
        assert {*option.named_fields, *option.defaults, *option.choices} <= fields, option.name


@pytest.mark.slow
def test_no_other_file_of_these_folders_knows_an_option_by_name() -> None:
    """Heuristics choose among options, and so do the default schedules; apply, the searches, the cache and the command line do not."""
    names = set(OPTIONS)
    wrong = []
    for folder in ("ir", "opts", "search", "plan", "cache", "measure", "cli", "program", "interp", "renderers", "devices", "lower"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.parent.name in ("options", "rewrites") or path == ROOT / "opts" / "defaults.py":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.value}")
    assert not wrong, wrong


def test_the_tables_of_the_documentation_are_those_of_the_declarations() -> None:
    page = (ROOT / "docs" / "options.md").read_text()
    assert filled(page) == page, "run python scripts/option_tables.py"
    with pytest.raises(ValueError, match="once"):
        filled("no marks here")
    assert len(TABLES) == 2


def test_colours_reach_the_terminal(pair: Option) -> None:
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="standard").print(opts_text((opt("PAIR", "m", count=2, at="k"),)))
    assert "\x1b[35m" in out.getvalue()
