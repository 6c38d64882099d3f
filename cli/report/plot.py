"""`tune plot FILE.png|svg|pdf`: convergence, rooflines or outcomes as a picture, by matplotlib."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from ... import cache
from ...files.write_file import replace
from ...ir.errors import UsageError
from ..terminal.style import console, duration
from . import charts as report_charts
from . import svg as report_svg
from .entries import COLUMNS, ReportEntry, entries
from .report import EMPTY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
MOST = 12
"""Kernels in one picture of curves; the report's page has them all."""
_COLOURS = {
    "ok": "#17936b",
    "slow": "#94a3b8",
    "wrong": "#d1242f",
    "build": "#d9a20b",
    "timeout": "#8b3fb8",
    "crash": "#e2571e",
    "illegal": "#cfc7a5",
}


def run(args: Namespace) -> int:
    """Draw what the arguments pick and write it."""
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
        kind, drawn = Path(args.file).suffix.lower()[1:], BytesIO()
        figure.savefig(drawn, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
        replace(args.file, drawn.getvalue())
    except OSError as e:
        raise UsageError(f"cannot write {args.file}: {e.strerror}; name a file in a folder that exists and has room") from None
    console().print(f"wrote {args.file}", soft_wrap=True)
    return 0


def _name(e: ReportEntry) -> str:
    head = shorten(f"{e.best.name} {COLUMNS['shape'](e)}".replace(",", " "), 40, placeholder=" …")
    return _escaped(f"{head}\n{e.best.dtype} on {e.best.device}, {e.best.threads} thread{'s' * (e.best.threads != 1)}")


def _escaped(text: str) -> str:
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


def _convergence(found: Sequence[ReportEntry], figure: type[Figure]) -> Figure:
    with_curves = [(e, report_charts.curves(e)) for e in found]
    shown = [(e, c) for e, c in with_curves if any(x.tried > 1 for x in c)][:MOST]
    if not shown:
        raise UsageError("each of these searches measured one schedule only, so there is no curve to draw: tune longer, with --retune")
    fig, axes = _grid(len(shown), figure, 4.2, 3.1)
    for ax, (e, curves) in zip(axes, shown, strict=True):
        for c in curves:
            ax.step([s for s, _, _ in c.steps], [t for *_, t in c.steps], where="post", label=_escaped(c.label), linewidth=1.6)
            colour = ax.lines[-1].get_color()
            ax.plot(*[[v] for v in c.steps[-1][::2]], marker="o", markersize=4, color=colour)
            tried = [(t.at_s, t.seconds) for t in c.trials if t.seconds]
            ax.scatter([at for at, _ in tried], [t for _, t in tried], s=7, alpha=0.4, color=colour, linewidths=0)
        times = [t.seconds for c in curves for t in c.trials if t.seconds]
        if times and max(times) > 4 * min(times):
            ax.set_yscale("log")
            ax.yaxis.set_minor_formatter(lambda v, _: "")
        ax.set_title(_name(e), fontsize=9)
        ax.set_xlabel("seconds")
        ax.set_ylabel("best time so far")
        ax.yaxis.set_major_formatter(lambda v, _: duration(v) if v > 0 else "0")
        ax.grid(True, alpha=0.3)
        ax.legend(fontsize=7, framealpha=0.6, title=f"best {duration(e.seconds)}", title_fontsize=7)
    return fig


def _roofline(found: Sequence[ReportEntry], figure: type[Figure]) -> Figure:
    from matplotlib.ticker import LogLocator, NullFormatter

    roofs = [r for r in report_charts.roofs(found) if r.points]
    if not roofs:
        raise UsageError(
            "no limits were known when these kernels were measured, so there is no roofline: tune devices --probe, then tune again"
        )
    fig, axes = _grid(len(roofs), figure, 6.4, 4.4)
    for ax, roof in zip(axes, roofs, strict=True):
        xs = [p.intensity for p in roof.points]
        limits = "limits not recorded"
        if roof.limits:
            bandwidth, peak = roof.limits
            ridge = peak / bandwidth
            xs.append(ridge)
            limits = f"{peak:.0f} GFLOP/s, {bandwidth:.3g} GB/s"
        low, high = min(xs) / 2, max(xs) * 8
        if roof.limits:
            ax.plot([low, ridge, high], [low * bandwidth, peak, peak], color="#c2410c", linewidth=2)
        for p in roof.points:
            ax.plot([p.intensity] * 2, [p.gflops, p.limit], color="#2a5bd7", alpha=0.35, linewidth=1.2, marker="_", markevery=[1])
        ax.scatter([p.intensity for p in roof.points], [p.gflops for p in roof.points], color="#2a5bd7", zorder=3)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(low, high)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0,) if axis is ax.xaxis else (1.0, 3.0)))
            axis.set_major_formatter(lambda v, _: f"{v:g}")
            axis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("operations / byte of compulsory traffic")
        ax.set_ylabel("GFLOP/s")
        ax.set_title(_escaped(f"{roof.device}: {limits}"), fontsize=10)
        ax.grid(True, which="both", alpha=0.2)
    fig.draw_without_rendering()
    for ax, roof in zip(axes, roofs, strict=True):
        _annotate(ax, roof.points)
    return fig


def _annotate(ax: Any, points: Sequence[report_charts.Point]) -> None:
    """Names beside the points that have room for one. To be called when the axes have their place and range."""
    scale = 72.0 / ax.figure.dpi
    pixels = [tuple(map(float, ax.transData.transform((p.intensity, p.gflops)) * scale)) for p in points]
    frame = ax.bbox
    room = (float(frame.x0) * scale, -float(frame.y1) * scale, float(frame.x1) * scale, -float(frame.y0) * scale)
    names = [f"{p.name} {100 * p.share:.0f} %" for p in points]
    spots = report_svg.labels([(n, x, -y) for n, (x, y) in zip(names, pixels, strict=True)], room, letter=4.8, line=10)
    for p, name, (x, y), spot in zip(points, names, pixels, spots, strict=True):
        if spot is not None:
            offset = (spot[0] - x, -spot[1] - y)
            ax.annotate(_escaped(name), (p.intensity, p.gflops), textcoords="offset points", xytext=offset, fontsize=8)
    if left := spots.count(None):
        # below the axes' name, where no point is
        said = f"{left} of {len(points)} have no room for their names: tune report --html FILE lists them"
        ax.text(0.5, -0.16, said, transform=ax.transAxes, ha="center", va="top", fontsize=7)


def _outcomes(found: Sequence[ReportEntry], figure: type[Figure]) -> Figure:
    shown = found[: 4 * MOST]
    fig = figure(figsize=(8, 1.2 + 0.42 * len(shown)), layout="constrained")
    ax = fig.subplots()
    names = [_name(e).replace("\n", ", ") for e in shown]
    left = [0] * len(shown)
    counts = [report_charts.outcomes(e.candidates) for e in shown]
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
