"""How the command line writes numbers, options and axis kinds. The console falls back to plain text when not on a terminal."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from ...ir.errors import OptError
from ...ir.units import duration as duration
from ...measure.roofline import share
from ...opts.opt import parse, short
from ...opts.registry import OPTIONS
from .sanitised import behind, clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

    from ...opts.opt import Opt


KINDS = {
    "grid": "bold blue",
    "thread": "bold cyan",
    "serial": "white",
    "reduce": "red",
    "upcast": "yellow",
    "lanes": "bold yellow",
    "unroll": "magenta",
    "partial": "bright_magenta",
    "dot": "bold magenta",
    "stage": "green",
    "store": "cyan",
}
"""A colour for each axis kind of `opts.nest_lines`, and for each option's."""

OUTCOMES = {
    "ok": "green",
    "slow": "dim",
    "wrong": "bold red",
    "build": "yellow",
    "timeout": "magenta",
    "crash": "red",
    "illegal": "dim yellow",
}

MOST_TEXT = 600
"""Characters of a failing candidate's detail that are shown."""


def legend() -> str:
    """What the letters of the options' short form mean."""
    return "  ".join(f"{o.letter} {o.legend}" for o in OPTIONS.values() if o.legend)


ENDLESS = 100_000
"""Columns of a terminal that a line never fills."""


def console(stream: TextIO | None = None, wide: bool = False) -> Console:
    """A console on `stream` (default: standard output); wide tables when the output is a file or a pipe. `wide`: no line is
    wrapped and no column left out, whatever the terminal's width. What is printed is text, `[ids]` and `:x:` too: styles are
    those of `Text`."""
    out = behind(sys.stdout if stream is None else stream)
    piped = not out.isatty() and "COLUMNS" not in os.environ
    return _console()(
        file=out, markup=False, emoji=False, highlight=False, soft_wrap=piped, width=ENDLESS if wide else 180 if piped else None
    )


def soft_wrapped(out: Console) -> bool:
    """Whether a line of prose is printed whole: on a terminal it is wrapped between words."""
    return not out.is_terminal


@functools.cache
def _console() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class Clean(Console):
        """What texts hold reaches the terminal clean; rich's own control segments pass."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for s in super().render(renderable, options):
                yield s if s.control else Segment(clean(s.text), s.style)

        def on_broken_pipe(self) -> None:
            """A reader that has gone is no error, and `main` ends the command quietly; rich would exit with 1."""
            raise BrokenPipeError

    return Clean


def table(title: str, *headings: str) -> Listing:
    """An empty table that fits the terminal it is printed on. A heading that begins with `>` is of a column of numbers;
    one that ends with `?2` is left out where there is no room, later than `?3`."""
    return Listing(title, headings)


def clock(seconds: float) -> str:
    """A countdown: `0:09`, `1:30`."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def rate(value: float | None, unit: str) -> str:
    """`1234 GFLOP/s`, or a dash when there is nothing to divide."""
    return "-" if not value else (f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}").rstrip()


def flops(gflops: float | None) -> str:
    """`1234 GFLOP/s`, and `61.7 TFLOP/s` from ten of these on."""
    return rate(gflops, "GFLOP/s") if not gflops or gflops < 10_000 else f"{gflops / 1000:.{1 if gflops < 1e6 else 0}f} TFLOP/s"


def percent(roofline_s: float | None, t: float) -> str:
    """Share of the roofline that a time of `t` seconds reaches: `87 %`, `187 %!` where it cannot be right."""
    return share(100 * roofline_s / t) if roofline_s else "-"


def gain(start_s: float | None, t: float) -> str:
    """How many times faster than the start schedule's time: `1.83x`."""
    return f"{start_s / t:.2f}x" if start_s else "-"


def factor(value: float) -> str:
    """`1.83x`, `45x`, `1.2e+04x`: a factor of any size."""
    return f"{value:.2f}x" if value < 10 else f"{value:.3g}x" if value >= 1000 else f"{value:.0f}x"


def bytes_text(size: int) -> str:
    """`48 KiB`, `1 MiB`; a dash when unknown."""
    amount: float = size
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}" if amount else "-"
        amount /= 1024
    return f"{amount:.4g} GiB"


def shape_text(shape: Mapping[str, object]) -> str:
    """`m=1024,n=1024`: the form that --shape takes."""
    return ",".join(f"{name}={extent}" for name, extent in shape.items())


def opts_text(opts: Sequence[Opt]) -> Text:
    """Options in short form, each in the colour of the axis kind it makes."""
    from rich.text import Text

    out = Text()
    for i, opt in enumerate(opts):
        if i:
            out.append(" ")
        out.append(short((opt,)), style=KINDS[OPTIONS[opt.op].kind if opt.op in OPTIONS else "stage"])
    return out if opts else Text("(none)", style="dim")


def opts_words(text: str) -> str:
    """The options of a row of the cache for whoever reviews them: `into registers: 8 of m; parallel: n`."""
    try:
        opts = parse(text)
    except OptError:
        return text
    said: dict[str, list[str]] = {}
    for o in opts:
        amount = f"{o.arg} of " if isinstance(o.arg, int) else ""
        rest = " (" + ", ".join(f"{k} {v}" for k, v in o.arg) + ")" if isinstance(o.arg, tuple) and o.arg else ""
        said.setdefault(OPTIONS[o.op].legend or o.op.lower() if o.op in OPTIONS else o.op.lower(), []).append(f"{amount}{o.on}{rest}")
    return "; ".join(f"{word}: {', '.join(each)}" for word, each in said.items()) or "as written"


