"""The report's charts as SVG that takes its colours from the page's style sheet. Every mark carries its text for readers and hover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .report_charts import Curve, Roof
from .style import duration


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

    def ticks(self, count: int = 5) -> list[float]:
        if self.log:
            steps = (1, 2, 5) if self.high - self.low < 1.6 else (1,)
            found = [m * 10.0**e for e in range(math.floor(self.low), math.ceil(self.high) + 1) for m in steps]
            return [t for t in found if self.low - 1e-9 <= math.log10(t) <= self.high + 1e-9]
        raw = (self.high - self.low) / count
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw)
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _number(v: float) -> str:
    return f"{v:g}" if v < 1e4 else f"{v:.0e}".replace("e+0", "e")


def _frame(x: _Axis, y: _Axis, x_title: str, y_title: str, y_text: object = _number) -> list[str]:
    assert callable(y_text)
    out = []
    for t in x.ticks():
        p = x.at(t)
        out.append(f'<line class="grid" x1="{p:.1f}" y1="{y.start:.1f}" x2="{p:.1f}" y2="{y.end:.1f}"/>')
        out.append(f'<text class="tick" x="{p:.1f}" y="{y.start + 16:.1f}" text-anchor="middle">{_number(t)}</text>')
    for t in y.ticks():
        p = y.at(t)
        out.append(f'<line class="grid" x1="{x.start:.1f}" y1="{p:.1f}" x2="{x.end:.1f}" y2="{p:.1f}"/>')
        out.append(f'<text class="tick" x="{x.start - 6:.1f}" y="{p + 4:.1f}" text-anchor="end">{escape(str(y_text(t)))}</text>')
    out.append(f'<text class="axis" x="{(x.start + x.end) / 2:.1f}" y="{y.start + 36:.1f}" text-anchor="middle">{x_title}</text>')
    out.append(f'<text class="axis" x="{x.start - 6:.1f}" y="{y.end - 10:.1f}" text-anchor="start">{y_title}</text>')
    return out


def _svg(width: int, height: int, label: str, body: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}"><title>{escape(label)}</title>{"".join(body)}</svg>'


def roofline(roof: Roof) -> str:
    """Log-log: arithmetic intensity against rate, the roof above, a link on every kernel."""
    ridge = roof.peak / roof.bandwidth
    xs = [p.intensity for p in roof.points] + [ridge]
    ys = [p.gflops for p in roof.points] + [roof.peak]
    x = _Axis(min(xs) / 2, max(xs) * 2.5, 64, 700, True)
    y = _Axis(min(ys) / 2.5, max(ys) * 1.6, 330, 30, True)
    left, right = 10**x.low, 10**x.high
    floor = 10**y.low
    start = max(left, floor / roof.bandwidth)
    line = f"M{x.at(start):.1f},{y.at(start * roof.bandwidth):.1f} L{x.at(ridge):.1f},{y.at(roof.peak):.1f} L{x.at(right):.1f},{y.at(roof.peak):.1f}"
    body = _frame(x, y, "operations / byte of compulsory traffic", "GFLOP/s")
    body.append(f'<path class="roof" d="{line}"/>')
    body.append(f'<text class="note" x="{x.end - 4:.1f}" y="{y.at(roof.peak) - 7:.1f}" text-anchor="end">{roof.peak:.0f} GFLOP/s</text>')
    mid = math.sqrt(start * ridge)
    slope = math.degrees(math.atan2(y.at(roof.peak) - y.at(start * roof.bandwidth), x.at(ridge) - x.at(start)))
    at = f"{x.at(mid):.1f} {y.at(mid * roof.bandwidth) - 8:.1f}"
    body.append(f'<text class="note" text-anchor="middle" transform="translate({at}) rotate({slope:.1f})">{roof.bandwidth:.3g} GB/s</text>')
    taken: list[tuple[float, float, float]] = []
    for p in sorted(roof.points, key=lambda p: -p.gflops):
        px, py = x.at(p.intensity), y.at(p.gflops)
        share = f", {100 * p.share:.0f} % of the roofline" if p.share else ""
        about = escape(f"{p.label}: {p.gflops:.3g} GFLOP/s{share}")
        name = escape(p.label.split(" ")[0])
        width = 7.0 * len(name) + 14
        right_side = px + width < x.end
        ly = py + 4
        while any(abs(ly - ty) < 14 and not (px + width < tx or tx + tw < px) for tx, ty, tw in taken):
            ly += 14
        taken.append((px, ly, width))
        text_at = f'x="{px + 9:.1f}" y="{ly:.1f}"' if right_side else f'x="{px - 9:.1f}" y="{ly:.1f}" text-anchor="end"'
        body.append(
            f'<a href="#k{p.anchor}"><circle class="point" cx="{px:.1f}" cy="{py:.1f}" r="5.5"><title>{about}</title></circle><text class="label" {text_at}>{name}</text></a>'
        )
    return _svg(720, 376, f"Roofline of {roof.device}: {len(roof.points)} kernels under {roof.peak:.0f} GFLOP/s and {roof.bandwidth:.3g} GB/s", body)


def convergence(curves: Sequence[Curve], against: str) -> str:
    """Best time so far against `seconds` or `measurements`, one step line a search."""
    i = 0 if against == "seconds" else 1
    end = max(c.steps[-1][i] for c in curves)
    times = [t for c in curves for *_, t in c.steps]
    x = _Axis(0, max(end * 1.04, 1 if i else 1e-3), 72, 356, False)
    wide = max(times) / min(times) > 1.02
    y = _Axis(min(times) * 0.93, max(times) * (1.1 if wide else 1.07), 186, 28, max(times) / min(times) > 4)
    body = _frame(x, y, against, "best time so far", duration)
    for n, c in enumerate(curves):
        first = c.steps[0]
        d = f"M{x.at(first[i]):.1f},{y.at(first[2]):.1f}"
        for s in c.steps[1:]:
            d += f" H{x.at(s[i]):.1f} V{y.at(s[2]):.1f}"
        d += f" H{x.at(c.steps[-1][i]):.1f}"
        about = escape(f"{c.label}: {duration(first[2])} first, {duration(c.steps[-1][2])} after {c.steps[-1][1]} measurements and {c.steps[-1][0]:.1f} s")
        body.append(f'<path class="curve c{n % 6}" d="{d}"><title>{about}</title></path>')
        last = c.steps[-1]
        body.append(f'<circle class="end c{n % 6}" cx="{x.at(last[i]):.1f}" cy="{y.at(last[2]):.1f}" r="3.5"><title>{about}</title></circle>')
    return _svg(372, 232, f"Best time so far against {against}, {len(curves)} searches", body)
