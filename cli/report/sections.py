"""A kernel's part of the report's page: figures, convergence, outcomes, schedule, and where it was measured. Every text is escaped."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from ...cache.keys import for_text
from ...ir.errors import DeviceError, OptError, TilewrightError
from . import charts as report_charts
from . import front
from . import svg as report_svg
from .rows import COLUMNS, PLACES, ReportEntry, provenance, shown

if TYPE_CHECKING:
    from ...targets import Target

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
        f"<div><dt>{name}</dt><dd>{escape(shown(e, column))}</dd></div>" for column, name in _FIGURES.items() if shown(e, column) != "-"
    )
    where = f"{COLUMNS['shape'](e)} · {r.dtype} · {r.device}, {r.threads} thread{'s' * (r.threads != 1)}"
    binds = f" · {_BINDS[e.limits.bound]}" if e.limits else ""
    return (
        f'<section id="k{i}" aria-labelledby="h{i}"><h3 id="h{i}">{escape(r.name + for_text(r.objective))} <small>{escape(where)}{binds}</small></h3><dl>{figures}</dl>'
        f"{front.page(e)}{_curves(e)}<h4>{len(e.candidates)} measurement{'s' * (len(e.candidates) != 1)}</h4>{bar(report_charts.outcomes(e.candidates))}"
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
    from ... import kernels, opts
    from ...ir.normal_form import canonical, normalise

    r = e.best
    # a row may come from a stranger's bundle: only what is known by name here is looked at, never a file or module that a row names
    if not kernels.is_named(r.name):
        return "the loops of a kernel of one's own: tune show --kernel my.py:function"
    try:
        kernel = normalise(kernels.make(r.name, r.shape_dict, r.dtype))
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


def _target(name: str) -> Target:
    """The target of a device that is known by name here. Raises DeviceError."""
    from ... import devices

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
    from ... import kernels

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
    command = ""
    if kernels.is_named(r.name):
        shape = ",".join(f"{k}={v}" for k, v in r.shape_dict.items())
        words = ["tune", "run", "--kernel", r.name, "--shape", shape, "--dtype", r.dtype, "--device", r.device, "--threads", str(r.threads)]
        command = f"<pre tabindex=0>{escape(shlex.join(words))}</pre>"
    return f"<table class=facts>{rows}</table>{command}"
