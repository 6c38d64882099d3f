"""What the extremes of windows take that are spelled out (`lower/emit/reduce.py`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product

from ...ir.buffer import load_parts
from ...opts.analysis.extremes import LEAST, MOST, best_order, covering, spelled_out
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from .extremes import is_noted
from .shifted import Place, places


def window_work(s: Scheduled, nest: Nest, regs: Sequence[Part], copies: Mapping[str, int], lane: tuple[Part | None, int]) -> float | None:
    """Instructions of a body for extremes of windows that are spelled out, with tests of what is no number; None for other reductions, and
    where windows of one load share nothing."""
    steps = [p for p in regs if p.axis not in nest.axes]
    if not spelled_out(s, nest) or len(nest.loads) != 1:
        return None
    within = [{p.name: i for p, i in zip(steps, at, strict=True)} for at in product(*(range(p.trips) for p in steps))]
    results = [p for p in regs if p.axis in nest.axes]
    each = [{p.name: i for p, i in zip(results, at, strict=True)} for at in product(*(range(copies[p.name]) for p in results))]
    if len(within) < LEAST or len(within) * len(each) > MOST:
        return None
    _, indices, _ = load_parts(nest.loads[0])
    found = places(s, indices, regs, copies, lane)
    moving = [p.name for p in regs if any(p.var in s.terms(i) for i in indices)]
    if any(len(point) != len(moving) for point in found):
        return None
    number = {place: k for k, place in enumerate(dict.fromkeys(found.values()))}
    windows = [[number[found[tuple({**r, **step}[name] for name in moving)]] for step in within] for r in each]
    _, operations = best_order([p.name for p in steps], within, windows)
    pairs = len(within) * len(each)
    along = lane[0] is not None and s.terms(indices[-1]).get(lane[0].var) == 1
    tested = _tested(number, nest, lane[1] if along else 1) if is_noted(nest, s.target) else 0
    return operations + tested if tested <= pairs - tested else None


def _tested(found: Collection[Place], nest: Nest, width: int) -> int:
    """Vectors that are tested: as few as hold what is loaded."""
    if nest.expr.op != "load":
        return len(found)
    rows: dict[object, dict[int, Place]] = {}
    for rest, at in found:
        rows.setdefault((rest, at[:-1]), {})[at[-1]] = (rest, at)
    return sum(len(covering(row, width)) for row in rows.values())