def stored_opts(text: str) -> Text:
    """The options of a row of the cache, in short form; as they are kept where another version wrote them."""
    from rich.text import Text

    try:
        return opts_text(parse(text))
    except OptError:
        return Text(text, style="dim")


# listing ----------------------------------------------------------------------------------------------------
# Tables that fit a terminal: no digit is lost and no word is broken, however narrow it is.
#
# Columns are as wide as what they hold where that fits. Else texts are wrapped, between words and after the commas of
# a shape; names that would take a third of the terminal also after an underscore or a slash. Where even that does not fit, whole columns are left out, the least important first, and a line under the
# table names them; `--wide` keeps them all.


GAP = 3
"""Columns of a terminal between two of a table."""
_ENDS = re.compile(r"(?<=[ ,;])")
"""Where a text may be wrapped."""
_JOINTS = re.compile(r"(?<=[_/.:@])")
"""Where a long name may be."""
_LEAST = 8
"""No text is folded to less than that."""


@dataclass(frozen=True)
class ListedColumn:
    """A heading; whether it holds numbers, which are never wrapped; and how soon it is left out (0: never)."""

    heading: str
    number: bool
    rank: int

    @classmethod
    def of(cls, text: str) -> ListedColumn:
        """`>` before a heading: numbers. `?2` after it: left out where there is no room, after `?3` and before `?1`."""
        name, mark, rank = text.removeprefix(">").partition("?")
        return cls(name, text.startswith(">"), int(rank or 1) if mark else 0)


class Listing:
    """A table that is added to row by row, and fitted when it is printed."""

    def __init__(self, title: str, headings: Sequence[str]) -> None:
        self.title = title
        self.columns = [ListedColumn.of(h) for h in headings]
        self.rows: list[list[Text]] = []

    def add_row(self, *cells: str | Text) -> None:
        """A cell for each column: a str as it is, or a Text."""
        from rich.text import Text

        given = [c if isinstance(c, Text) else Text(c) for c in cells]
        self.rows.append([*given, *(Text() for _ in self.columns[len(given) :])])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        kept, widths = self.fitted(options.max_width)
        out = Table(
            title=Text(self.title) if self.title else None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for i in kept:
            c = self.columns[i]
            out.add_column(c.heading, justify="right" if c.number else "left", overflow="fold", width=widths[i])
        for row in self.rows:
            out.add_row(*(row[i] if self.columns[i].number else wrapped(row[i], widths[i], longest(options.max_width)) for i in kept))
        yield out
        left = [self.columns[i].heading for i in range(len(self.columns)) if i not in kept]
        if left:
            yield Text(f"no room for {', '.join(left)}: --wide shows all", style="dim")

    def fitted(self, width: int) -> tuple[list[int], list[int]]:
        """(the columns that have room, how wide each column is) on a terminal of so many columns."""
        natural = [max((line_width(t) for t in self._texts(i)), default=0) for i in range(len(self.columns))]
        most = longest(width)
        least = [natural[i] if c.number else max(word_width(t, most) for t in self._texts(i)) for i, c in enumerate(self.columns)]
        kept = list(range(len(self.columns)))
        while _sum(least, kept) > width and any(self.columns[i].rank for i in kept):
            kept.remove(max(kept, key=lambda i: (self.columns[i].rank, i)))
        widths = list(least)
        texts = [i for i in kept if not self.columns[i].number]
        while _sum(widths, kept) > width and any(widths[i] > _LEAST for i in texts):  # nothing fits: words are folded, digits never
            widths[max(texts, key=lambda i: widths[i])] -= 1
        while _sum(widths, kept) < width and (wants := [i for i in kept if widths[i] < natural[i]]):
            widths[min(wants, key=lambda i: widths[i])] += 1
        return kept, widths

    def _texts(self, i: int) -> list[str]:
        return [self.columns[i].heading, *(row[i].plain for row in self.rows)]


def line_width(text: str) -> int:
    """Columns that the widest line takes."""
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")), default=0)


def _sum(widths: Sequence[int], kept: Sequence[int]) -> int:
    """Columns of the terminal that columns of the table take."""
    return sum(widths[i] + GAP for i in kept) - 1


def longest(width: int) -> int:
    """How long a word may be that is never wrapped, on a terminal of so many columns."""
    return max(16, width // 3)


def parts(line: str, most: int) -> Iterator[str]:
    """What of a line is never wrapped."""
    for word in _ENDS.split(line):
        yield from _JOINTS.split(word) if len(word.rstrip(" ")) > most else (word,)


def word_width(text: str, most: int) -> int:
    """Columns that the widest part takes that is not wrapped."""
    from rich.cells import cell_len

    return max((cell_len(w.rstrip(" ")) for line in text.split("\n") for w in parts(line, most)), default=0)


def wrapped(text: Text, width: int, most: int) -> Text:
    """The text with its lines wrapped to a width, with their styles; `most`: words that are longer may be wrapped at
    their joints. Parts that are wider stay whole."""
    from rich.cells import cell_len
    from rich.text import Text

    cuts: list[int] = []
    at = 0
    for line in text.plain.split("\n"):
        used, place = 0, at
        for part in parts(line, most):
            if used and used + cell_len(part.rstrip(" ")) > width:
                cuts.append(place)
                used = 0
            used += cell_len(part)
            place += len(part)
        at += len(line) + 1
    if not cuts:
        return text
    lines = text.divide(cuts)
    for cut in lines:
        cut.rstrip()
    return Text("\n").join(lines)
