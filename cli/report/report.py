"""`tune report`: what the cache holds, as a table of times, rates, share of the roofline and gain over the start schedule, or as a page."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...cache.keys import for_text
from ...cache.objectives import FRONTS
from ...ir.errors import UsageError
from ..cache.query import shape_of
from ..terminal.style import console, legend, stored_opts, table
from .entries import ReportEntry, cell_text, entries, measurements, notes
from .html import front_listing

if TYPE_CHECKING:
    from ..terminal.listing import Listing

EMPTY = "the cache holds nothing like that; fill it with: tune run --kernel matmul --budget 20s"


def run(args: Namespace) -> int:
    """Print the best measurement of every kernel the arguments name, or write the page."""
    from ... import cache
    from . import formats

    graph, studies = _graph(args), _studies(args)
    with cache.open(args.cache) as store:
        if args.format == "t4" and not args.html:
            rows = [r for r in measurements(store, args) if args.outcome in (None, r.outcome)]
            print(formats.as_t4(rows[: args.limit] if args.limit else rows))
            return 0
        found = entries(store, args)
    if args.html:
        from .html import write

        write(args.html, found, graph, studies)
        console().print(f"wrote {args.html}: {len(found)} kernels", soft_wrap=True)
        return 0
    if args.format != "table":
        print({"json": formats.as_json, "csv": formats.as_csv, "markdown": formats.as_markdown}[args.format](found))
        return 0
    out = console(wide=args.wide)
    if not found:
        out.print(EMPTY)
        return 0
    out.print(report(found, out.width < NARROW))
    for e in found:
        if e.best.objective in FRONTS:
            out.print(front_listing(e))
    for note in notes(found):
        out.print(note, style="dim")
    out.print(legend(), style="dim")
    return 0


def _graph(args: Namespace) -> str:
    """The section about --graph's function, '' without one."""
    if not args.graph:
        return ""
    if not args.html:
        raise UsageError("--graph is a part of the page that --html writes; `tune graph` prints it")
    from ..functions.pictures import section
    from ..functions.tracing import ask

    return section(ask(args.graph, None, None))


def _studies(args: Namespace) -> str:
    """The part of the page about --study's studies, '' without one."""
    if not args.study:
        return ""
    if not args.html:
        raise UsageError("--study is a part of the page that --html writes; optuna-dashboard shows a study by itself")
    from .study import studies_page

    return studies_page(args.study, args)


NARROW = 110
"""Columns of a terminal below which rates, and where a schedule is from, stand under other figures."""


def report(found: Sequence[ReportEntry], narrow: bool = False) -> Listing:
    """The report as a table. Narrow, it has five columns of two or three lines."""
    from rich.text import Text

    if narrow:
        out = table("fastest verified schedules", "kernel", ">time", ">roofline", ">over start?1", "opts?2")
    else:
        out = table(
            "fastest verified schedules",
            "kernel",
            "device?2",
            ">time",
            ">GFLOP/s?3",
            ">GB/s?4",
            ">roofline",
            ">over start?1",
            "found by?5",
            "opts?6",
        )
    for e in found:
        r = e.best
        kernel = Text.assemble((r.name, "bold"), for_text(r.objective, r.policy), f" {r.dtype}\n{shape_of(r)}")
        device, threads = r.device, f"{r.threads} thread{'s' * (r.threads != 1)}"
        time, flops, moved, share, gain = (cell_text(e, name) for name in ("time", "gflops", "gbs", "roofline", "gain"))
        if narrow:
            rates = "".join(f"\n{text} {unit}" for text, unit in ((flops, "GFLOP/s"), (moved, "GB/s")) if text != "-")
            out.add_row(
                kernel + Text(f"\n{device}, {threads}"), f"{time}{rates}", share, Text(f"{gain}\n{e.origin}"), stored_opts(r.opts_display)
            )
        else:
            out.add_row(kernel, Text(f"{device}\n{threads}"), time, flops, moved, share, gain, Text(e.origin), stored_opts(r.opts_display))
    return out
