"""The grammar: a kernel in its own place, spellings of older versions, JSON in two ways, and every command described."""

from __future__ import annotations

import json
import re
from argparse import SUPPRESS
from importlib import import_module
from pathlib import Path

import pytest
from tilewright.cli.commands import COMMANDS, Command, build_parser
from tilewright.cli.grammar.parser import MAY_BE_EMPTY, Grammar

from .conftest import Tune


@pytest.mark.parametrize("command", ["run", "show", "explain", "check", "report", "cache list", "cache explain"])
def test_a_kernel_has_its_own_place(command: str) -> None:
    words = command.split()
    both = [build_parser().parse_args([*words, *how]) for how in (["matmul"], ["--kernel", "matmul"], ["--kernel", "matmul", "matmul"])]
    assert [a.kernel for a in both] == ["matmul"] * 3 and vars(both[0]) == vars(both[1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("show", "required: KERNEL (or --kernel NAME)"),
        ("show add --kernel matmul", "two kernels are named, add and --kernel matmul: give one"),
        ("run", "required: KERNEL (or --kernel NAME), or --manifest"),
        ("run add --manifest x.toml", "argument --manifest: not allowed with argument KERNEL"),
        ("run add --quiet -v", "not allowed with argument"),
        ("show add --opts Pm --diff a b", "not allowed with argument"),
        ("report --json x.json --format csv", "argument --json: not allowed with --format csv"),
        ("bench add --rounds 2", "is not a whole number of at least 3"),
        ("completion tcsh", "invalid choice"),
    ],
)
def test_bad_usage(tune: Tune, words: str, said: str) -> None:
    done = tune(*words.split())
    assert done.code == 2 and said in done.err


def test_older_spellings_are_read_with_a_hint(tune: Tune) -> None:
    args = build_parser().parse_args(["run", "add", "--seed", "7", "--seeds", "none"])
    assert (args.random_seed, args.start) == (7, "none") and args.hints == ["--seed is now --random-seed", "--seeds is now --start"]
    done = tune(*["show", "add", "--shape", "m=8,n=64", "--target", "avx2", "--seed-schedule", "--stage", "kernel"])
    assert done.code == 0 and done.err == "note: --seed-schedule is now --opts start\n"
    assert "--seed-schedule" not in str(build_parser().parse_args(["show", "add"])) and "hints" not in vars(
        build_parser().parse_args(["run", "add"])
    )


def test_json_is_asked_for_in_two_ways(tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "k.json"
    printed, written = tune("kernels", "--format", "json"), tune("kernels", "--json", str(file))
    assert json.loads(printed.out) == json.loads(file.read_text()) and written.out == ""
    assert tune("kernels", "--json", "-").out == printed.out
    assert build_parser().parse_args(["run", "add", "--format", "json"]).json == "-"
    assert tune("kernels", "--json", "/nowhere/x.json").err.startswith("error: cannot write --json /nowhere/x.json")


def commands(p: Grammar, name: str = "tune") -> list[tuple[str, Grammar]]:
    subs = [a.choices for a in p._actions if a.nargs == "A..." and isinstance(a.choices, dict)]
    return [(name, p), *(found for sub in subs for n, q in sub.items() for found in commands(q, f"{name} {n}"))]


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.runs], ids=lambda c: c.name)
def test_every_command_has_a_function(command: Command) -> None:
    module, _, name = command.runs.partition(":")
    assert callable(getattr(import_module(f"tilewright.cli.{module}"), name))


def test_every_command_and_argument_is_described() -> None:
    found = commands(build_parser())
    assert [name for name, _ in found] == ["tune", *(f"tune {c.name}" for c in COMMANDS)]
    for name, p in found:
        assert p.description, name
        undescribed = [a.dest for a in p._actions if not a.help and not isinstance(a.choices, dict)]
        assert not undescribed, (name, undescribed)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_help_breaks_no_word_and_fits(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name, p in commands(build_parser()):
        text = p.format_help()
        said = " ".join(text.split())
        for a in p._actions:
            if a.help and a.help != "==SUPPRESS==":
                assert " ".join((a.help % {"default": a.default}).split()) in said, (name, a.dest)
        long = [line for line in text.splitlines() if len(line) > width and not line.startswith(("  ", "usage"))]
        assert not long, (name, long)


def test_an_option_that_is_given_empty_is_refused(tune: Tune) -> None:
    tried = 0
    for name, p in commands(build_parser()):
        for a in p._actions:
            plain = type(a).__name__ == "_StoreAction" and a.option_strings and a.nargs is None and a.default is None
            written = a.dest in p.paths and p.paths[a.dest][1].does == "writes"
            if not plain or written or a.type is not None or a.choices or a.help == SUPPRESS or a.dest in MAY_BE_EMPTY:
                continue
            done = tune(*name.split()[1:], a.option_strings[0], "")
            assert done.code == 2 and ("it is empty" in done.err or "required" in done.err), (name, a.dest, done.err)
            tried += 1
    assert tried > 50


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run add --strategy=", "argument --strategy: it is empty"),
        ("run add --study=", "argument --study: it is empty"),
        ("run add --device=", "argument --device: it is empty"),
        ("run add --shape m=1..8 --strategy=", "argument --strategy: it is empty"),
        ("source x.c --strategy=", "argument --strategy: it is empty"),
        ("cache list --cache=", "the cache has an empty name"),
        ("watch --port 65536", "'65536' is not a whole number from 0 to 65535"),
        ("source x.c:f --function g", "x.c:f names f, and --function g: give one of them"),
        ("source x.c:f", "cannot read x.c: No such file"),
    ],
)
def test_empty_values(tune: Tune, words: str, said: str) -> None:
    done = tune(*words.split())
    assert done.code == 2 and said in done.err


def test_the_page_says_which_commands_have_no_json() -> None:
    """docs/cli.md names them, and what it shows with --json takes it."""
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    sentence = re.search(r"\*\*JSON\.\*\*.*?These have none:(.*?)\.\n", text, re.S)
    assert sentence is not None
    named = set(re.findall(r"`([a-z -]+)`", " ".join(sentence[1].split())))
    leaves = {n.partition(" ")[2] for n, p in commands(build_parser()) if not any(isinstance(a.choices, dict) for a in p._actions)}
    have = {n.partition(" ")[2] for n, p in commands(build_parser()) if "--json" in p._option_string_actions}
    lacking = leaves - have
    expanded = {n for n in lacking if n in named or any(n.startswith(f"{x} ") for x in named)}
    assert expanded == lacking and not any(n in named or any(n.startswith(f"{x} ") for x in named) for n in have)
    for page in (Path(__file__).parents[2] / "docs").glob("*.md"):
        for line in page.read_text().splitlines():
            for shown in re.findall(r"tune ([a-z -]{3,60}?) [^`|]{0,200}--json", line):
                words = shown.split()
                found = next((w for n in (3, 2, 1) if (w := " ".join(words[:n])) in leaves), None)
                assert found is None or found in have, f"{page.name}: {line}"
