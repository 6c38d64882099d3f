"""Extremes of windows whose steps are all unrolled.

They share what they have in common. Neighbouring results share parts of their windows, so steps are taken along one axis after the other, in
the order in which most parts are the same: three rows of results under 3 × 3 windows reduce five rows of three elements, and not nine.

NaN is rare. So each element is tested once, however many windows have it. Where a test fails, the store that reads the results has them
computed again, with notes of what is NaN (`nan_extremes`). A few vectors cover all lanes along which a window slides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...ir.body import identity
from ...ir.node import Node
from ...opts.analysis.extremes import LEAST, Group, best_order, covering, grouped, spelled_out
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment
from .accumulators import Accumulators
from .strided_windows import StridedWindows, lane_elements


class WindowExtremes(Accumulators):
    """The accumulators of extremes without a loop: one for each result. `supposed`: bools of vectors that hold where all elements are
    numbers, which the results count on."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        super().__init__(low, n, ev, combine)
        self.supposed: list[Val] = []

    def run(self, loops: Sequence[Part], accs: list[Val], empty: bool) -> list[Val]:
        """The results; as every reduction makes them where windows share nothing."""
        steps = self.ev.assignments(self.unrolled)
        if loops or empty or len(steps) < LEAST:
            return super().run(loops, accs, empty)
        points = [[{**s, **u} for u in steps] for s in self.live]
        strided = self._strided(points)
        if strided is not None:
            found = strided.results()
            self._suppose(list(strided.loaded.values()) if self._notes() else [])
            return found
        windows = [[self.ev.value(self.n.expr, p) for p in each] for each in points]
        pairs = sum(map(len, windows))
        tested = self._tested(points, windows) if self._notes() else []
        order, operations = best_order([p.name for p in self.unrolled], steps, windows)
        if 2 * len(tested) > pairs or (not tested and operations == pairs - len(windows)):
            return super().run(loops, accs, empty)
        known: dict[tuple[Val, ...], Val] = {}
        found = [self._reduced(grouped(order, steps, each), known) for each in windows]
        self._suppose(tested)
        return found

    def _suppose(self, tested: Sequence[Val]) -> None:
        """Suppose that all elements of some vectors are numbers: one test for two vectors."""
        b, twos = self.low.b, zip(tested[::2], [*tested[1::2], *tested[-1:]], strict=False)
        self.supposed = [b.op("and", b.op("eq", one, one), b.op("eq", two, two)) for one, two in twos]

    def _strided(self, points: Sequence[Sequence[Assignment]]) -> StridedWindows | None:
        """Windows that are some elements apart along the lanes; None where they are not, or it is not known what they read."""
        none, lane = identity(self.combine, self.dtype), self.ev.lane
        found = [[lane_elements(self.ev, self.n.expr, none, p) for p in each] for each in points]
        known = [[e for e in each if e is not None] for each in found]
        if lane is None or not known or sum(map(len, known)) < sum(map(len, found)):
            return None
        near = [
            (abs(known[0][at].first - known[0][0].first), p.name)
            for p in self.unrolled
            for at, u in enumerate(points[0])
            if _alone(u, p, self.unrolled)
        ]
        along = min(near)[1]
        rows_of = [tuple(sorted((k, v) for k, v in s.items() if k != lane.name)) for s in self.live]
        reduced = partial(self._reduced, known={})
        windows = StridedWindows(self.ev, known, [p[along] for p in points[0]], rows_of, reduced, self.identity())
        return windows if windows.suit() else None

    def _notes(self) -> bool:
        """Whether what is no number is lost by the one instruction for a step."""
        return self.dtype.is_float and not self.low.sched.target.keeps_nan

    def _reduced(self, group: Group, known: dict[tuple[Val, ...], Val]) -> Val:
        """The extreme of a group of elements; `known` are those that were computed."""
        if not isinstance(group, tuple):
            assert isinstance(group, Val)
            return group
        parts = tuple(self._reduced(g, known) for g in group)
        found = parts[0]
        for at in range(1, len(parts)):
            key = parts[: at + 1]
            if key not in known:
                known[key] = self._better(found, parts[at])
            found = known[key]
        return found

    def _better(self, one: Val, other: Val) -> Val:
        b = self.low.b
        if not self._notes():
            return b.op(self.combine, one, other)
        better = b.op("lt", one, other) if self.combine == "max" else b.op("lt", other, one)
        return b.op("select", better, other, one, dtype=self.dtype)

    def _tested(self, points: Sequence[Sequence[Assignment]], windows: Sequence[Sequence[Val]]) -> list[Val]:
        """Vectors that hold all elements. Of loads at consecutive places those are enough that cover them all."""
        places: dict[Node, dict[int, Val]] = {}
        out: dict[Val, None] = {}
        for each, values in zip(points, windows, strict=True):
            for p, x in zip(each, values, strict=True):
                found = self._place(p)
                if found is None:
                    out[x] = None
                else:
                    places.setdefault(found[0], {})[found[1]] = x
        for at in places.values():
            out |= dict.fromkeys(covering(at, self.ev.width))
        return list(out)

    def _place(self, point: Assignment) -> tuple[Node, int] | None:
        """(index, constant) of the first of the consecutive elements that a step loads; None where it loads no such."""
        ev, expr = self.ev, self.n.expr
        if expr.op != "load":
            return None
        _, address, mask, _ = ev.locate(expr)
        base, c, lane, left = ev.placed(address, point)
        return (base, c) if mask is None and lane == 1 and not left else None


def _alone(point: Assignment, part: Part, parts: Sequence[Part]) -> bool:
    """Whether a step is the second of one part, and the first of all others."""
    return all(point[p.name] == int(p is part) for p in parts)


def suits(low: Lowering, n: Nest) -> bool:
    """Whether an extreme's windows are unrolled as a whole, and all readers are stores that can compute it again."""
    target = low.sched.target
    if not low.b.expand or target.kind == "gpu" or target.groups or n.name in low.scope.closing:
        return False
    return spelled_out(low.sched, n) and not low.remaining(n) and not any(low.masked(a) for a in n.reduce_axes)
