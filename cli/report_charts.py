"""What the report's charts show, as plain numbers: roofs, best-so-far curves, outcomes. Drawn by `report_svg` and `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from .report_rows import COLUMNS, Entry

if TYPE_CHECKING:
    from ..cache import Row

OUTCOMES = ("ok", "slow", "wrong", "build", "timeout", "crash", "illegal")


@dataclass(frozen=True)
class Point:
    """A kernel under a roof: operations a byte of compulsory traffic, GFLOP/s, share of its roofline (None if unknown)."""

    label: str
    intensity: float
    gflops: float
    share: float | None
    anchor: int


@dataclass(frozen=True)
class Roof:
    """One device and thread count: GB/s and GFLOP/s that its kernels' rooflines were computed with, and the kernels."""

    device: str
    bandwidth: float
    peak: float
    points: tuple[Point, ...]


def roofs(found: Sequence[Entry]) -> list[Roof]:
    """A roof for each device and thread count with limits. They are taken from the rows themselves: each says how long its work
    takes at best, so the largest rate among them is the limit (of memory, and of arithmetic) that bounded them."""
    groups: dict[tuple[str, str, int], list[tuple[int, Entry]]] = {}
    for i, e in enumerate(found):
        if e.best.roofline_s and e.best.bytes and e.best.flops:
            groups.setdefault((e.best.device, e.best.target, e.best.threads), []).append((i, e))
    out = []
    for (device, _, threads), members in groups.items():
        peak = max(e.best.flops / e.best.roofline_s for _, e in members if e.best.roofline_s) / 1e9
        bandwidth = max(e.best.bytes / e.best.roofline_s for _, e in members if e.best.roofline_s) / 1e9
        points = tuple(
            Point(f"{e.best.name} {COLUMNS['shape'](e)} {e.best.dtype}", e.best.flops / e.best.bytes, e.best.flops / e.seconds / 1e9, COLUMNS["roofline"](e), i)
            for i, e in members
        )
        out.append(Roof(f"{device}, {threads} thread{'s' * (threads != 1)}", bandwidth, peak, points))
    return out


@dataclass(frozen=True)
class Curve:
    """One search: after (seconds, measurements) the best time so far in seconds."""

    label: str
    steps: tuple[tuple[float, int, float], ...]


def curves(entry: Entry) -> list[Curve]:
    """A curve for each search of a kernel, oldest first."""
    runs: dict[str, list[Row]] = {}
    for r in entry.history:
        runs.setdefault(r.run_id, []).append(r)
    out = []
    for rows in runs.values():
        start = datetime.fromisoformat(rows[0].when)
        best = float("inf")
        steps = []
        for n, r in enumerate(rows, 1):
            if r.outcome == "ok" and r.t_med and r.t_med < best:
                best = r.t_med
            if best < float("inf"):
                steps.append(((datetime.fromisoformat(r.when) - start).total_seconds(), n, best))
        if steps:
            strategy = next((r.strategy for r in rows if r.strategy != "seed"), "seed")
            out.append(Curve(f"{strategy} {rows[0].when[:16].replace('T', ' ')}", tuple(steps)))
    return out


def outcomes(rows: Sequence[Row]) -> dict[str, int]:
    """How many measurements ended how, in a fixed order, without zeros."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for r in rows:
        counts[r.outcome] = counts.get(r.outcome, 0) + 1
    return {k: n for k, n in counts.items() if n}
