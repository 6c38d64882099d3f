"""Tables that fit a terminal: no digit is lost and no word is broken, however narrow it is.

Columns are as wide as what they hold where that fits. Else texts are wrapped, between words and after the commas of
a shape. Where even that does not fit, whole columns are left out, the least important first, and a line under the
table names them; `--wide` keeps them all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

GAP = 3
"""Columns of a terminal between two of a table."""
_ENDS = re.compile(r"(?<=[ ,;])")
"""Where a text may be wrapped."""


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
        """A cell for each column: a Text, or a str with rich's markup."""
        from rich.text import Text

        given = [c if isinstance(c, Text) else Text.from_markup(c) for c in cells]
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
            out.add_column(c.heading, justify="right" if c.number else "left", no_wrap=True, overflow="fold", min_width=widths[i])
        for row in self.rows:
            out.add_row(*(row[i] if self.columns[i].number else wrapped(row[i], widths[i]) for i in kept))
        yield out
        left = [self.columns[i].heading for i in range(len(self.columns)) if i not in kept]
        if left:
            yield Text(f"no room for {', '.join(left)}: --wide shows all", style="dim")

    def fitted(self, width: int) -> tuple[list[int], list[int]]:
        """(the columns that have room, how wide each column is) on a terminal of so many columns."""
        natural = [max((line_width(t) for t in self._texts(i)), default=0) for i in range(len(self.columns))]
        least = [natural[i] if c.number else max(map(word_width, self._texts(i)), default=0) for i, c in enumerate(self.columns)]
        kept = list(range(len(self.columns)))
        while sum(least[i] + GAP for i in kept) - 1 > width and any(self.columns[i].rank for i in kept):
            kept.remove(max(kept, key=lambda i: (self.columns[i].rank, i)))
        widths = list(least)
        spare = width + 1 - sum(least[i] + GAP for i in kept)
        while spare > 0:
            wants = [i for i in kept if widths[i] < natural[i]]
            if not wants:
                break
            narrowest = min(wants, key=lambda i: widths[i])
            widths[narrowest] += 1
            spare -= 1
        return kept, widths

    def _texts(self, i: int) -> list[str]:
        return [self.columns[i].heading, *(row[i].plain for row in self.rows)]


def line_width(text: str) -> int:
    """Columns that the widest line takes."""
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")), default=0)


def word_width(text: str) -> int:
    """Columns that the widest part takes that is not wrapped."""
    from rich.cells import cell_len

    return max((cell_len(w.rstrip(" ")) for line in text.split("\n") for w in _ENDS.split(line)), default=0)


def wrapped(text: Text, width: int) -> Text:
    """The text with its lines wrapped to a width, with their styles; words that are wider stay whole."""
    from rich.cells import cell_len
    from rich.text import Text

    plain = text.plain
    cuts: list[int] = []
    at = 0
    for line in plain.split("\n"):
        used, place = 0, at
        for word in _ENDS.split(line):
            if used and used + cell_len(word.rstrip(" ")) > width:
                cuts.append(place)
                used = 0
            used += cell_len(word)
            place += len(word)
        at += len(line) + 1
    if not cuts:
        return text
    lines = text.divide(cuts)
    for line_ in lines:
        line_.rstrip()
    return Text("\n").join(lines)
