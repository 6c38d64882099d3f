"""Every path that an argument of any command names, found in the grammar: no command changes a file that is not its own,
nor one that it reads."""

from __future__ import annotations

import os
import sqlite3
from argparse import REMAINDER, SUPPRESS, Action
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tilewright import cache
from tilewright.cli.commands import build_parser
from tilewright.cli.grammar.parser import Grammar, PathUse
from tilewright.cli.terminal import paths
from tilewright.files import folders, kinds
from tilewright.ir.errors import UsageError

from .conftest import Tune, row

OTHERS = """account schedules again aggregate against all allow atol backend before best block buckets budget build build_only cold cores dashboard days
device diff directive dry_run dtype exit_code expr first flag_param flags fleet forget format gpus grid help host hosts idle image
insecure kernel key_name kind limit machines memory memory_of_job mode model name namespace nest no_device no_pager no_password node
nondeterministic numerics recorded background stages microbatches chunks times held layout seconds devices what tensor zero links batch objective old_tools opts outcome overwrite param port print probe problem queue quiet reader repeats require_signature
restrict retry retune rounds rtol secret slow_link random_seed start starts setup shape shapes shared shell since slots sort ssh stage stop strategies strategy
superseded target threads time training trials tried trust tune until policy out check url verbose version wide words writer arguments function source"""
NO_PATHS = {*OTHERS.split(), "_kernel"}
"""Arguments that name no file (`trust` of a manifest says only yes)."""


class Place(NamedTuple):
    """An argument of a command that names files."""

    command: tuple[str, ...]
    parser: Grammar
    action: Action
    use: PathUse

    @property
    def words(self) -> str:
        return " ".join((*self.command, self.action.option_strings[0] if self.action.option_strings else self.action.dest))


def parsers(p: Grammar, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Grammar]]:
    inside = [a.choices for a in p._actions if a.nargs == "A..." and isinstance(a.choices, dict)]
    if not inside:
        yield words, p
    for choices in inside:
        for name, q in choices.items():
            yield from parsers(q, (*words, name))


def places() -> list[Place]:
    found = []
    for words, p in parsers(PARSER):
        found += [Place(words, p, a, p.paths[a.dest][1]) for a in p._actions if a.dest in p.paths and a.help != SUPPRESS]
    return found


PARSER = build_parser()
PLACES = places()
WRITTEN = [p for p in PLACES if p.use.does == "writes"]
GOOD = {
    "json": b"{}",
    "html": b"<!doctype html>\n<html></html>",
    "svg": b"<svg></svg>",
    "png": b"\x89PNG\r\n\x1a\n",
    "dot": b"digraph kernels {\n}\n",
    "bundle": b'{"schema":1,"tilewright":"bundle"}\n',
    "space": b'{"tilewright_space": 1}\n',
    "worker": b"#!/usr/bin/env bash\n# 2 workers for the fleet at x\n",
    "source": b"/* the best configuration of f */\n",
}
"""A file of each kind that is written."""
PICTURE = ".png"


def words_for(place: Place, value: str, folder: Path, given: dict[str, str] | None = None, *flags: str) -> list[str]:
    """The command with the least that it takes, `value` at the place, and other arguments by name."""
    values = {place.action.dest: value, **(given or {})}
    options, rest = [*flags], []
    for a in place.parser._actions:
        if a.help == SUPPRESS or a.dest in ("help", "_kernel"):
            continue
        text = values.get(a.dest)
        if a.option_strings:
            text = text if text is not None else _dummy(a, folder) if a.required else None
            options += [] if text is None else [a.option_strings[0], text]
        elif a.nargs not in ("?", "*", REMAINDER) or text is not None:
            rest.append(text if text is not None else _dummy(a, folder))
    kernel = ["add"] if any(a.dest == "_kernel" for a in place.parser._actions) and "kernel" not in values and place.parser.either else []
    if "manifest" in values and place.command == ("run",):
        kernel = []
    return [*place.command, *options, *kernel, *rest]


def _dummy(a: Action, folder: Path) -> str:
    return str(next(iter(a.choices))) if a.choices else str(folder / f"{a.dest}.toml")


def refused(words: list[str]) -> str:
    """Why a command is refused before it runs, '' where it is not."""
    try:
        paths.check_paths(PARSER.parse_args(words))
    except UsageError as e:
        return str(e)
    return ""


def named(place: Place, folder: Path, stem: str = "file") -> Path:
    """A name that the argument takes."""
    ending = {"picture": PICTURE, "space": ".jsonl"}.get(place.use.kind, ".x")
    return folder / f"{stem}{ending}"


