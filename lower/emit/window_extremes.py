"""Extremes of windows whose steps are all unrolled.

They share what they have in common. Neighbouring results share parts of their windows, so steps are taken along one axis after the other, in
the order in which most parts are the same: three rows of results under 3 × 3 windows reduce five rows of three elements, and not nine.

NaN is rare. So each element is tested once, however many windows have it. Where a test fails, the store that reads the results has them
computed again, with notes of what is NaN (`nan_extremes`). A few vectors cover all lanes along which a window slides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

from ...ir.body import identity
from ...ir.buffer import load_parts
from ...ir.dtypes import bool_
from ...ir.node import Node
from ...opts.access import deinterleavable
from ...opts.analysis.extremes import LEAST, Group, best_order, covering, fully_unrolled, grouped
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Mem, Val
from ..access import interleaved
from ..access.memory_access import masks_alone
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment
from .accumulators import Accumulators

# strided windows ------------------------------------------------------------------------------------------------------
#
# Windows that are two to four elements apart along the lanes. Their rows are reduced as they lie in memory, in whole
# vectors, and what each lane wants is picked from those: a 3 × 3 window takes three shuffles then, and not nine, and
# its columns share their loads.


Lanes = tuple[bool, ...]
Reduced = Callable[[tuple[Val, ...]], Val]


@dataclass(frozen=True)
class LaneElements:
    """What a step of a window reads: of memory from `base` on, in lane i the element `first` + i · `step`, where it is `inside` and `wanted`.
    What is not inside is what a reduction begins with. `invariant`: nobody writes there."""

    mem: Mem
    base: Node
    first: int
    step: int
    inside: Lanes
    wanted: Lanes
    invariant: bool

    def offsets(self) -> Iterator[int]:
        """Those that are wanted."""
        return (self.first + i * self.step for i, w in enumerate(self.wanted) if w)


def lane_elements(ev: NestEval, expr: Node, none: Node, point: Assignment) -> LaneElements | None:
    """What an expression loads, or has `none` instead of; None where it is anything else, or where that is not known before anything runs."""
    expr = ev.selected(expr)
    inside: Lanes | None = (True,) * ev.width
    if expr.op == "where" and expr.src[2] is none:
        inside, expr = _known(ev, expr.src[0], point), ev.selected(expr.src[1])
    if expr.op != "load" or inside is None:
        return None
    mem, address, mask, invariant = ev.locate(expr)
    own = load_parts(expr)[2]
    there = inside if mask is None else _known(ev, mask, point)
    loaded = inside if own is None else _known(ev, own, point)
    if there is None or loaded is None or any(i and not x for i, x in zip(inside, loaded, strict=True)):
        return None
    base, first, step, left = ev.placed(address, point)
    wanted = tuple(i and t for i, t in zip(inside, there, strict=True))
    return None if left else LaneElements(mem, base, first, step, inside, wanted, invariant and mask is None)


def _known(ev: NestEval, cond: Node, point: Assignment) -> Lanes | None:
    found = ev.b.known(ev.value(cond, point))
    return (found,) * ev.width if isinstance(found, bool) else found


Rows = tuple[int, ...]
"""Where rows of a window are, from the first of them on."""


@dataclass
class _Strip:
    """The rows of a window under the lanes of its results. `starts`: where vectors begin that hold all that is wanted of the first row, up to `end`;
    `vectors`: what the rows come to in each of them; `picked`: by the first element, what is picked for lanes that all exist."""

    offsets: set[int] = field(default_factory=set)
    starts: list[int] = field(default_factory=list)
    end: int = 0
    vectors: dict[int, Val] = field(default_factory=dict)
    picked: dict[int, Val] = field(default_factory=dict)

    def cover(self, width: int) -> None:
        """As few vectors as hold everything; none reads past the last element that is wanted, where it can begin earlier."""
        wanted, covered = sorted(self.offsets), None
        self.end = wanted[-1] + 1
        for o in wanted:
            if covered is None or o >= covered:
                self.starts.append(max(wanted[0], min(o, self.end - width)))
                covered = self.starts[-1] + width


@dataclass
class StridedWindows:
    """Windows of some results: for each, `found` has what each step reads; `along`: for each step, which one it is along the lanes. `reduced` takes
    the extreme of some vectors; `none` is what it begins with. `loaded`: all vectors that were loaded."""

    ev: NestEval
    found: Sequence[Sequence[LaneElements]]
    along: Sequence[int]
    rows_of: Sequence[object]
    reduced: Reduced
    none: Val
    loaded: dict[tuple[int, int], Val] = field(default_factory=dict)
    strips: dict[tuple[object, Rows], _Strip] = field(default_factory=dict)

    def suit(self) -> bool:
        """Whether rows can be reduced first: all steps read one array at one stride, and the rows of a column the same lanes."""
        ev, first = self.ev, self.found[0][0]
        if ev.width < interleaved.LEAST or not deinterleavable(first.step) or self.ev.kept_output(first.mem):
            return False
        if any((e.mem, e.base, e.step) != (first.mem, first.base, first.step) for each in self.found for e in each):
            return False
        for at, each in enumerate(self.found):
            for column in self._columns(each):
                if len({(e.inside, e.wanted) for e in column}) > 1:
                    return False
                if column:
                    self._strip(at, column).offsets.update(column[0].offsets())
        for strip in self.strips.values():
            strip.cover(ev.width)
        return masks_alone(ev, first.mem) or all(s.starts[-1] + ev.width <= s.end for s in self.strips.values())

    def results(self) -> list[Val]:
        """The extreme of each window."""
        out = []
        for at, each in enumerate(self.found):
            columns = [self._deinterleaved(self._strip(at, column), column) for column in self._columns(each) if column]
            out.append(self.reduced(tuple(columns)) if columns else self.none)
        return out

    def _columns(self, each: Sequence[LaneElements]) -> list[list[LaneElements]]:
        """The steps of a window by where they are along the lanes, without rows that have no element."""
        out: dict[int, list[LaneElements]] = {}
        for e, at in zip(each, self.along, strict=True):
            out.setdefault(at, []).extend([e] if any(e.wanted) else [])
        return list(out.values())

    def _strip(self, at: int, column: Sequence[LaneElements]) -> _Strip:
        rows = tuple(e.first - column[0].first for e in column)
        return self.strips.setdefault((self.rows_of[at], rows), _Strip())

    def _row(self, e: LaneElements, start: int, end: int) -> Val:
        """The vector of a row from an element on, without what is past the end."""
        ev, width, key = self.ev, self.ev.width, (start, min(start + self.ev.width, end))
        if key not in self.loaded:
            mask = None if start + width <= end else ev.b.const(tuple(start + i < end for i in range(width)), bool_, width)
            self.loaded[key] = ev.low.load(e.mem, e.base, start, width, mask, e.invariant)
        return self.loaded[key]

    def _vector(self, strip: _Strip, column: Sequence[LaneElements], start: int) -> Val:
        if start not in strip.vectors:
            rows = [e.first - column[0].first for e in column]
            strip.vectors[start] = self.reduced(tuple(self._row(column[0], start + r, strip.end + r) for r in rows))
        return strip.vectors[start]

    def _deinterleaved(self, strip: _Strip, column: Sequence[LaneElements]) -> Val:
        """What lanes want of the rows of a column."""
        b, width, e = self.ev.b, self.ev.width, column[0]
        wanted: Mapping[int, int] = {i: e.first + i * e.step for i, w in enumerate(e.wanted) if w}
        before = strip.picked.get(e.first - e.step)
        pair = self._pair(strip, list(wanted.values()))
        if pair is not None:
            vectors = [self._vector(strip, column, s) for s in pair]
            at = {i: next(n * width + o - s for n, s in enumerate(pair) if 0 <= o - s < width) for i, o in wanted.items()}
            found = b.shuffle(vectors[0], vectors[1], tuple(at.get(i, 0) for i in range(width)))
        elif before is not None:  # a lane further, and one more element
            last = wanted.get(width - 1, strip.starts[-1])
            start = next(s for s in strip.starts if 0 <= last - s < width)
            found = b.shuffle(before, self._vector(strip, column, start), (*range(1, width), width + last - start))
        else:
            found = self._from_many(strip, column, wanted)
        if all(e.wanted):
            strip.picked[e.first] = found
        return found if all(e.inside) else b.op("select", b.const(e.inside, bool_, width), found, self.none, dtype=found.dtype)

    def _pair(self, strip: _Strip, wanted: Sequence[int]) -> tuple[int, int] | None:
        """Where two vectors begin that hold all of some elements."""
        width = self.ev.width
        starts = [s for s in strip.starts if s < wanted[-1] + 1 and s + width > wanted[0]]
        return next((p for p in product(starts, starts) if all(any(0 <= o - s < width for s in p) for o in wanted)), None)

    def _from_many(self, strip: _Strip, column: Sequence[LaneElements], wanted: Mapping[int, int]) -> Val:
        """Elements of more than two vectors."""
        width, found, there = self.ev.width, None, set[int]()
        for s in strip.starts:
            mine = {i: o - s for i, o in wanted.items() if 0 <= o - s < width and i not in there}
            if mine:
                vector = self._vector(strip, column, s)
                kept, new = vector if found is None else found, vector
                at = [width + mine[i] if i in mine else i if i in there else 0 for i in range(width)]
                found = self.ev.b.shuffle(kept, new, tuple(at))
                there |= set(mine)
        assert found is not None
        return found


# window extremes ------------------------------------------------------------------------------------------------------


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
            if _second_of_one(u, p, self.unrolled)
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


def _second_of_one(point: Assignment, part: Part, parts: Sequence[Part]) -> bool:
    """Whether a step is the second of one part, and the first of all others."""
    return all(point[p.name] == int(p is part) for p in parts)


def suits(low: Lowering, n: Nest) -> bool:
    """Whether an extreme's windows are unrolled as a whole, and all readers are stores that can compute it again."""
    target = low.sched.target
    if not low.b.expand or target.kind == "gpu" or target.groups or n.name in low.scope.closing:
        return False
    return fully_unrolled(low.sched, n) and not low.remaining(n) and not any(low.masked(a) for a in n.reduce_axes)
