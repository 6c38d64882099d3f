"""The report's charts as SVG that takes its colours from the page's style sheet. Every mark carries its text for readers and hover."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from ...measure.roofline import share
from ..terminal.style import duration
from .charts import Curve, Point, Roof, Tried

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
ROOM: Box = (50, 30, 516, 306)
"""Where names may be in a roofline of 520 by 356."""
STEPS = (0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6)
"""Lines between a point and its name."""


class _Axis:
    """Maps values to pixels, linear or logarithmic."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool) -> None:
        self.log = log
        if log:
            low, high = math.log10(low), math.log10(high)
        if high <= low:
            high = low + 1
        self.low, self.high, self.start, self.end = low, high, start, end

    def at(self, value: float) -> float:
        v = math.log10(value) if self.log else value
        return self.start + (v - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int = 5, whole: bool = False) -> list[float]:
        """Round values inside; `whole`: no fractions."""
        if self.log:
            steps = (1, 2, 5) if self.high - self.low < 2.2 else (1,)
            found = [m * 10.0**e for e in range(math.floor(self.low), math.ceil(self.high) + 1) for m in steps]
            return [t for t in found if self.low - 1e-9 <= math.log10(t) <= self.high + 1e-9]
        raw = (self.high - self.low) / count
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw)
        step = max(step, 1.0) if whole else step
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _number(v: float) -> str:
    return f"{v:g}" if v < 1e4 else f"{v:.0e}".replace("e+0", "e")


def _frame(x: _Axis, y: _Axis, x_title: str, y_title: str, y_text: Callable[[float], str] = _number, whole: bool = False) -> list[str]:
    out = []
    for t in x.ticks(whole=whole):
        p = x.at(t)
        out.append(f'<line class="grid" x1="{p:.1f}" y1="{y.start:.1f}" x2="{p:.1f}" y2="{y.end:.1f}"/>')
        out.append(f'<text class="tick" x="{p:.1f}" y="{y.start + 16:.1f}" text-anchor="middle">{_number(t)}</text>')
    for t in y.ticks():
        p = y.at(t)
        out.append(f'<line class="grid" x1="{x.start:.1f}" y1="{p:.1f}" x2="{x.end:.1f}" y2="{p:.1f}"/>')
        out.append(f'<text class="tick" x="{x.start - 6:.1f}" y="{p + 4:.1f}" text-anchor="end">{escape(y_text(t))}</text>')
    out.append(f'<text class="axis" x="{(x.start + x.end) / 2:.1f}" y="{y.start + 36:.1f}" text-anchor="middle">{x_title}</text>')
    out.append(f'<text class="axis" x="{x.start - 6:.1f}" y="{y.end - 10:.1f}" text-anchor="start">{y_title}</text>')
    return out


def _svg(width: int, height: int, label: str, body: Sequence[str], links: bool = False) -> str:
    """`links`: it holds links, so it is a group of things to readers and not one picture."""
    return f'<svg viewBox="0 0 {width} {height}" role="{"group" if links else "img"}" aria-label="{escape(label)}">{"".join(body)}</svg>'


@dataclass(frozen=True)
class Picture:
    """A roofline as SVG, and the points whose names found no place in it."""

    svg: str
    unnamed: tuple[Point, ...]


def roofline(roof: Roof) -> Picture:
    """Log-log: arithmetic intensity against rate, the roof above, and a stem from every kernel to its own limit. A point is a link."""
    points = roof.points
    bandwidth, peak = roof.limits or (None, None)
    ridge = [peak / bandwidth] if peak and bandwidth else []
    xs = [p.intensity for p in points] + ridge
    ys = [v for p in points for v in (p.gflops, p.limit)] + ([peak] if peak else [])
    x = _Axis(min(xs) / 2, max(xs) * 2.5, 56, 508, True)
    y = _Axis(min(ys) / 2, max(ys) * 1.8, 310, 32, True)
    body = _frame(x, y, "operations / byte of compulsory traffic", "GFLOP/s")
    limits = "no recorded limits"
    if peak and bandwidth:
        limits = f"{peak:.0f} GFLOP/s and {bandwidth:.3g} GB/s"
        body += _roof(x, y, peak, bandwidth)
    spots = [(x.at(p.intensity), y.at(p.gflops)) for p in points]
    at = labels([(p.name, *spot) for p, spot in zip(points, spots, strict=True)], ROOM, _notes(x, y, roof))
    drawn = [*zip(points, spots, at, strict=True)]
    for p, (px, py), _ in drawn:  # below all names
        top = y.at(p.limit)
        body.append(f'<path class="stem" d="M{px:.1f},{py:.1f} V{top:.1f} M{px - 4:.1f},{top:.1f} h8"/>')
    for p, spot, label in sorted(drawn, key=lambda i: i[0].gflops):
        body.append(_point(p, spot, label))
    unnamed = [p for p, label in zip(points, at, strict=True) if label is None]
    said = f"Roofline of {roof.device}: {len(points)} kernels, {limits}"
    return Picture(_svg(520, 356, said, body, links=True), tuple(unnamed))


