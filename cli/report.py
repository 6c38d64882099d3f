"""`tune report`: what the cache holds, as a table of times, rates, share of the roofline and gain over the seed."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from .query import best_rows, select, shape_of
from .style import LEGEND, console, duration, gain, opts_text, percent, rate, table

if TYPE_CHECKING:
    from rich.table import Table

    from ..cache import Row


def run(args: Namespace) -> int:
    """Print the best measurement of every kernel the arguments name."""
    from .. import cache

    with cache.open(args.cache) as store:
        rows = best_rows(store, select(store, args))
    out = console()
    if not rows:
        out.print("the cache holds nothing like that; fill it with: tune run --kernel matmul --budget 20s")
        return 0
    out.print(report(rows))
    out.print(LEGEND, style="dim")
    return 0


def report(rows: list[Row]) -> Table:
    """The report of `rows` (usable ones)."""
    from ..opts.opt import parse

    out = table("fastest verified schedules", "kernel", "device", ">time", ">GFLOP/s", ">GB/s", ">roofline", ">gain", "opts")
    for r in rows:
        t = r.t_min or r.t_med or float("inf")
        out.add_row(
            f"[bold]{r.name}[/] {r.dtype}\n{shape_of(r)}",
            f"{r.device}\n{r.threads} thread{'s' * (r.threads != 1)}",
            duration(t),
            rate(r.flops / t / 1e9, ""),
            rate(r.bytes / t / 1e9, ""),
            percent(r.roofline_s, t),
            gain(r.seed_s, t),
            opts_text(parse(r.opts_display)),
        )
    return out
