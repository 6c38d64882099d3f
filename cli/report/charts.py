"""What the report's charts show, as plain numbers: roofs, best-so-far curves, outcomes. Drawn by `svg` and `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from .entries import COLUMNS, ReportEntry, ratio

if TYPE_CHECKING:
    from ...cache import Row

OUTCOMES = ("ok", "slow", "wrong", "build", "timeout", "crash", "illegal")


@dataclass(frozen=True)
class Point:
    """A kernel under a roof: operations a byte of compulsory traffic, GFLOP/s, and the GFLOP/s it would have at its own limit, which is
    below the roof where the roofline counts polynomials or a wider type, and above the slope where its data stay in the caches."""

    name: str
    label: str
    intensity: float
    gflops: float
    limit: float
    anchor: int

    @property
    def share(self) -> float:
        """The share of its limit."""
        return self.gflops / self.limit


@dataclass(frozen=True)
class Roof:
    """One device and thread count: (GB/s, GFLOP/s) as they were measured there, None where no row recorded them, and the kernels.
    `movers`: kernels without arithmetic, which have no place under a roof, with the share of the bandwidth they reach."""

    device: str
    limits: tuple[float, float] | None
    points: tuple[Point, ...]
    movers: tuple[tuple[str, float], ...]


def roofs(found: Sequence[ReportEntry]) -> list[Roof]:
    """A roof for each device and thread count whose kernels have a limit, as high as the largest limits that the rows recorded."""
    groups: dict[tuple[str, str, int], list[tuple[int, ReportEntry, float]]] = {}
    for i, e in enumerate(found):
        share = COLUMNS["roofline"](e)
        if share and e.best.bytes:
            groups.setdefault((e.best.device, e.best.target, e.best.threads), []).append((i, e, share))
    out = []
    for (device, _, threads), members in groups.items():
        kept = [e.limits for _, e, _ in members if e.limits]
        slopes = [k.bandwidth for k in kept if k.place == "memory"]
        # caches are above the slope, each kernel with its own limit; where nothing else was tuned the slowest of them is the roof
        limits = ((max(slopes) if slopes else min(k.bandwidth for k in kept)) / 1e9, max(k.peak for k in kept) / 1e9) if kept else None
        points: list[Point] = []
        movers: list[tuple[str, float]] = []
        for i, e, share in members:
            label = f"{e.best.name} {COLUMNS['shape'](e)} {e.best.dtype}"
            intensity, gflops = ratio(e.best.flops, e.best.bytes), COLUMNS["gflops"](e)
            if intensity and gflops:
                points.append(Point(e.best.name, label, intensity, gflops, gflops / share, i))
            elif not e.best.flops:
                movers.append((e.best.name, share))
        out.append(Roof(f"{device}, {threads} thread{'s' * (threads != 1)}", limits, tuple(points), tuple(movers)))
    return out


class Tried(NamedTuple):
    """One measurement of a search: when in seconds, its number, how it ended, and its time in seconds (None where it has none)."""

    at_s: float
    n: int
    outcome: str
    seconds: float | None


@dataclass(frozen=True)
class Curve:
    """One search: after (seconds, measurements) the best time so far in seconds, and every measurement."""

    label: str
    steps: tuple[tuple[float, int, float], ...]
    trials: tuple[Tried, ...]

    @property
    def tried(self) -> int:
        """Measurements of the search."""
        return self.steps[-1][1]


def curves(entry: ReportEntry) -> list[Curve]:
    """A curve for each search of a kernel, oldest first: its first valid time, each better one, and where it ended, which is the time
    that its answer had in the finals where that is better."""
    runs: dict[str, list[Row]] = {}
    for r in entry.history:
        runs.setdefault(r.run_id, []).append(r)
    counted = set(map(id, entry.candidates))
    out = []
    for rows in runs.values():
        start = datetime.fromisoformat(rows[0].when)
        best, n = 0.0, 0
        steps: list[tuple[float, int, float]] = []
        trials: list[Tried] = []
        for r in rows:
            n += id(r) in counted
            t = r.t_min
            at_s = (datetime.fromisoformat(r.when) - start).total_seconds()
            if id(r) in counted:
                trials.append(Tried(at_s, n, r.outcome, t if t and ratio(t, 1.0) else None))
            better = r.outcome == "ok" and t and (not best or t < best)
            if better:
                best = t or 0.0
            if better or (best and r is rows[-1]):
                steps.append((at_s, n, best))
        if steps:
            # the answer's row has the name of the strategy that was asked for, a candidate's that of the one that proposed it
            answer = next((r.strategy for r in rows if r.verified), "") or next(
                (r.strategy for r in rows if r.strategy not in ("start", "seed", "stored")), "start"
            )
            out.append(Curve(f"{answer} {rows[0].when[:16].replace('T', ' ')}", tuple(steps), tuple(trials)))
    return out


def outcomes(rows: Sequence[Row]) -> dict[str, int]:
    """How many measurements ended how, in a fixed order, without zeros."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for r in rows:
        counts[r.outcome] = counts.get(r.outcome, 0) + 1
    return {k: n for k, n in counts.items() if n}