def _notes(x: _Axis, y: _Axis, roof: Roof) -> list[Box]:
    """The places of the roof's own texts."""
    if roof.limits is None:
        return []
    bandwidth, peak = roof.limits
    _, (cx, cy), slope = _rise(x, y, peak, bandwidth)
    # the text along the slope, as a row of small boxes
    along = [(cx + t * math.cos(math.radians(slope)), cy - 4 + t * math.sin(math.radians(slope))) for t in (-26, -13, 0, 13, 26)]
    return [(x.end - 110, y.at(peak) - 20, x.end, y.at(peak)), *((a - 8, b - 8, a + 8, b + 8) for a, b in along)]


def _point(p: Point, spot: tuple[float, float], label: tuple[float, float] | None) -> str:
    """A kernel as a link: its dot, its name where that has a place, and a line between them where the two are apart."""
    px, py = spot
    about = escape(f"{p.label}: {p.gflops:.3g} GFLOP/s, {share(100 * p.share)} of its limit of {p.limit:.3g} GFLOP/s")
    lead = name = ""
    if label is not None:
        tx, ty = label
        left = tx < px
        edge, anchor = (px - 10, ' text-anchor="end"') if left else (tx, "")
        if abs(ty - py - 4) > 1:
            lead = f'<path class="lead" d="M{px:.1f},{py:.1f} L{edge + (2 if left else -2):.1f},{ty - 4:.1f}"/>'
        name = f'<text class="label" x="{edge:.1f}" y="{ty:.1f}"{anchor}>{escape(p.name)}</text>'
    return (
        f'{lead}<a href="#k{p.anchor}" aria-label="{about}"><circle class="hit" cx="{px:.1f}" cy="{py:.1f}" r="12"/>'
        f'<circle class="point" cx="{px:.1f}" cy="{py:.1f}" r="5.5"/>{name}</a>'
    )


def _rise(x: _Axis, y: _Axis, peak: float, bandwidth: float) -> tuple[Box, tuple[float, float], float]:
    """The roof's slope from its start to the ridge; the middle of its text; and its angle in degrees."""
    start = max(10**x.low, 10**y.low / bandwidth)
    rise = (x.at(start), y.at(start * bandwidth), x.at(peak / bandwidth), y.at(peak))
    slope = math.degrees(math.atan2(rise[3] - rise[1], rise[2] - rise[0]))
    return rise, ((rise[0] + rise[2]) / 2 - 6, (rise[1] + rise[3]) / 2 - 8), slope


def _roof(x: _Axis, y: _Axis, peak: float, bandwidth: float) -> list[str]:
    rise, (cx, cy), slope = _rise(x, y, peak, bandwidth)
    at = f"{cx:.1f} {cy:.1f}"
    return [
        f'<path class="roof" d="M{rise[0]:.1f},{rise[1]:.1f} L{rise[2]:.1f},{rise[3]:.1f} H{x.end:.1f}"/>',
        f'<text class="note" x="{x.end - 4:.1f}" y="{rise[3] - 7:.1f}" text-anchor="end">{peak:.0f} GFLOP/s</text>',
        f'<text class="note" text-anchor="middle" transform="translate({at}) rotate({slope:.1f})">{bandwidth:.3g} GB/s</text>',
    ]


