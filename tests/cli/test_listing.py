"""Tables at every width of terminals: no digit is lost, no word is broken, and what is left out is named."""

from __future__ import annotations

import io
import re
from argparse import Namespace
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text
from tilewright.cli.terminal import output
from tilewright.cli.terminal.listing import Listing
from tilewright.cli.terminal.style import ENDLESS

NAME = "a_long_name_of_a_kernel_in_a_file_of_a_user_that_goes_on"
ROWS = [
    ("matmul", "m=1024,n=1024,k=1024", "cpu", "12.34 µs", "[green]1234[/] GFLOP/s", "Um8 Un64 Tk256 Mk<m Sb@k Pn"),
    (NAME, "batch=16,heads=12,sequence=4096", "cuda:0", "770.2 ms", "9876 GFLOP/s", "Un64"),
]


def listed(width: int) -> str:
    out = Listing("all of them", ("kernel", "shape", "device?1", ">time", ">rate?2", "opts?3"))
    for name, *cells in ROWS:
        out.add_row(Text(name), *cells)
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(out)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_nothing_is_cut(width: int) -> None:
    said = listed(width)
    assert all(len(line) <= width for line in said.splitlines())
    assert "12.34 µs" in said and "770.2 ms" in said, "digits and their units are in one piece"
    left = re.search(r"no room for ([\w, ]+): --wide", " ".join(said.split()))
    gone = left[1].split(", ") if left else []
    assert gone == [h for h in ("device", "rate", "opts") if h in gone]
    assert ("rate" in gone) <= ("opts" in gone) and ("device" in gone) <= ("rate" in gone), "the least important first"
    if "rate" not in gone:
        assert "1234 GFLOP/s" in said and "9876 GFLOP/s" in said
    if "opts" not in gone:
        assert all(o in said.split() for o in ROWS[0][-1].split())
    if width >= 60:
        words = [w for w in re.split(r"(?<=[,_])", ",".join(r[1] for r in ROWS) + "," + NAME) if w]
        assert all(w.rstrip(",") in said for w in words), "words end at commas and underscores only"


def test_wide_has_every_column_in_one_line() -> None:
    said = listed(ENDLESS)
    assert "no room" not in said and all(all(re.sub(r"\[.*?\]", "", c) in said for c in row) for row in ROWS)
    assert sum(NAME in line and "Un64" in line for line in said.splitlines()) == 1


def test_long_output_is_paged_and_short_output_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "paged"
    output._print("a\n" * 9, f"cat > {file}")
    assert capsys.readouterr().out == "a\n" * 9 and not file.exists()
    output._print("b\n" * 10, f"cat > {file}")
    assert capsys.readouterr().out == "" and file.read_text() == "b\n" * 10
    output._print("c\n" * 10, "no-such-pager-anywhere 2>/dev/null")
    assert capsys.readouterr().out == "c\n" * 10
    output._print("d\n" * 100_000, "head -1 >/dev/null")  # who reads leaves before the end


def test_nothing_is_paged_where_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "less")
    assert output._pager(Namespace(no_pager=False)) is None, "standard output is no terminal"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", Namespace(isatty=lambda: True))
    monkeypatch.setenv("TERM", "xterm")
    assert output._pager(Namespace(no_pager=False)) == "less"
    assert output._pager(Namespace(no_pager=True)) is None
    monkeypatch.setenv("PAGER", "")
    assert output._pager(Namespace()) is None
    monkeypatch.setenv("PAGER", "less")
    monkeypatch.setenv("TERM", "dumb")
    assert output._pager(Namespace()) is None


def test_the_manual_page_has_every_command_and_option() -> None:
    from tilewright.cli.commands import COMMANDS, build_parser

    page = (Path(__file__).resolve().parents[2] / "docs" / "tune.1").read_text().replace("\\-", "-")
    assert all(f"tune {name}" in page or f"tune\\fR \\fI\\,{name}\\/" in page for name in (c.name for c in COMMANDS if " " not in c.name))
    (commands,) = (a.choices for a in build_parser()._actions if isinstance(a.choices, dict))
    missing = {s for p in commands.values() for a in p._actions if a.help != "==SUPPRESS==" for s in a.option_strings if s not in page}
    assert missing <= {"--help"}, "run `make man`"