def kind_of(place: Place) -> str:
    return "png" if place.use.kind == "picture" else place.use.kind


def database(path: Path) -> None:
    with sqlite3.connect(path) as c:
        c.execute("CREATE TABLE mine (x)")
    c.close()


def our_cache(path: Path) -> None:
    with cache.open(path) as store:
        store.record(row())


FOREIGN: dict[str, Callable[[Path], object]] = {
    "markdown": lambda p: p.write_text("# Notes\n"),
    "python": lambda p: p.write_text("import os\n"),
    "database": database,
    "cache": our_cache,
    "other": lambda p: p.write_bytes(b"\0\1\2"),
    "damaged json": lambda p: p.write_text('{"a": 1, \n'),
}


def test_every_argument_is_known_to_name_a_file_or_not() -> None:
    for words, p in parsers(PARSER):
        for a in p._actions:
            if words[:2] == ("fleet", "launch") and a.dest == "tls":
                continue  # a folder of another machine
            if words == ("export",) and a.dest == "out":
                continue  # a folder, which `export` looks at itself
            assert a.dest in p.paths or a.dest in NO_PATHS, f"{' '.join(words)} {a.dest}: is it a path? (`Grammar.add_path`)"
            said = f"{a.metavar} {a.dest}" if isinstance(a.metavar, str) else a.dest
            looks = any(w in said for w in ("FILE", "PATH", "FOLDER", "PLACE", ".toml"))
            assert not looks or a.dest in p.paths, f"{' '.join(words)} {a.dest} looks like a path"
    assert len(WRITTEN) > 30 and {p.use.kind for p in WRITTEN} - {"picture", "png"} <= set(kinds.KINDS)


@pytest.mark.parametrize("kind", FOREIGN)
def test_no_output_takes_the_place_of_another_kind_of_file(tune: Tune, tmp_path: Path, kind: str) -> None:
    for n, place in enumerate(WRITTEN):
        path = named(place, tmp_path, f"file{n}")
        FOREIGN[kind](path)
        before = path.read_bytes()
        link = named(place, tmp_path, f"link{n}")
        link.symlink_to(path.name)
        for given in (path, link):
            why = refused(words_for(place, str(given), tmp_path))
            assert "cannot write" in why and "say --overwrite" in why, (place.words, why)
        if kind == "markdown":
            done = tune(*words_for(place, str(path), tmp_path))
            assert done.code == 2 and "cannot write" in done.err, (place.words, done.err)
            assert path.read_bytes() == before and not path.is_symlink(), place.words


def test_what_is_no_file_and_what_cannot_be_written_is_said_before_the_work(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "folder.x").mkdir()
    for place in WRITTEN:
        folder, away = named(place, tmp_path, "folder"), named(place, tmp_path / "no", "x")
        for given, why in (
            (folder, "it is a folder"),
            (away, "its folder does not exist"),
            (tmp_path / "loop", ""),
            ("", "it has no name"),
        ):
            done = tune(*words_for(place, str(given), tmp_path))
            assert done.code == 2 and "cannot write" in done.err and why in done.err and "--overwrite" not in done.err, (
                place.words,
                done.err,
            )


def test_a_file_of_the_outputs_kind_an_empty_and_a_dangling_one_are_taken(tmp_path: Path) -> None:
    for n, place in enumerate(WRITTEN):
        path, empty, link = (named(place, tmp_path, f"{stem}{n}") for stem in ("good", "empty", "link"))
        path.write_bytes(GOOD[kind_of(place)])
        empty.touch()
        link.symlink_to("nothing")
        for given in (
            path,
            empty,
            link,
            tmp_path / "new.x",
            *(["/dev/null"] if place.use.kind not in ("picture", "space") else []),
            *(["-"] if place.use.kind == "json" else []),
        ):
            assert not refused(words_for(place, str(given), tmp_path)), (place.words, given)
        path.write_text("# Notes\n")
        assert not refused(words_for(place, str(path), tmp_path, {}, "--overwrite")), place.words