def labels(
    points: Sequence[tuple[str, float, float]], room: Box, free_of: Sequence[Box] = (), letter: float = 8.6, line: float = 18.0
) -> list[tuple[float, float] | None]:
    """Where the base line of each point's name begins (y grows downward): beside it, on whichever side and as near as there is room for,
    and None where there is none: a name over another says nothing. `room` is the whole chart; `free_of` what must stay free; `letter` the
    width of a letter, `line` the height of a line."""
    left, top, right, bottom = room
    taken = [*free_of] + [(px - line / 2, py - line / 2, px + line / 2, py + line / 2) for _, px, py in points]
    out: list[tuple[float, float] | None] = []
    for name, px, py in points:
        width = letter * len(name) + 2
        tries = [(tx, py + 0.27 * line + step * line) for step in STEPS for tx in (px + 10, px - 10 - width)]
        boxes = [(tx, ty - 0.75 * line, tx + width, ty + 0.2 * line) for tx, ty in tries]
        free = next(
            (
                (at, box)
                for at, box in zip(tries, boxes, strict=True)
                if left < box[0] and box[2] < right and top < at[1] < bottom and not any(_meet(box, t) for t in taken)
            ),
            None,
        )
        if free is not None:
            taken.append(free[1])
        out.append(free and free[0])
    return out


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and a[2] > b[0] and a[1] < b[3] and a[3] > b[1]


def convergence(curves: Sequence[Curve], against: str) -> str:
    """Best time so far against `seconds` or `measurements`, one step line a search, a dot for every measurement that was timed, and a
    cross at the upper edge for every one that failed."""
    i = 0 if against == "seconds" else 1
    end = max([*(c.steps[-1][i] for c in curves), *(_place(t, i) for c in curves for t in c.trials)])
    times = [t for c in curves for *_, t in c.steps] + [t.seconds for c in curves for t in c.trials if t.seconds]
    x = _Axis(0 if i == 0 else 1, max(end, 1e-3 if i == 0 else 2), 76, 468, False)
    wide = max(times) / min(times)
    y = _Axis(min(times) * (0.97 if wide < 1.2 else 0.9), max(times) * (1.03 if wide < 1.2 else 1.1), 196, 32, wide > 4)
    body = _frame(x, y, against, "best time so far", duration, whole=i == 1)
    for n, c in enumerate(curves):
        body += _trials(x, y, n, c, i)
    for n, c in enumerate(curves):
        first, last = c.steps[0], c.steps[-1]
        d = f"M{x.at(first[i]):.1f},{y.at(first[2]):.1f}"
        for s in c.steps[1:]:
            d += f" H{x.at(s[i]):.1f} V{y.at(s[2]):.1f}"
        d += f" H{x.at(last[i]):.1f}"
        about = escape(f"{c.label}: {duration(first[2])} first, {duration(last[2])} after {last[1]} measurements and {last[0]:.1f} s")
        body.append(f'<path class="curve c{n % 6}" d="{d}"><title>{about}</title></path>')
        body.append(
            f'<circle class="end c{n % 6}" cx="{x.at(last[i]):.1f}" cy="{y.at(last[2]):.1f}" r="3.5"><title>{about}</title></circle>'
        )
    return _svg(480, 242, f"Every measurement, and the best time so far, against {against}, {len(curves)} searches", body)


def _place(t: Tried, i: int) -> float:
    """Where a measurement is along the first (0: seconds) or the second (1: measurements) axis of steps."""
    return t.n if i else t.at_s


def _trials(x: _Axis, y: _Axis, n: int, c: Curve, i: int) -> list[str]:
    """The measurements of search `n`: one path for the dots, and one for each kind of failure, so that thousands stay small."""
    dots = "".join(f"M{x.at(_place(t, i)):.1f},{y.at(t.seconds):.1f}h0" for t in c.trials if t.seconds)
    failed: dict[str, list[float]] = {}
    for t in c.trials:
        if not t.seconds:
            failed.setdefault(t.outcome, []).append(x.at(_place(t, i)))
    out = [f'<path class="trials c{n % 6}" d="{dots}"/>'] * bool(dots)
    for outcome, at in failed.items():
        d = "".join(f"M{p - 3:.1f},{y.end - 3:.1f}l6,6m0,-6l-6,6" for p in at)
        out.append(f'<path class="failed f-{escape(outcome)}" d="{d}"><title>{len(at)} {escape(outcome)}</title></path>')
    return out
