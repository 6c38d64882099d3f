"""`tune report --html FILE`: one page with everything in it, nothing fetched from anywhere. Every text from the cache is escaped."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from ..ir.errors import OptError, TilewrightError, UsageError
from . import report_charts, report_svg
from .report_rows import COLUMNS, Entry, provenance
from .style import duration, gain, percent, rate

DETAILS = 200
"""Kernels with a section of their own; the table lists all."""


def write(path: str, found: Sequence[Entry]) -> None:
    """Write the page, in one step so that a reader never sees half of it. Raises UsageError where the file cannot be written."""
    text = page(found)
    target = Path(path)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=target.absolute().parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as e:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise UsageError(f"cannot write {path}: {e.strerror}; name a file in a folder that exists and has room") from None


def page(found: Sequence[Entry]) -> str:
    """The page as text."""
    template = Template((files(__package__) / "report.html").read_text(encoding="utf-8"))
    devices = sorted({f"{e.best.device} ({e.best.threads})" for e in found})
    measured = sum(len(e.history) for e in found)
    return template.substitute(
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        summary=escape(f"{len(found)} kernels, {measured} measurements, on {', '.join(devices)}" if found else "the cache holds nothing like that"),
        table=_table(found),
        outcomes=_bar(report_charts.outcomes([r for e in found for r in e.history]), legend=True) if found else "",
        roofs="".join(f"<figure><figcaption>{escape(r.device)}</figcaption>{report_svg.roofline(r)}</figure>" for r in report_charts.roofs(found))
        or "<p>No limits were known when these kernels were measured: <code>tune devices --probe</code></p>",
        kernels="".join(_section(i, e) for i, e in enumerate(found[:DETAILS]))
        + (
            f"<p>The first {DETAILS} of {len(found)} kernels have a section; narrow the report with --kernel, --device or --since for others.</p>"
            if len(found) > DETAILS
            else ""
        ),
    )


def _table(found: Sequence[Entry]) -> str:
    heads = ("kernel", "shape", "dtype", "device", "time", "GFLOP/s", "GB/s", "roofline", "over seed", "tried", "schedule")
    numbers = {"time", "GFLOP/s", "GB/s", "roofline", "over seed", "tried"}
    out = ["<table><thead><tr>"]
    out += [f'<th scope="col"{" class=n" if h in numbers else ""} aria-sort="none"><button type="button">{h}</button></th>' for h in heads]
    out.append("</tr></thead><tbody>")
    for i, e in enumerate(found):
        r, t = e.best, e.seconds
        share = COLUMNS["roofline"](e)
        name = f'<a href="#k{i}">{escape(r.name)}</a>' if i < DETAILS else escape(r.name)
        meter = "" if share is None else f'<span class="meter"><i style="width:{min(100, 100 * share):.0f}%"></i></span>'
        cells: list[tuple[str, Any]] = [
            (name, None), (escape(str(COLUMNS["shape"](e))), None), (escape(r.dtype), None), (escape(f"{r.device}, {r.threads}"), None),
            (duration(t), t), (rate(r.flops / t / 1e9, ""), r.flops / t), (rate(r.bytes / t / 1e9, ""), r.bytes / t), (percent(r.roofline_s, t) + meter, share or 0),
            (gain(r.seed_s, t), COLUMNS["gain"](e) or 0), (str(len(e.history)), len(e.history)), (f"<code>{escape(str(COLUMNS['opts'](e)))}</code>", None),
        ]  # fmt: skip
        out.append("<tr>")
        for head, (text, value) in zip(heads, cells, strict=True):
            out.append(
                f'<td class="n" data-v="{value:.9g}">{text}</td>'
                if value is not None
                else f"<td{' class=wrap' if head in ('shape', 'schedule') else ''}>{text}</td>"
            )
        out.append("</tr>")
    out.append("</tbody></table>")
    return "".join(out)


def _bar(counts: dict[str, int], legend: bool = False) -> str:
    total = sum(counts.values())
    label = ", ".join(f"{k} {n}" for k, n in counts.items())
    parts = "".join(f'<i class="o-{k}" style="flex:{n}" title="{k}: {n} of {total}"></i>' for k, n in counts.items())
    text = "".join(f'<li><i class="o-{k}"></i>{k} <b>{n}</b></li>' for k, n in counts.items())
    return f'<div class="bar" role="img" aria-label="outcomes: {label}">{parts}</div>' + (f'<ul class="legend">{text}</ul>' if legend else "")


def _section(i: int, e: Entry) -> str:
    r, t = e.best, e.seconds
    figures = [
        ("time", duration(t)),
        ("GFLOP/s", rate(r.flops / t / 1e9, "")),
        ("GB/s", rate(r.bytes / t / 1e9, "")),
        ("of roofline", percent(r.roofline_s, t)),
        ("over seed", gain(r.seed_s, t)),
    ]
    curves = report_charts.curves(e)
    charts = "".join(f"<figure>{report_svg.convergence(curves, against)}</figure>" for against in ("seconds", "measurements")) if curves else ""
    if charts:
        names = "".join(f'<li><i class="c{n % 6}"></i>{escape(c.label)}</li>' for n, c in enumerate(curves))
        charts = f'<div class="pair">{charts}</div><ul class="legend">{names}</ul>'
    shape = ",".join(f"{k}={v}" for k, v in r.shape_dict.items())
    command = f"tune run --kernel {r.name} --shape {shape} --dtype {r.dtype} --device {r.device} --threads {r.threads}"
    machine = provenance(r).get("machine", {})
    facts = {
        **({k: v for k, v in machine.items() if isinstance(v, (str, int, float))} if isinstance(machine, dict) else {}),
        "measured": r.when,
        "compiler": r.compiler,
        "target": r.target,
    }
    rows = "".join(f"<tr><th scope=row>{escape(str(k))}</th><td>{escape(str(v))}</td></tr>" for k, v in facts.items())
    return (
        f'<section id="k{i}"><h3>{escape(r.name)} <small>{escape(str(COLUMNS["shape"](e)))} · {escape(r.dtype)} · {escape(r.device)}, {r.threads} thread{"s" * (r.threads != 1)}</small></h3>'
        f"<dl>{''.join(f'<div><dt>{k}</dt><dd>{v}</dd></div>' for k, v in figures)}</dl>"
        f"{charts}{_bar(report_charts.outcomes(e.history), legend=True)}"
        f"<h4>Schedule</h4><p class=opts>{_options(r.opts_display)}</p><pre tabindex=0>{escape(_nest(e))}</pre>"
        f"<details><summary>Where and how</summary><table class=facts>{rows}</table><pre tabindex=0>{escape(command)}</pre></details></section>"
    )


def _options(text: str) -> str:
    """Options, one chip each."""
    out = []
    for item in json.loads(text):
        arg = item[2] if len(item) > 2 else ""
        shown = ", ".join(f"{k}={v}" for k, v in arg.items()) if isinstance(arg, dict) else str(arg)
        out.append(f"<span><b>{escape(str(item[0]))}</b> {escape(str(item[1]))}{' ' + escape(shown) if shown else ''}</span>")
    return " ".join(out) or "<em>none: as written</em>"


def _nest(e: Entry) -> str:
    """The loops as text; why not, where the kernel or its target is not known here."""
    from .. import devices, kernels, opts
    from ..ir.normalise import normalise

    r = e.best
    try:
        kernel = normalise(kernels.make(r.name, r.shape_dict, r.dtype))
        scheduled = opts.apply(kernel, opts.parse(r.opts_display), devices.get(r.device).target)
    except OptError as error:
        return f"this version does not take the schedule any more: {error}"
    except (TilewrightError, OSError, ImportError) as error:
        return f"the loops cannot be shown here: {error}"
    lines = [("  " * n.depth + f"{n.label} {n.extent_text}".rstrip(), n.kind, n.detail) for n in scheduled.nest()]
    width = max((len(text) for text, kind, _ in lines if kind != "store"), default=0)
    return "\n".join(text if kind == "store" else f"{text:<{width}}  {kind}{'  ' + detail if detail else ''}" for text, kind, detail in lines)