def test_no_output_is_an_input_of_the_same_command(tune: Tune, tmp_path: Path) -> None:
    tried = 0
    for n, place in enumerate(WRITTEN):
        path = named(place, tmp_path, f"input{n}")
        path.write_bytes(GOOD[kind_of(place)])  # the kind would do: only that it is read speaks against it
        link, hard = named(place, tmp_path, f"soft{n}"), named(place, tmp_path, f"hard{n}")
        link.symlink_to(path.name)
        hard.hardlink_to(path)
        before = path.read_bytes()
        for other in (p for p in PLACES if p.parser.prog == place.parser.prog and p.action.dest != place.action.dest):
            for given in (path, link, hard):
                for ways in (str(path), f"{path}:f", f"sqlite:///{path}"):
                    why = refused(words_for(place, str(given), tmp_path, {other.action.dest: ways}, "--overwrite"))
                    assert "of the same command" in why, (place.words, other.words, ways, why)
                    tried += 1
                    if other.use.does == "writes":
                        break
        assert path.read_bytes() == before and link.is_symlink() and hard.samefile(path), place.words
    assert tried > 300


def test_the_default_cache_and_what_is_kept_are_inputs_too(
    tune: Tune, cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    our_cache(cache_file)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    kept = [folders.state() / "limits-0123.json", folders.config() / "projects.json"]
    for path in kept:
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    before = cache_file.read_bytes()
    for place in WRITTEN:
        if place.use.kind in ("picture", "space"):
            continue  # their names end otherwise
        for path in (cache_file, f"{cache_file}-wal", *kept) if any(a.dest == "cache" for a in place.parser._actions) else kept:
            why = refused(words_for(place, str(path), tmp_path, {}, "--overwrite"))
            assert "of the same command" in why, (place.words, path, why)
    assert cache_file.read_bytes() == before and not os.path.exists(f"{cache_file}-wal") and all(p.read_text() == "{}" for p in kept)


def test_the_issues_five_commands(tune: Tune, cache_file: Path) -> None:
    our_cache(cache_file)
    before, k = cache_file.read_bytes(), str(cache_file)
    for words in (
        ["cache", "export", "--best", k, "--cache", k],
        ["run", "add", "--json", k, "--cache", k],
        ["report", "--html", k],
        ["cache", "list", "--json", k, "--cache", k],
        ["cache", "prune", "--save", k, "--cache", k],
    ):
        for more in ([], ["--overwrite"]):
            done = tune(*words, *more)
            assert done.code == 2 and cache_file.read_bytes() == before, (words, done.err)


CACHED = [p for p in PLACES if p.action.dest == "cache"]
LEFT_OUT = {
    ("cache", "roles"): "asks a server only",
    ("cache", "diff"): "reads its two places",
    ("watch",): "serves until it is ended",
    ("cache", "team"): "reads the settings",
    ("cache", "pull"): "is for a server",
    ("cache", "push"): "is for a server",
    ("cache", "check"): "needs a manifest",
    ("plot",): "its file is written",
    ("fleet", "sweep"): "needs a sweep",
    ("source",): "needs a source",
}
"""Commands whose --cache is tried elsewhere, or not at all."""


@pytest.mark.parametrize("kind", ["markdown", "database"])
def test_a_foreign_cache_is_refused_and_untouched(tune: Tune, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "NOTES.md"
    FOREIGN[kind](path)
    before = path.read_bytes()
    bundle = tmp_path / "b.jsonl"
    our_cache(tmp_path / "x.db")
    with cache.open(tmp_path / "x.db") as store:
        store.export(bundle)
    (tmp_path / "x.db").unlink()
    given = {
        "shape": "m=8,n=64",
        "cache": str(path),
        "device": "cpu",
        "threads": "1",
        "file": str(bundle),
        "opts": "start",
        "into": str(path),
    }
    for place in CACHED:
        if place.command in LEFT_OUT:
            continue
        mine = {d: v for d, v in given.items() if any(a.dest == d for a in place.parser._actions)}
        if place.command in (("cache", "list"), ("report",), ("cache", "show"), ("cache", "push"), ("cache", "export"), ("cache", "clear")):
            mine.pop("shape", None)
        if place.command == ("plan",):
            mine = {"cache": str(path), "model": "gpt2-tiny"}
        mine |= {"against": "start"} if place.command == ("bench",) else {}
        mine |= {"opts": "best"} if place.command in (("bench",), ("show",), ("explain",)) else {}
        more = ["--all"] if place.command == ("cache", "clear") else []
        done = tune(*words_for(place, str(path), tmp_path, mine), *more)
        assert done.code in (2, 5) and (
            done.code == 5 or any(why in done.err for why in ("is not a Tilewright cache", "not valid JSON"))
        ), (place.words, done.code, done.err)
        assert path.read_bytes() == before and sorted(p.name for p in tmp_path.iterdir()) == ["NOTES.md", "b.jsonl"], place.words
