"""`tune plot FILE.png|svg|pdf`: convergence, rooflines or outcomes as a picture, by matplotlib."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from ..ir.errors import UsageError
from . import report_charts
from .report import EMPTY
from .report_rows import COLUMNS, Entry, entries
from .style import console, duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
MOST = 12
"""Kernels in one picture of curves; the report's page has them all."""
_COLOURS = {"ok": "#17936b", "slow": "#94a3b8", "wrong": "#d1242f", "build": "#d9a20b", "timeout": "#8b3fb8", "crash": "#e2571e", "illegal": "#cfc7a5"}


def run(args: Namespace) -> int:
    """Draw what the arguments pick and write it."""
    from .. import cache

    if Path(args.file).suffix.lower() not in ENDINGS:
        raise UsageError(f"tune plot writes {', '.join(ENDINGS)}; give the file such an ending, not {Path(args.file).suffix or 'none'!r}")
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UsageError("tune plot needs matplotlib: pip install 'tilewright[plot]'; tune report --html FILE draws without it") from None
    with cache.open(args.cache) as store:
        found = entries(store, args)
    if not found:
        raise UsageError(EMPTY)
    figure = {"convergence": _convergence, "roofline": _roofline, "outcomes": _outcomes}[args.kind](found, Figure)
    try:
        # no date inside: the same cache gives the same file
        figure.savefig(args.file, dpi=160, metadata={"Date": None} if args.file.lower().endswith(".svg") else None)
    except OSError as e:
        raise UsageError(f"cannot write {args.file}: {e.strerror}; name a file in a folder that exists and has room") from None
    console().print(f"wrote {args.file}", soft_wrap=True, markup=False)
    return 0


def _name(e: Entry) -> str:
    head = shorten(f"{e.best.name} {COLUMNS['shape'](e)}".replace(",", " "), 40, placeholder=" …")
    return _plain(f"{head}\n{e.best.dtype} on {e.best.device}, {e.best.threads} thread{'s' * (e.best.threads != 1)}")


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")


def _grid(count: int, figure: type[Figure], width: float, height: float) -> tuple[Figure, list[Any]]:
    columns = min(3, count)
    lines = -(-count // columns)
    fig = figure(figsize=(width * columns, height * lines), layout="constrained")
    axes = list(fig.subplots(lines, columns, squeeze=False).flat)
    for extra in axes[count:]:
        extra.set_axis_off()
    return fig, axes[:count]


def _convergence(found: Sequence[Entry], figure: type[Figure]) -> Figure:
    shown = [e for e in found if report_charts.curves(e)][:MOST]
    fig, axes = _grid(len(shown), figure, 4.2, 3.1)
    for ax, e in zip(axes, shown, strict=True):
        best = 0.0
        for c in report_charts.curves(e):
            ax.step([s for s, _, _ in c.steps], [t for *_, t in c.steps], where="post", label=_plain(c.label), linewidth=1.6)
            best = c.steps[-1][2]
        ax.set_title(_name(e), fontsize=9)
        ax.set_xlabel("seconds")
        ax.set_ylabel("best time so far")
        ax.yaxis.set_major_formatter(lambda v, _: duration(v) if v > 0 else "0")
        ax.grid(True, alpha=0.3)
        ax.legend(fontsize=7, title=f"last {duration(best)}", title_fontsize=7)
    return fig


def _roofline(found: Sequence[Entry], figure: type[Figure]) -> Figure:
    roofs = report_charts.roofs(found)
    if not roofs:
        raise UsageError("no limits were known when these kernels were measured, so there is no roofline: tune devices --probe, then tune again")
    fig, axes = _grid(len(roofs), figure, 6.4, 4.4)
    for ax, roof in zip(axes, roofs, strict=True):
        xs = [p.intensity for p in roof.points] + [roof.peak / roof.bandwidth]
        low, high = min(xs) / 2, max(xs) * 8
        ridge = roof.peak / roof.bandwidth
        ax.plot([low, ridge, high], [low * roof.bandwidth, roof.peak, roof.peak], color="#c2410c", linewidth=2)
        ax.scatter([p.intensity for p in roof.points], [p.gflops for p in roof.points], color="#2a5bd7", zorder=3)
        for p in roof.points:
            share = f" {100 * p.share:.0f} %" if p.share else ""
            ax.annotate(_plain(f"{p.label.split(' ')[0]}{share}"), (p.intensity, p.gflops), textcoords="offset points", xytext=(6, -3), fontsize=8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(low, high)
        ax.set_xlabel("operations / byte of compulsory traffic")
        ax.set_ylabel("GFLOP/s")
        ax.set_title(_plain(f"{roof.device}: {roof.peak:.0f} GFLOP/s, {roof.bandwidth:.3g} GB/s"), fontsize=10)
        ax.grid(True, which="both", alpha=0.2)
    return fig


def _outcomes(found: Sequence[Entry], figure: type[Figure]) -> Figure:
    shown = found[: 4 * MOST]
    fig = figure(figsize=(8, 1.2 + 0.42 * len(shown)), layout="constrained")
    ax = fig.subplots()
    names = [_name(e).replace("\n", ", ") for e in shown]
    left = [0] * len(shown)
    counts = [report_charts.outcomes(e.history) for e in shown]
    for outcome in report_charts.OUTCOMES:
        values = [c.get(outcome, 0) for c in counts]
        if any(values):
            ax.barh(names, values, left=left, color=_COLOURS[outcome], label=outcome)
            left = [a + b for a, b in zip(left, values, strict=True)]
    ax.invert_yaxis()
    ax.set_xlabel("measurements")
    ax.tick_params(axis="y", labelsize=8)
    ax.legend(fontsize=8, ncols=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return fig
