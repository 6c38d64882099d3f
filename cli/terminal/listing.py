"""Tables that fit a terminal: no digit is lost and no word is broken, however narrow it is.

Columns are as wide as what they hold where that fits. Else texts are wrapped, between words and after the commas of
a shape; names that would take a third of the terminal also after an underscore or a slash. Where even that does not fit, whole columns are left out, the least important first, and a line under the
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
