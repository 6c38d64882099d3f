"""The front of two objectives in a report: its members as a table, and all that was measured as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ...cache.objectives import ENERGIES, FRONTS
from ...cache.ranking import undominated, value_of
from ...search.result import joules
from ..terminal.style import bytes_text, duration, kept_opts, table
from .rows import ReportEntry, short_of

if TYPE_CHECKING:
    from ...cache import Row
    from ..terminal.listing import Listing

WIDE, HIGH, LEFT, LOW = 420.0, 260.0, 70.0, 34.0
"""Sizes of the picture, and its margins for the labels."""


def members(e: ReportEntry) -> list[Row]:
    """The schedules of the front, the best in its first objective first; none for a kernel that was tuned for one objective."""
    if e.best.objective not in FRONTS:
        return []
    newest = {r.schedule: r for r in e.history if r.usable}
    return undominated(newest.values(), e.best.objective)


def text_of(row: Row, name: str) -> str:
    """A row's value of an objective for a reader; a dash where it was not measured."""
    value = value_of(row, name)
    if value == float("inf"):
        return "-"
    if name in ENERGIES:
        return joules(value)
    return duration(value) if name == "time" else bytes_text(int(value)) if value else "none"


def listing(e: ReportEntry) -> Listing:
    """The front as a table for a terminal."""
    from rich.text import Text

    from .rows import COLUMNS

    names = e.best.objective.split(",")
    out = table(f"front of {e.best.name} {COLUMNS['shape'](e)}", *(f">{n}" for n in names), "opts?1")
    for r in members(e):
        out.add_row(*(Text(text_of(r, n)) for n in names), kept_opts(r.opts_display))
    return out


def page(e: ReportEntry) -> str:
    """The same for the page; '' for a kernel with one objective."""
    found = members(e)
    if not found:
        return ""
    names = e.best.objective.split(",")
    heads = "".join(f"<th scope=col class=n>{escape(n)}</th>" for n in names)
    rows = "".join(
        "<tr>"
        + "".join(f"<td class=n>{escape(text_of(r, n))}</td>" for n in names)
        + f"<td class=wide><code>{escape(short_of(r))}</code></td></tr>"
        for r in found
    )
    said = '<p class="soft">A dot is a measurement. The line is the front: no schedule is better in both.</p>'
    return (
        f"<h4>Front of {escape(' and '.join(names))}</h4><figure>{picture(found, e.history, names)}</figure>{said}"
        f"<table><thead><tr>{heads}<th scope=col>schedule</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def picture(front: Sequence[Row], history: Sequence[Row], names: Sequence[str]) -> str:
    """Everything that was measured of both, and the front as steps, as SVG. Axes begin at nothing."""
    inf = float("inf")
    points = [(x, y) for r in history if r.outcome == "ok" and (x := value_of(r, names[0])) < inf and (y := value_of(r, names[1])) < inf]
    steps = [(value_of(r, names[0]), value_of(r, names[1])) for r in front]
    # what is far off would press the front into a corner
    most = [max(4 * max(s[i] for s in steps), 1e-12) for i in (0, 1)]
    points = [p for p in points if p[0] <= most[0] and p[1] <= most[1]]
    far = [1.05 * max([p[i] for p in (*points, *steps)], default=1.0) or 1.0 for i in (0, 1)]

    def at(x: float, y: float) -> str:
        return f"{LEFT + (WIDE - LEFT - 10) * x / far[0]:.1f},{(HIGH - LOW) * (1 - y / far[1]) + 6:.1f}"

    line = [at(steps[0][0], far[1])]
    for i, (x, y) in enumerate(steps):
        line += [at(x, steps[i - 1][1])] if i else []
        line.append(at(x, y))
    line.append(at(far[0], steps[-1][1]))
    place = [p.split(",") for p in (at(x, y) for x, y in points)]
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="2.5" fill="currentColor" opacity="0.35"/>' for x, y in place)
    place = [p.split(",") for p in (at(x, y) for x, y in steps)]
    best = "".join(f'<circle cx="{x}" cy="{y}" r="4.5" fill="currentColor"/>' for x, y in place)
    edge = f"M{at(0, far[1]).replace(',', ' ')} L{at(0, 0).replace(',', ' ')} L{at(far[0], 0).replace(',', ' ')}"
    ends = [text_of(front[0], names[0]), text_of(front[-1], names[0]), text_of(front[0], names[1]), text_of(front[-1], names[1])]
    label = escape(f"front of {names[0]} and {names[1]}: from {ends[0]} and {ends[2]} to {ends[1]} and {ends[3]}")
    base = HIGH - 8
    return (
        f'<svg viewBox="0 0 {WIDE:g} {HIGH:g}" role="img" aria-label="{label}"><path d="{edge}" fill="none" stroke="currentColor" opacity="0.5"/>'
        f'{dots}<polyline points="{" ".join(line)}" fill="none" stroke="currentColor" stroke-width="1.5"/>{best}'
        f'<text x="{LEFT:g}" y="{base:g}" fill="currentColor" font-size="12">{escape(names[0])}, from 0</text>'
        f'<text x="4" y="18" fill="currentColor" font-size="12">{escape(names[1])}</text></svg>'
    )
