"""`tune report --html FILE`: one page with everything in it, nothing fetched from anywhere. Every text from the cache is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template

from ...files.output import replace
from ...ir.errors import UsageError
from ...measure.roofline import SURE, share
from . import charts as report_charts
from . import svg as report_svg
from .rows import COLUMNS, FALLING, ReportEntry, notes, shown
from .sections import bar, section

DETAILS = 200
"""Kernels with a section of their own; the table lists all."""


def write(path: str, found: Sequence[ReportEntry], graph: str = "", studies: str = "") -> None:
    """Write the page (`graph`: a section before all others, `studies`: one after them), in one step so that a reader never sees half of it. Raises UsageError where the file cannot be written."""
    try:
        replace(path, page(found, graph, studies))
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}; name a file in a folder that exists and has room") from None


def page(found: Sequence[ReportEntry], graph: str = "", studies: str = "", live: str = "") -> str:
    """The page as text. `live`: the script that fetches it again and again, and says in #live whether more is to come."""
    template = Template((files(__package__) / "report.html").read_text(encoding="utf-8"))
    devices = sorted({f"{e.best.device} with {e.best.threads} thread{'s' * (e.best.threads != 1)}" for e in found})
    measured = sum(len(e.candidates) for e in found)
    return template.substitute(
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        summary=escape(
            f"{len(found)} kernel{'s' * (len(found) != 1)}, {measured} measurement{'s' * (measured != 1)}, on {', '.join(devices)}"
            if found
            else "the cache holds nothing like that"
        ),
        graph=f"<h2>Kernels of a function</h2>{graph}" if graph else "",
        studies=studies,
        live=f'<p id="live" role="status"></p>{live}' if live else "",
        table=_table(found),
        find=_FIND if len(found) > 8 else "",
        outcomes=bar(report_charts.outcomes([r for e in found for r in e.candidates])) if found else "",
        roofs="".join(map(_roof, report_charts.roofs(found)))
        or "<p>No limits were known when these kernels were measured: <code>tune devices --probe</code></p>",
        kernels="".join(section(i, e) for i, e in enumerate(found[:DETAILS]))
        + (
            f"<p>The first {DETAILS} of {len(found)} kernels have a section; narrow the report with --kernel, --device or --since for others.</p>"
            if len(found) > DETAILS
            else ""
        ),
    )


_FIND = '<p class="find"><label for="find" class="sr">filter the table</label><input id="find" type="search" placeholder="filter: matmul bfloat16" autocomplete="off"><output id="left" aria-live="polite"></output></p>'
_HEADS = {
    "kernel": "kernel", "time": "time", "roofline": "of roofline", "gflops": "GFLOP/s", "gbs": "GB/s", "gain": "over start", "plain": "over plain",
    "device": "device", "origin": "found by", "opts": "schedule",
}  # fmt: skip
"""Columns of the table and their headings; a kernel's shape and type are below its name."""
_NUMBERS = ("time", "gflops", "gbs", "roofline", "gain", "plain")


def _table(found: Sequence[ReportEntry]) -> str:
    heads = {n: text for n, text in _HEADS.items() if n != "plain" or any(e.plain_s for e in found)}
    out = ["<table class=all><thead><tr>"]
    for name, text in heads.items():
        kind = " class=n" if name in _NUMBERS else ""
        first = "descending" if name in FALLING else "ascending"
        out.append(f'<th scope="col"{kind} aria-sort="none" data-first="{first}"><button type="button">{text}</button></th>')
    out.append("</tr></thead><tbody>")
    for i, e in enumerate(found):
        out.append("<tr>" + "".join(_cell(i, e, name) for name in heads) + "</tr>")
    out.append("</tbody></table>")
    return "".join(out) + "".join(f'<p class="soft">{escape(note)}</p>' for note in notes(found))


def _cell(i: int, e: ReportEntry, name: str) -> str:
    text = escape(shown(e, name))
    if name == "kernel":
        about = escape(f"{COLUMNS['shape'](e)} {e.best.dtype}").replace(",", ",<wbr>")
        return f'<th scope="row">{link(i, text)}<small>{about}</small></th>'
    if name == "device":
        return f"<td>{text}, {e.best.threads}</td>"
    if name in _NUMBERS:
        value = COLUMNS[name](e)
        meter = f'<span class="meter"><i style="width:{min(100, 100 * value):.0f}%"></i></span>' if name == "roofline" and value else ""
        return f'<td class=n data-v="{value if value else 0:.9g}">{text}{meter}</td>'
    return f"<td class=wide><code>{text}</code></td>" if name == "opts" else f"<td>{text}</td>"


def link(i: int, text: str) -> str:
    """The name of entry `i` (escaped), as a link to its section where it has one."""
    return f'<a href="#k{i}">{text}</a>' if i < DETAILS else text


def _roof(roof: report_charts.Roof) -> str:
    chart = report_svg.roofline(roof) if roof.points else report_svg.Picture("", ())
    about = [f"{name} only moves data: {share(100 * part)} of the bandwidth" for name, part in roof.movers]
    if any(100 * p.share > SURE for p in roof.points):
        about.append("some are above their limit, so the limits were measured while the machine was busy: tune devices --probe")
    if roof.limits is None:
        about.append("the limits themselves were not recorded, so only each kernel's own is drawn")
    text = f'<p class="soft">{escape("; ".join(about))}</p>' if about else ""
    if chart.unnamed:
        names = ", ".join(link(p.anchor, escape(f"{p.name} {100 * p.share:.0f} %")) for p in chart.unnamed)
        text = f'<p class="soft unnamed">without room for their names: {names}</p>{text}'
    return f"<figure><figcaption>{escape(roof.device)}</figcaption>{chart.svg}{text}</figure>"
