"""Small pieces of HTML, for what notebooks show of an object (`_repr_html_`). All text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LEFT = 'style="text-align:left"'


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), title: str = "") -> str:
    """Rows of cells, left-aligned; the first cell of a row is its header where the table has no `head`."""
    out = ["<table>"]
    if title:
        out.append(f'<caption style="text-align:left;font-weight:bold">{escape(title)}</caption>')
    if head:
        out.append("<thead><tr>" + "".join(f"<th {_LEFT}>{escape(cell)}</th>" for cell in head) + "</tr></thead>")
    out.append("<tbody>")
    for row in rows:
        tags = ["td" if head or i else "th" for i in range(len(row))]
        out.append("<tr>" + "".join(f"<{t} {_LEFT}>{escape(c)}</{t}>" for t, c in zip(tags, row, strict=True)) + "</tr>")
    return "".join([*out, "</tbody></table>"])


def text(lines: str) -> str:
    """Text as it stands, in letters of one width; long lines scroll."""
    return f'<pre style="overflow-x:auto">{escape(lines)}</pre>'


def folded(summary: str, inside: str) -> str:
    """HTML behind a line that opens it."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"
