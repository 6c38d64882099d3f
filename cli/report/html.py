"""`tune report --html FILE`: one page with everything in it: the roofline, and for each kernel its figures, convergence, outcomes, front
and schedule. Nothing is fetched from anywhere, and every text from the cache is escaped."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from ... import devices
from ...cache.keys import for_text
from ...cache.objective_types import ENERGIES, FRONTS
from ...cache.ranking import undominated, value_of
from ...files.write_file import replace
from ...ir.errors import DeviceError, OptError, TilewrightError, UsageError
from ...ir.normal_form import canonical, normalise
from ...measure.roofline import SURE, share
from ...search.result import joules
from ..terminal.style import bytes_text, duration, stored_opts, table
from . import charts as report_charts
from . import svg as report_svg
from .entries import COLUMNS, FALLING, PLACES, ReportEntry, cell_text, notes, provenance, short_of

if TYPE_CHECKING:
    from ...cache import Row
    from ...targets import Target
    from ..terminal.style import Listing


WIDE, HIGH, LEFT, LOW = 420.0, 260.0, 70.0, 34.0
"""Sizes of the picture, and its margins for the labels."""


def members(e: ReportEntry) -> list[Row]:
    """The schedules of the front, the best in its first objective first; none for a kernel that was tuned for one objective."""
    if e.best.objective not in FRONTS:
        return []
    newest = {r.opts: r for r in e.history if r.usable}
    return undominated(newest.values(), e.best.objective)


def text_of(row: Row, name: str) -> str:
    """A row's value of an objective for a reader; a dash where it was not measured."""
    value = value_of(row, name)
    if value == float("inf"):
        return "-"
    if name in ENERGIES:
        return joules(value)
    return duration(value) if name == "time" else bytes_text(int(value)) if value else "none"


def front_listing(e: ReportEntry) -> Listing:
    """The front as a table for a terminal."""
    from rich.text import Text

    from .entries import COLUMNS

    names = e.best.objective.split(",")
    out = table(f"front of {e.best.name} {COLUMNS['shape'](e)}", *(f">{n}" for n in names), "opts?1")
    for r in members(e):
        out.add_row(*(Text(text_of(r, n)) for n in names), stored_opts(r.opts_display))
    return out


def front_page(e: ReportEntry) -> str:
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


LOOPS = 200
"""Lines of a loop nest that are shown."""
_FIGURES = {
    "time": "a call",
    "gflops": "GFLOP/s",
    "gbs": "GB/s",
    "roofline": "of roofline",
    "gain": "over start",
    "plain": "over plain",
    "energy": "energy of a call",
    "scratch": "scratch memory",
    "origin": "found by",
}
_BINDS = {"memory": "bound by memory", "compute": "bound by arithmetic", **{c: f"in cache, bound by {c}" for c in PLACES[1:]}}


def section(i: int, e: ReportEntry) -> str:
    """The section of entry `i`, as HTML."""
    r = e.best
    figures = "".join(
        f"<div><dt>{name}</dt><dd>{escape(cell_text(e, column))}</dd></div>"
        for column, name in _FIGURES.items()
        if cell_text(e, column) != "-"
    )
    where = f"{COLUMNS['shape'](e)} · {r.dtype} · {r.device}, {r.threads} thread{'s' * (r.threads != 1)}"
    binds = f" · {_BINDS[e.limits.bound]}" if e.limits else ""
    return (
        f'<section id="k{i}" aria-labelledby="h{i}"><h3 id="h{i}">{escape(r.name + for_text(r.objective, r.policy))} <small>{escape(where)}{binds}</small></h3><dl>{figures}</dl>'
        f"{front_page(e)}{_curves(e)}<h4>{len(e.candidates)} measurement{'s' * (len(e.candidates) != 1)}</h4>{bar(report_charts.outcomes(e.candidates))}"
        f'<h4>Schedule</h4><p class=opts>{_options(r.opts_display)}</p><pre tabindex=0 role=region aria-label="loop nest">{_nest(e)}</pre>'
        f"<details><summary>Where and how</summary>{_facts(e)}</details></section>"
    )


def bar(counts: dict[str, int]) -> str:
    """How measurements ended, as a bar of shares with its figures below."""
    total = sum(counts.values())
    parts = "".join(f'<i class="o-{k}" style="flex:{n}" title="{k}: {n} of {total}"></i>' for k, n in counts.items())
    text = "".join(f'<li><i class="o-{k}"></i>{k} <b>{n}</b></li>' for k, n in counts.items())
    return f'<div class="bar" aria-hidden="true">{parts}</div><ul class="legend" aria-label="outcomes">{text}</ul>'


def _curves(e: ReportEntry) -> str:
    curves = report_charts.curves(e)
    if not any(c.tried > 1 for c in curves):
        return ""
    charts = "".join(f"<figure>{report_svg.convergence(curves, against)}</figure>" for against in ("seconds", "measurements"))
    names = "".join(f'<li><i class="c{n % 6}"></i>{escape(c.label)}</li>' for n, c in enumerate(curves))
    said = '<p class="soft">A dot is a measurement, a line the best so far, and a cross at the upper edge one that failed.</p>'
    return f'<div class="pair">{charts}</div><ul class="legend" aria-label="searches">{names}</ul>{said}'


