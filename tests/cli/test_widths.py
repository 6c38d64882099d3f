"""What a width of 40, 60 or 80 columns shows is what a wide one does: tables lose no digit, and no word is broken."""

from __future__ import annotations

import io
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from tilewright.cli import main
from tilewright.cli.terminal import output
from tilewright.cli.terminal.sanitised import wrapped
from tilewright.cli.terminal.style import ENDLESS, Listing, console
from tilewright.cli.tuning.run import summary
from tilewright.opts import parse
from tilewright.search import Result

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;.*?\x1b\\")


class Screen(io.StringIO):
    """A terminal, as far as a program asks."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in ESCAPES.sub("", self.getvalue()).splitlines()]


def screens(monkeypatch: pytest.MonkeyPatch, columns: int) -> tuple[Screen, Screen]:
    out, err = Screen(), Screen()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("PAGER", "cat")
    return out, err


def words(lines: list[str]) -> list[str]:
    return [w for line in lines for w in line.split() if not set(w) <= set("─━")]


def same_words(narrow: list[str], wide: list[str], columns: int) -> None:
    """Every word is whole, in its order, and nothing but a word longer than the terminal passes its edge."""
    assert words(narrow) == words(wide)
    assert not [line for line in narrow if len(line) > columns and " " in line.strip()]


def ran(monkeypatch: pytest.MonkeyPatch, columns: int, *args: str) -> list[str]:
    out, err = screens(monkeypatch, columns)
    main(list(args))
    return [*out.lines, *err.lines]


SHOWN = ("show", "softmax", "--shape", "m=8,n=64", "--target", "cascadelake")
CASES = {
    "a listing of loops": (*SHOWN, "--opts", "Un16 Pm Se@m"),
    "a difference": (*SHOWN, "--diff", "Un16 Pm Se@m", "Un8 Pm"),
    "an error": (*SHOWN, "--opts", "UPCAST(nosuchaxis, 8)"),
    "a wrong argument": ("run", "softmax", "--mode", "sometimes"),
}

WIDE: dict[str, list[str]] = {}
"""What a wide terminal shows, made once."""


@pytest.mark.many
@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("case", CASES)
def test_no_word_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str, columns: int) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "c.db"))
    narrow = ran(monkeypatch, columns, *CASES[case])
    wide = WIDE.get(case) or WIDE.setdefault(case, ran(monkeypatch, 1000, *CASES[case]))
    # the source is code: its lines are not prose, and stay as they are
    code = next((i for i, line in enumerate(wide) if line.startswith(("; ", "define ", "declare "))), len(wide))
    first = wide[code] if code < len(wide) else None
    cut = narrow.index(first) if first in narrow else len(narrow)
    assert words(wide[:code])
    if case == "a wrong argument":  # what stands before is the usage, which argparse lays out
        narrow, wide = (x[next(i for i, line in enumerate(x) if "error:" in line) :] for x in (narrow, wide))
        code, cut = len(wide), len(narrow)
    if case == "a difference":  # lines of loops and of source begin with what they are
        code, cut = (next(i for i, line in enumerate(x) if line.startswith("loop nest")) for x in (wide, narrow))
    same_words(narrow[:cut], wide[:code], columns)


RESULT: dict[str, Any] = {
    "kernel": "softmax", "shape": {"m": 4096, "n": 4096}, "dtype": "float32", "device": "cpu", "threads": 2, "strategy": "portfolio",
    "opts": parse("Un16 Pm Se@m"), "t_min": 1.234e-3, "t_med": 1.3e-3, "n": 7, "start_s": 2e-3, "gain": 1.4, "verified": True, "confirmed": True,
    "gflops": 12.5, "gbytes_s": 3.25, "roofline_pct": 81.0, "counts": {"ok": 72, "slow": 29, "wrong": 1}, "seconds": 19.1,
    "failures": {"wrong": "Un16 Pm: element 17 of y is 3 and not 4, and three others likewise"}, "scratch": 1088, "objective": "time,energy",
    "energy": {"joules": 1.5e-3, "spread": 0.02, "resolution": 0.03, "watts": 45.0, "idle_w": None, "source": "RAPL: package-0, dram"},
    "message": "the time budget is spent; no significant win: the answer is the start schedule (best candidate / start = 1.039 in 9 pairs, 95 % of the doubt within 0.98 to 1.1)",
    "front": tuple({"t_min": t, "t_med": t, "joules": j, "scratch": 64, "opts": [["UPCAST", "n", 16]], "confirmed": True} for t, j in ((1e-3, 2.0), (2e-3, 1.0))),
}  # fmt: skip


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_summary_breaks_no_word(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    shown = []
    for n in (columns, 1000):
        out, _ = screens(monkeypatch, n)
        summary(
            console(), Namespace(kernel="softmax", cache=None, allow=None), Result(**RESULT), {"peak": "half of what the tensor units do"}
        )
        shown.append([line for line in out.lines if not line.startswith(("look at it", "reproduce"))])
    narrow, wide = shown
    assert sorted(set(words(wide)) - set(words(narrow))) == []  # (a table may lose a column, and repeats no word)
    assert not [line for line in narrow if len(line) > columns and " " in line.strip()]


def test_sentences_for_standard_error_wrap_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "error: a rather long sentence, and a /path/that/is/longer/than/the/terminal/and/stays/whole"
    monkeypatch.setenv("COLUMNS", "40")
    found = wrapped(text, Screen()).splitlines()
    assert wrapped(text, io.StringIO()) == text and len(found) == 2 and found[-1].startswith("/path") and " ".join(found) == text
    monkeypatch.setenv("COLUMNS", "5")  # too narrow to be true
    assert wrapped(text, Screen()) == text


NAME = "a_long_name_of_a_kernel_in_a_file_of_a_user_that_goes_on"
ROWS = [
    ("matmul", "m=1024,n=1024,k=1024", "cpu", "12.34 µs", "1234 GFLOP/s", "Um8 Un64 Tk256 Mk<m Sb@k Pn"),
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