def _options(text: str) -> str:
    """Options, one chip each."""
    out = []
    for item in json.loads(text):
        op, on, arg = (*item, None, None)[:3] if isinstance(item, list) and len(item) >= 2 else (item, "", None)
        shown_arg = ", ".join(f"{k} {v}" for k, v in arg.items()) if isinstance(arg, dict) else "" if arg is None else str(arg)
        out.append(f"<span><b>{escape(str(op))}</b> {escape(str(on))}{' ' + escape(shown_arg) if shown_arg else ''}</span>")
    return " ".join(out) or "<em>none: as written</em>"


def _nest(e: ReportEntry) -> str:
    """The loops, each line in the colour of its kind; why not, where the kernel or its target is not known here."""
    from ... import named_kernels, opts

    r = e.best
    if source := _source(r):
        return escape(f"a source, whose loops are its own: tune show {source}")
    # a row may come from a stranger's bundle: only what is known by name here is looked at, never a file or module that a row names
    if not named_kernels.is_named(r.name):
        return "the loops of a kernel of one's own: tune show --kernel my.py:function"
    try:
        kernel = normalise(named_kernels.make(r.name, r.shape_dict, r.dtype))
        if canonical(kernel).hash != r.kernel:
            return f"{escape(r.name)} means another kernel in this version; its loops are not shown"
        scheduled = opts.apply(kernel, opts.parse(r.opts_display), _target(r.device))
    except OptError as error:
        return escape(f"not a schedule for {r.device} as it is here: {error}")
    except TilewrightError as error:
        return escape(f"the loops cannot be shown here: {error}")
    nest = opts.nest_lines(scheduled)
    lines = [("  " * n.depth + f"{n.label} {n.extent_text}".rstrip(), n.kind, n.detail) for n in nest[:LOOPS]]
    width = max((len(text) for text, kind, _ in lines if kind != "store"), default=0)
    out = [
        f"<span class=n-{kind}>{escape(text)}</span>{'  ' + escape(detail) if detail else ''}"
        if kind == "store"
        else f"{escape(text):<{width + len(escape(text)) - len(text)}}  <span class=n-{kind}>{kind}</span>{'  ' + escape(detail) if detail else ''}"
        for text, kind, detail in lines
    ]
    return "\n".join(out + [f"and {len(nest) - LOOPS} more lines"] * (len(nest) > LOOPS))


def _source(row: Row) -> str:
    """What `tune show` calls a source; '' for a kernel."""
    about = row.facts.get("source")
    return f"{about.get('file')}:{row.name}" if isinstance(about, dict) else ""


def _target(name: str) -> Target:
    """The target of a device that is known by name here. Raises DeviceError."""
    if name not in devices.names() and name.partition(":")[0] not in ("opencl", "cuda"):
        raise DeviceError(f"there is no device {name}")
    device = devices.get(name)
    device.check()
    return device.target


def clocks(about: Mapping[str, Any]) -> str:
    """What a provenance says of the device while it was timed, as a text; '' where it says nothing."""
    found = about.get("clocks")
    if not isinstance(found, dict):
        return ""
    out = []
    for key, form in (
        ("sm_mhz", "multiprocessors at {} MHz"),
        ("sm_mhz_held", "{} MHz by their own count just before"),
        ("memory_mhz", "memory at {} MHz"),
        ("temperature_c", "{} °C"),
        ("power_w", "{:.0f} W"),
    ):
        if isinstance(value := found.get(key), (int, float)):
            out.append(form.format(value))
    slowed = found.get("throttle")
    if isinstance(slowed, list) and slowed:
        out.append(f"slowed by {', '.join(map(str, slowed))}")
    return ", ".join(out)


def _facts(e: ReportEntry) -> str:
    from ... import named_kernels

    r, about = e.best, provenance(e.best)
    machine = about.get("machine")
    facts = {
        "measured": f"{r.when[:19].replace('T', ' ')} UTC, {r.n} calls",
        **({k: v for k, v in machine.items() if isinstance(v, (str, int, float))} if isinstance(machine, dict) else {}),
        "compiler": r.compiler,
        "target": r.target,
        "numerics": r.policy,
        "source": r.source_sha[:16],
        "tilewright": r.tool_version,
    }
    if said := clocks(about):
        facts["while it was timed"] = said
    if e.limits:
        facts["limits"] = f"{e.limits.peak / 1e9:.4g} GFLOP/s, {e.limits.bandwidth / 1e9:.3g} GB/s from {e.limits.place}"
    rows = "".join(f"<tr><th scope=row>{escape(str(k))}</th><td>{escape(str(v))}</td></tr>" for k, v in facts.items())
    command = f"<pre tabindex=0>{escape(shlex.join(['tune', 'show', source]))}</pre>" if (source := _source(r)) else ""
    if not source and named_kernels.is_named(r.name):
        shape = ",".join(f"{k}={v}" for k, v in r.shape_dict.items())
        words = ["tune", "run", "--kernel", r.name, "--shape", shape, "--dtype", r.dtype, "--device", r.device, "--threads", str(r.threads)]
        command = f"<pre tabindex=0>{escape(shlex.join(words))}</pre>"
    return f"<table class=facts>{rows}</table>{command}"


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
    text = escape(cell_text(e, name))
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
